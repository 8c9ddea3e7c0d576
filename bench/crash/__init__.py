"""Crash tests as a command: `python -m bench.crash`. Its processes have this package as an installed app."""
