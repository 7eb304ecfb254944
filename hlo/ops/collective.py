"""Collectives: operations between replicas and partitions."""
