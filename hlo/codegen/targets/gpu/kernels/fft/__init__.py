"""Fourier transforms on GPUs: rows in shared memory, long rows in two steps."""
