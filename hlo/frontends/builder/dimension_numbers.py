"""Which dimensions play which part: of products, gathers, scatters, convolutions; padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hlo.errors import InferError
from hlo.ops.attrs import CONV_DIMS, ConvDims, WindowDim
from hlo.support.signature import shown

Dims = Sequence[int]
Padding = str | Sequence[tuple[int, int]]
"""`VALID` or `SAME`, or low and high padding of each dimension."""


@dataclass(frozen=True)
class DotDimensionNumbers:
    """The dimensions that a product sums over, and those that it treats each by itself."""

    lhs_contracting_dimensions: Dims = ()
    rhs_contracting_dimensions: Dims = ()
    lhs_batch_dimensions: Dims = ()
    rhs_batch_dimensions: Dims = ()

    def attrs(self) -> dict[str, Any]:
        """Return the attributes of the operation."""
        return {
            "lhs_batch_dims": tuple(self.lhs_batch_dimensions),
            "lhs_contracting_dims": tuple(self.lhs_contracting_dimensions),
            "rhs_batch_dims": tuple(self.rhs_batch_dimensions),
            "rhs_contracting_dims": tuple(self.rhs_contracting_dimensions),
        }


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """A product's dimensions, the ragged one of the left side and the groups' of the right."""

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Dims
    rhs_group_dimensions: Dims = ()

    def attrs(self) -> dict[str, Any]:
        """Return the attributes of the operation."""
        return {
            **self.dot_dimension_numbers.attrs(),
            "lhs_ragged_dims": tuple(self.lhs_ragged_dimensions),
            "rhs_group_dims": tuple(self.rhs_group_dimensions),
        }


@dataclass(frozen=True)
class GatherDimensionNumbers:
    """How positions in the indices and in the result of a gather map to the operand."""

    offset_dims: Dims
    collapsed_slice_dims: Dims
    start_index_map: Dims
    index_vector_dim: int
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()

    def attrs(self) -> dict[str, Any]:
        """Return the attributes of the operation."""
        return {
            "offset_dims": tuple(self.offset_dims),
            "collapsed_slice_dims": tuple(self.collapsed_slice_dims),
            "start_index_map": tuple(self.start_index_map),
            "operand_batching_dims": tuple(self.operand_batching_dims),
            "start_indices_batching_dims": tuple(self.start_indices_batching_dims),
            "index_vector_dim": self.index_vector_dim,
        }


@dataclass(frozen=True)
class ScatterDimensionNumbers:
    """How positions in the indices and in the updates of a scatter map to the operand."""

    update_window_dims: Dims
    inserted_window_dims: Dims
    scatter_dims_to_operand_dims: Dims
    index_vector_dim: int
    input_batching_dims: Dims = ()
    scatter_indices_batching_dims: Dims = ()

    def attrs(self) -> dict[str, Any]:
        """Return the attributes of the operation."""
        return {
            "update_window_dims": tuple(self.update_window_dims),
            "inserted_window_dims": tuple(self.inserted_window_dims),
            "scatter_dims_to_operand_dims": tuple(self.scatter_dims_to_operand_dims),
            "input_batching_dims": tuple(self.input_batching_dims),
            "scatter_indices_batching_dims": tuple(self.scatter_indices_batching_dims),
            "index_vector_dim": self.index_vector_dim,
        }


ConvolutionDimensionNumbers = ConvDims | str
"""The parts of a convolution's dimensions, also as HLO's labels: `b01f_01io->b01f`."""


def conv_dims(numbers: ConvolutionDimensionNumbers) -> ConvDims:
    """Return dimension numbers that may be given as labels. Raises TextError or InferError."""
    if isinstance(numbers, str):
        found = CONV_DIMS.parse(numbers)
        assert isinstance(found, ConvDims)
        return found
    n = numbers
    input_ = (n.input_batch, n.input_feature, *n.input_spatial, *n.input_unknown)
    kernel = (n.kernel_output, n.kernel_input, *n.kernel_spatial, *n.kernel_unknown)
    output = (n.output_batch, n.output_feature, *n.output_spatial, *n.output_unknown)
    for what, dims in (("input", input_), ("kernel", kernel), ("output", output)):
        need_different(what, dims)
    return n


def default_conv_dims(spatial: int) -> ConvDims:
    """Return batch, feature, space for input and result, output, input, space for the kernel."""
    space = tuple(range(2, 2 + spatial))
    return ConvDims(
        input_batch=0, input_feature=1, input_spatial=space,
        kernel_input=1, kernel_output=0, kernel_spatial=space,
        output_batch=0, output_feature=1, output_spatial=space,
    )  # fmt: skip


def need_different(what: str, numbers: Sequence[int]) -> None:
    """Check that dimension numbers of one array are its dimensions, each once."""
    if sorted(numbers) != list(range(len(numbers))):
        raise InferError(
            f"convolution: {what} dimension numbers {list(numbers)} are not "
            f"0 to {len(numbers) - 1}, each once",
            code="bad-dimension",
        )


# --- windows ------------------------------------------------------------------------------------


def _each(
    opcode: str, what: str, values: Sequence[int] | None, rank: int, default: int
) -> Sequence[int]:
    if values is None:
        return [default] * rank
    if len(values) != rank:
        raise InferError(
            f"{opcode}: {what} has {len(values)} elements, {rank} are needed", code="bad-dimension"
        )
    return values


def make_window(
    opcode: str,
    base: Sequence[int],
    dims: Sequence[int],
    strides: Sequence[int] | None,
    padding: Padding,
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
    reversal: Sequence[bool] | None = None,
) -> tuple[WindowDim, ...]:
    """Return a window over an array of sizes `base`; what is not given is 1, or false.

    padding: `VALID` adds none; `SAME` adds so much that with strides of 1 the result is as large as
    the base, what does not divide evenly at the high end. Raises InferError.
    """
    rank = len(base)
    sizes = _each(opcode, "window_dimensions", dims, rank, 1)
    steps = _each(opcode, "window_strides", strides, rank, 1)
    holes = _each(opcode, "base_dilations", base_dilations, rank, 1)
    gaps = _each(opcode, "window_dilations", window_dilations, rank, 1)
    turned = _each(opcode, "window_reversal", reversal, rank, False)
    window = [
        WindowDim(size, stride, 0, 0, hole, gap, bool(turn))
        for size, stride, hole, gap, turn in zip(sizes, steps, holes, gaps, turned, strict=True)
    ]
    pads = make_padding(opcode, base, window, padding)
    return tuple(
        WindowDim(d.size, d.stride, low, high, d.lhs_dilate, d.rhs_dilate, d.reversal)
        for d, (low, high) in zip(window, pads, strict=True)
    )


def make_padding(
    opcode: str, base: Sequence[int], window: Sequence[WindowDim], padding: Padding
) -> Sequence[tuple[int, int]]:
    """Return low and high padding of each dimension. Raises InferError for an unknown name."""
    if not isinstance(padding, str):
        if len(padding) != len(base):
            raise InferError(
                f"{opcode}: padding has {len(padding)} pairs, {len(base)} are needed",
                code="bad-dimension",
            )
        if any(len(pair) != 2 for pair in padding):
            raise InferError(
                f"{opcode}: padding needs a pair (low, high) per dimension", code="bad-value"
            )
        return padding
    if padding.upper() == "VALID":
        return [(0, 0)] * len(base)
    if padding.upper() != "SAME":
        raise InferError(
            f"{opcode}: padding {shown(padding)} is neither VALID nor SAME", code="bad-value"
        )
    pairs = []
    for n, d in zip(base, window, strict=True):
        extent = d.padded_base(n)
        positions = -(-extent // max(d.stride, 1))
        total = max(0, (positions - 1) * d.stride + d.dilated_size() - extent)
        pairs.append((total // 2, total - total // 2))
    return pairs
