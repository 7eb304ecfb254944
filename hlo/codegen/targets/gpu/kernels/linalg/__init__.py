"""Factors and triangular systems on GPUs, by square tiles in shared memory."""
