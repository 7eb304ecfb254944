"""Microkernels: the innermost parts of matrix products, one file for each family.

`docs/adding-a-microkernel.md` tells what a file has to have.
"""

# Importing a family registers its microkernels.
from hlo.codegen.kernels.matmul.microkernels import (  # noqa: F401
    amx,
    bf16_pairs,
    dot_product,
    outer_product,
    pairs,
    quads,
    squares,
)
from hlo.codegen.kernels.matmul.microkernels.block import block_function
from hlo.codegen.kernels.matmul.microkernels.record import (
    Microkernel,
    PanelFormat,
    PanelOrder,
    Writes,
)
from hlo.codegen.kernels.matmul.microkernels.registry import family, microkernels

__all__ = [
    "Microkernel",
    "PanelFormat",
    "PanelOrder",
    "Writes",
    "block_function",
    "family",
    "microkernels",
]


def __dir__() -> list[str]:
    return sorted(__all__)
