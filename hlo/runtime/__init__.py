"""Runs native code on numpy arrays. Independent of opcodes and code generation."""
