"""Passes that change element types."""
