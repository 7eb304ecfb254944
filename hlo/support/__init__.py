"""Shared by all packages: limits on memory and time, argument checks, arrays of other libraries."""
