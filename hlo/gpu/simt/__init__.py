"""A SIMT machine: executes PTX without a GPU."""
