"""The op table: one declaration for each opcode, one file for each family."""

# Importing a family declares its operations.
from hlo.ops.collective import collectives, exchange
from hlo.ops.contract import contraction, convolution, linalg
from hlo.ops.control import asynchronous, flow, leaves, structure
from hlo.ops.elementwise import arithmetic, conversion, selection
from hlo.ops.host import custom, transfer
from hlo.ops.movement import dimension_sizes, dynamic_slice, gather_scatter, rearrange
from hlo.ops.random import random
from hlo.ops.reduce import normalization, reduction, sorting, window
from hlo.ops.spec import OPS, Category, OpSpec, Trait

__all__ = ["OPS", "Category", "OpSpec", "Trait"]


def __dir__() -> list[str]:
    return sorted(__all__)
