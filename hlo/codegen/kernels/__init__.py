"""Kernels that are more than a loop over independent elements: one file for each family."""

from hlo.codegen.kernels import contraction, reduction, select_scatter, update, window  # noqa: F401
