"""Modules from text, protos, StableHLO, JAX and calls, and back to these formats."""
