"""Sorting: sort, topk."""
