"""Reduction: the smallest module that a test still finds something wrong with."""
