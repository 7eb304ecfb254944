"""Operations that move data between devices: swap, broadcast, permute.

Source: XLA's `shape_inference.cc` and `hlo_verifier.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.errors import InferError
from hlo.ops.attrs import BOOL, INT_GROUPS, INTS, Attr, need
from hlo.ops.collective import evaluate as kernels
from hlo.ops.collective import factors
from hlo.ops.collective.rules import CHANNEL, CONSTRAINED, GROUPS, TRAITS, infer_rooted, need_groups
from hlo.ops.control.start_done import element_of_operand
from hlo.ops.rules import (
    array_operand,
    array_operands,
    need_compatible,
    need_one_dim,
    need_tuple,
    need_type,
    tuple_or_single,
)
from hlo.ops.spec import Category, OpSpec, OpView, Trait, register
from hlo.values.types import ArrayShape, Shape, TupleShape

_infer_second, _second = element_of_operand(1, least=2)

# --- all-to-all, ragged-all-to-all ----------------------------------------------------------------


def _infer_all_to_all(op: OpView) -> Shape:
    operands = array_operands(op)
    if op.split_dimensions is not None:
        # One array is cut and the parts swapped, so that its shape stays.
        need_one_dim(op, *(s.rank for s in operands))
        if len(operands) != 1:
            raise InferError(
                f"all-to-all: with dimensions it takes 1 operand, not {len(operands)}",
                attr="dimensions", code="operand-count",
            )  # fmt: skip
        return operands[0]
    for i, operand in enumerate(operands):
        need_compatible(op, operand, operands[0], f"operands {i} and 0", operand=i)
        # They are parts of one buffer.
        if operand.layout != operands[0].layout:
            raise InferError(
                f"all-to-all: operands {i} and 0 differ in layout: {operand} and {operands[0]}",
                operand=i, code="layout-mismatch",
            )  # fmt: skip
    return TupleShape(tuple(operands))


register(
    OpSpec(
        "all-to-all",
        (1, None),
        _infer_all_to_all,
        kernels.all_to_all,
        Category.COLLECTIVE,
        "003 AllToAll",
        (
            "f32[2,3] all-to-all(f32[2,3] x), replica_groups={{0}}, dimensions={0}",
            "(f32[2,3]) all-to-all(f32[2,3] x), replica_groups={{0}}",
        ),
        attrs={**CONSTRAINED, "dimensions": Attr(INTS)},
        verify=need_groups,
        traits=TRAITS | Trait.KEEPS_LAYOUT,
        factors=factors.along_dimension,
    )
)


def _infer_ragged_all_to_all(op: OpView) -> Shape:
    source, target = array_operand(op, 0), array_operand(op, 1)
    if (
        source.element_type is not target.element_type
        or not source.rank
        or source.dims[1:] != target.dims[1:]
    ):
        raise InferError(
            f"ragged-all-to-all: input {source.to_string(False)} and output "
            f"{target.to_string(False)} differ beyond the first dimension", operand=1,
        )  # fmt: skip
    for i in range(2, 6):
        offsets = need_type(op, i, lambda et: et.is_integer, "an integer type")
        if offsets.rank not in (1, 2):
            raise InferError(
                f"ragged-all-to-all: operand {i} has shape {offsets.to_string(False)}, "
                "rank 1 or 2 is needed", operand=i,
            )  # fmt: skip
        need_compatible(op, offsets, op.operand_shape(2), f"operands {i} and 2", operand=i)
    return target


register(
    OpSpec(
        "ragged-all-to-all",
        6,
        _infer_ragged_all_to_all,
        kernels.ragged_all_to_all,
        Category.COLLECTIVE,
        "003 RaggedAllToAll",
        (
            """HloModule ragged_example
