"""Interestingness tests: what still has to be wrong with a module that is reduced."""
