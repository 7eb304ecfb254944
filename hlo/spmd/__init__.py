"""SPMD: one program on many devices, from shardings of its values."""
