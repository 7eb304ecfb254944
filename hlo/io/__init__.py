"""Files and arguments: arrays read and written, random inputs, inputs of a command line."""
