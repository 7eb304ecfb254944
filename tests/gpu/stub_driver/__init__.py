"""A library with the CUDA driver's functions whose device is the SIMT machine."""
