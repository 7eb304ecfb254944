"""Kernels that are more than a loop over independent elements: one file for each family."""

from hlo.codegen.kernels import (  # noqa: F401
    contraction,
    convolution,
    fft,
    linalg,
    random,
    reduction,
    scatter,
    select_scatter,
    sorting,
    topk,
    update,
    window,
)
