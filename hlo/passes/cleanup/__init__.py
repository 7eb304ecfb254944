"""Passes that remove and simplify instructions: DCE, CSE, folding, canonicalization."""
