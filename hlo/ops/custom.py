"""Custom calls."""
