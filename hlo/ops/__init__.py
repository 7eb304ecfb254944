"""The op table: one declaration for each opcode, one file for each family."""

# Importing a family declares its operations.
from hlo.ops import (  # noqa: F401
    asynchronous,
    collective,
    contraction,
    control,
    conversion,
    convolution,
    custom,
    data,
    dynamic,
    dynamic_slice,
    elementwise,
    exchange,
    host,
    indexing,
    linalg,
    movement,
    normalization,
    random,
    reduction,
    selection,
    sorting,
    structure,
    window,
)
from hlo.ops.spec import OPS, Category, OpSpec, Trait

__all__ = ["OPS", "Category", "OpSpec", "Trait"]


def __dir__() -> list[str]:
    return sorted(__all__)
