"""Where the elements of an array lie in memory."""

from hlo.values.layout.places import (
    Tiling,
    checked_layout,
    element_bits,
    layout_problem,
    linear_index,
    multi_index,
    physical_bytes,
    physical_dims,
    physical_elements,
    place_of,
    tilings,
    unravel,
    validate_layout,
    with_padded_dims,
)

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
    "place_of",
    "tilings",
    "unravel",
    "validate_layout",
    "with_padded_dims",
]


def __dir__() -> list[str]:
    return sorted(__all__)
