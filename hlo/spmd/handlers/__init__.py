"""Handlers of operations, a file a family: how each is partitioned."""
