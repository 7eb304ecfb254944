"""Halo exchange: what devices need of a cut dimension, from the devices that have it."""
