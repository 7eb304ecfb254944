"""What notebooks show of shapes: text and sizes; `hlo.values.layout` attaches it."""

from __future__ import annotations

from itertools import islice

from hlo.errors import InferError
from hlo.support.notebook import ROWS, block, fold, paragraph, table
from hlo.support.quantities import bytes_text, count_text
from hlo.values.layout.addressing import physical_bytes
from hlo.values.types import UNBOUNDED, ArrayShape, BufferShape, Shape


def shape_html(shape: Shape) -> str:
    """Return a line about a shape; of a tuple also a table of its leaves, folded."""
    if not shape.is_tuple:
        elements, size = _sizes(shape)
        words = (str(shape), f"{elements} elements" if elements else "", size)
        return block(paragraph(", ".join(filter(None, words))))
    leaves = list(shape.leaves())
    rows = (
        (",".join(map(str, path)), str(leaf), *_sizes(leaf)) for path, leaf in islice(leaves, ROWS)
    )
    head = ["index", "shape", "elements", "bytes"]
    content = table(head, rows, left=(0, 1), count=len(leaves))
    return block(paragraph(str(shape)), fold(f"{len(leaves)} leaves", content))


def _sizes(shape: Shape) -> tuple[str, str]:
    """Return the elements and the bytes of a leaf, "" where there are no such numbers."""
    if isinstance(shape, BufferShape):
        shape = shape.element
    if not isinstance(shape, ArrayShape) or UNBOUNDED in shape.dims:
        return "", ""
    at_most = "at most " if shape.is_dynamic else ""
    try:
        size = bytes_text(physical_bytes(shape))
    except InferError:  # a layout that the verifier would refuse
        size = ""
    return f"{at_most}{count_text(shape.num_elements)}", size
