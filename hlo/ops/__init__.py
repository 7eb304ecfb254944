"""The op table: one declaration for each opcode, one file for each family."""

# Importing a family declares its operations.
from hlo.ops.collective import collectives, exchange  # noqa: F401
from hlo.ops.contract import contraction, convolution, linalg  # noqa: F401
from hlo.ops.control import asynchronous, flow, leaves, structure  # noqa: F401
from hlo.ops.elementwise import arithmetic, conversion, selection  # noqa: F401
from hlo.ops.host import custom, transfer  # noqa: F401
from hlo.ops.movement import dimension_sizes, dynamic_slice, gather_scatter, rearrange  # noqa: F401
from hlo.ops.random import random  # noqa: F401
from hlo.ops.reduce import normalization, reduction, sorting, window  # noqa: F401
from hlo.ops.spec import OPS, TRANSCENDENTAL_COST, Category, OpSpec, Trait

__all__ = ["OPS", "TRANSCENDENTAL_COST", "Category", "OpSpec", "Trait"]


def __dir__() -> list[str]:
    return sorted(__all__)
