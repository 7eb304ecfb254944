"""Decisions about kernels: roles, fusion, order, live ranges."""
