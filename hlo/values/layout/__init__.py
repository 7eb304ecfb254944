"""Layouts: at which offset in memory each element of an array is."""

from hlo.values.layout.addressing import (
    Tiling,
    checked_layout,
    element_bits,
    layout_problem,
    linear_index,
    multi_index,
    physical_bytes,
    physical_dims,
    physical_elements,
    position_of,
    tilings,
    unravel,
    validate_layout,
    with_padded_dims,
)
from hlo.values.layout.notebook import shape_html
from hlo.values.types import Shape

__all__ = [
    "Tiling",
    "checked_layout",
    "element_bits",
    "layout_problem",
    "linear_index",
    "multi_index",
    "physical_bytes",
    "physical_dims",
    "physical_elements",
    "position_of",
    "tilings",
    "unravel",
    "validate_layout",
    "with_padded_dims",
]


def __dir__() -> list[str]:
    return sorted(__all__)


Shape._repr_html_ = shape_html