ENTRY e {
  x = f32[4,2] parameter(0)
  y = f32[5,2] parameter(1)
  from = s32[1,2] constant({{0, 2}})
  sizes = s32[1,2] constant({{2, 1}})
  to = s32[1,2] constant({{3, 0}})
  ROOT r = f32[5,2] ragged-all-to-all(x, y, from, sizes, to, sizes), replica_groups={{0}}
}
""",
        ),
        attrs={**GROUPS, "dimensions": Attr(INTS)},
        verify=need_groups,
        traits=TRAITS,
        factors=factors.ragged_all_to_all,
    )
)

# --- collective-broadcast, collective-permute -----------------------------------------------------


register(
    OpSpec(
        "collective-broadcast",
        (1, None),
        infer_rooted,
        kernels.collective_broadcast,
        Category.COLLECTIVE,
        "003 CollectiveBroadcast",
        ("f32[2,3] collective-broadcast(f32[2,3] x), replica_groups={{0}}",),
        attrs={**GROUPS, "has_dynamic_root": Attr(BOOL, default=False)},
        verify=need_groups,
        traits=TRAITS,
        factors=factors.each,
    )
)


def _need_in_place_operands(op: OpView) -> None:
    """Check the operands of a permutation between buffers: input, output, offsets of each."""
    if len(op.operand_shapes) != 4:
        raise InferError(
            f"{op.opcode}: with slice_sizes it takes 4 operands, not {len(op.operand_shapes)}",
            attr="slice_sizes", code="operand-count",
        )  # fmt: skip
    source, target = op.operand_shapes[:2]
    if _buffer_count(source) != _buffer_count(target):
        raise InferError(
            f"{op.opcode}: operand 0 is {source.to_string(False)}, operand 1 is "
            f"{target.to_string(False)}: as many buffers are needed", operand=1,
        )  # fmt: skip
    for buffer, offsets in ((0, 2), (1, 3)):
        shape = op.operand_shape(buffer)
        starts = need_tuple(op, op.operand_shape(offsets), 0, f"operand {offsets}",
                            operand=offsets)  # fmt: skip
        if isinstance(shape, TupleShape):
            if len(shape.elements) != len(starts.elements):
                raise InferError(
                    f"{op.opcode}: operand {offsets} has {len(starts.elements)} elements for "
                    f"{len(shape.elements)} buffers", operand=offsets,
                )  # fmt: skip
            for part, at in zip(shape.elements, starts.elements, strict=True):
                _need_offsets(op, part, at, offsets)
        else:
            _need_offsets(op, shape, starts, offsets)
    _need_slices(op)


def _need_slices(op: OpView) -> None:
    """Check that each slice has one size, which fits into both of its buffers."""
    buffers = list(zip(*map(_arrays, op.operand_shapes[:2]), strict=True))
    read, written = op.operand_shapes[2:]
    if isinstance(op.operand_shape(0), TupleShape):
        offsets = list(zip(_elements(read), _elements(written), strict=True))
    else:
        offsets = [(read, written)]
    slices: list[tuple[ArrayShape, ArrayShape]] = []
    for (source, target), both in zip(buffers, offsets, strict=True):
        if source.element_type != target.element_type:
            raise InferError(
                f"{op.opcode}: slices of {source.to_string(False)} are written into "
                f"{target.to_string(False)}", operand=1,
            )  # fmt: skip
        counts = [_slice_count(each) for each in both]
        if counts[0] != counts[1]:
            raise InferError(
                f"{op.opcode}: {counts[0]} slices are read, {counts[1]} written", operand=3
            )
        slices += [(source, target)] * counts[0]
    sizes = op.slice_sizes_list
    if len(sizes) != len(slices):
        raise InferError(
            f"{op.opcode}: {len(sizes)} sizes for {len(slices)} slices", attr="slice_sizes"
        )
    for size, ends in zip(sizes, slices, strict=True):
        for shape in ends:
            if len(size) != shape.rank or any(
                not 0 <= n <= most for n, most in zip(size, shape.dims, strict=True)
            ):
                raise InferError(
                    f"{op.opcode}: a slice of {list(size)} does not fit into "
                    f"{shape.to_string(False)}", attr="slice_sizes", code="bad-value",
                )  # fmt: skip


def _arrays(buffers: Shape) -> list[ArrayShape]:
    return [s for s in _elements(buffers) if isinstance(s, ArrayShape)]


def _elements(shape: Shape) -> Sequence[Shape]:
    return shape.elements if isinstance(shape, TupleShape) else (shape,)


def _slice_count(offsets: Shape) -> int:
    """Return the number of tuples of offsets: one, or as many as stand in a tuple."""
    elements = _elements(offsets)
    return len(elements) if any(s.is_tuple for s in elements) else 1


def _buffer_count(shape: Shape) -> int | None:
    """Return the number of buffers in a tuple; None for an array, which is not the same as one."""
    return len(shape.elements) if isinstance(shape, TupleShape) else None


def _need_offsets(op: OpView, buffer: Shape, offsets: Shape, operand: int) -> None:
    """Check a tuple of one offset for each dimension of a buffer, or a tuple of such tuples."""
    tuples = [offsets]
    if isinstance(offsets, TupleShape) and any(s.is_tuple for s in offsets.elements):
        tuples = list(offsets.elements)
    for each in tuples:
        if not (
            isinstance(buffer, ArrayShape)
            and isinstance(each, TupleShape)
            and len(each.elements) == buffer.rank
            and all(isinstance(s, ArrayShape) and not s.dims for s in each.elements)
        ):
            raise InferError(
                f"{op.opcode}: operand {operand} has shape {each.to_string(False)}, a scalar for "
                f"each dimension of {buffer.to_string(False)} is needed", operand=operand,
            )  # fmt: skip


def _infer_collective_permute(op: OpView) -> Shape:
    if op.slice_sizes_list:
        _need_in_place_operands(op)
        return op.operand_shape(1)
    return tuple_or_single(array_operands(op))


def _infer_collective_permute_start(op: OpView) -> Shape:
    received = _infer_collective_permute(op)
    sent = op.operand_shape(0) if op.slice_sizes_list else received
    # Some backends add contexts of their own.
    contexts = need_tuple(op, op.shape, 2, "the result").elements[2:]
    return TupleShape((sent, received, *contexts))


_PERMUTE = {
    **CHANNEL,
    "source_target_pairs": need(INT_GROUPS),
    "slice_sizes": Attr(INT_GROUPS, default=()),
}
_PERMUTE_EXAMPLE = """HloModule permute_example
ENTRY e {
  x = f32[2,3] parameter(0)
  s = (f32[2,3], f32[2,3], u32[], u32[]) collective-permute-start(x), source_target_pairs={{0,0}}
  ROOT d = f32[2,3] collective-permute-done(s)
}
"""

register(
    OpSpec(
        "collective-permute",
        (1, None),
        _infer_collective_permute,
        kernels.collective_permute,
        Category.COLLECTIVE,
        "003 CollectivePermute",
        (
            "f32[2,3] collective-permute(f32[2,3] x), source_target_pairs={{0,0}}",
            "f32[2,3] collective-permute(f32[2,3] x), source_target_pairs={}",
        ),
        attrs=_PERMUTE,
        traits=TRAITS | Trait.KEEPS_LAYOUT,
        factors=factors.permuted,
    )
)
register(
    OpSpec(
        "collective-permute-start",
        (1, None),
        _infer_collective_permute_start,
        kernels.collective_permute_start,
        Category.COLLECTIVE,
        "003 CollectivePermute",
        (_PERMUTE_EXAMPLE,),
        attrs=_PERMUTE,
        traits=TRAITS | Trait.SIDE_EFFECT,
        continued_by=("collective-permute-done",),
        starts="collective-permute",
        factors=factors.permuted,
    )
)
register(
    OpSpec(
        "collective-permute-done",
        1,
        _infer_second,
        _second,
        Category.COLLECTIVE,
        "003 CollectivePermute",
        (_PERMUTE_EXAMPLE,),
        traits=TRAITS | Trait.SIDE_EFFECT | Trait.TUPLE_OF_ONE,
        factors=factors.done,
    )
)
