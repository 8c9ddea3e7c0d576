"""The README's coffee shop."""
