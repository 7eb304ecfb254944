"""Passes that say whether a tool runs passes: XLA's tests of its own tool name them."""
