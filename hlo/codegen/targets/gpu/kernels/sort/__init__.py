"""Sorts on GPUs: tiles in shared memory, merges of sorted runs, radix sorts of long rows."""
