"""Kernels written for GPUs: each for one thread, which knows its block."""
