"""What is bound into the sandbox: run there as plain files, imported here for the format of the messages only."""
