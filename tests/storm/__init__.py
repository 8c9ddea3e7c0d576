"""An app of the tests: an agent whose model follows simple rules, for child processes and for the storm."""
