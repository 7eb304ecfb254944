"""Sorts and top-k."""
