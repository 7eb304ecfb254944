"""Contractions with groups or scales, as dots and what goes around them."""

from __future__ import annotations

from collections.abc import Sequence

from hlo.expansions.draft import Draft, expansion
from hlo.ir import Computation, Instruction
from hlo.ops.attrs import SliceDim
from hlo.ops.contract.contraction import DEFAULT_PRECISIONS
from hlo.ops.contract.contraction_eval import DotDims, ragged_prefix
from hlo.ops.contract.operand_configs import blocks_of, is_packed, need_dense, scaling
from hlo.ops.rules import higher_precision
from hlo.values.types import ELEMENT_TYPES, S64, ArrayShape, Shape, array

_F64 = ELEMENT_TYPES["f64"]


def _dims(inst: Instruction) -> DotDims:
    return DotDims(*(inst.attrs[k] for k in _KEYS))


_KEYS = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")


def _dot(d: Draft, lhs: Instruction, rhs: Instruction, dims: DotDims, out: Shape) -> Instruction:
    values = (dims.lhs_batch, dims.rhs_batch, dims.lhs_contract, dims.rhs_contract)
    return d.op("dot", lhs, rhs, shape=out, **dict(zip(_KEYS, values, strict=True)))


# --- scaled-dot ---------------------------------------------------------------------------------


@expansion("scaled-dot")
def _scaled_dot(inst: Instruction) -> Computation:
    """Multiply each block by its scale, then sum products, all in f64: scales reach far."""
    d = Draft(inst)
    lhs, rhs, *scales = d.parameters
    out = inst.array_shape
    common = higher_precision(lhs.array_shape.element_type, rhs.array_shape.element_type)
    left, right = (_scaled(d, x, s) for x, s in zip((lhs, rhs), scales, strict=True))
    total = _dot(d, left, right, _dims(inst), array(_F64, out.dims))
    if out.element_type.is_integer:
        total = d.convert(total, common)
    return d.done(d.relaid(d.convert(total, out.element_type), out))


def _scaled(d: Draft, value: Instruction, scale: Instruction) -> Instruction:
    """The value in f64, each block multiplied by its element of the scale."""
    shape, blocks = value.array_shape, scale.array_shape.dims
    wide = d.convert(d.relaid(value, array(shape.element_type, shape.dims)), _F64)
    if not shape.num_elements:
        return wide
    sizes = [n for size, c in zip(shape.dims, blocks, strict=True) for n in (c, size // c)]
    factor = d.convert(d.relaid(scale, array(scale.array_shape.element_type, blocks)), _F64)
    spread = d.op(
        "broadcast", factor, shape=array(_F64, sizes), dimensions=tuple(range(0, len(sizes), 2))
    )
    spread = d.op("reshape", spread, shape=array(_F64, shape.dims))
    return d.op("multiply", wide, spread)


# --- operands with scales -----------------------------------------------------------------------


@expansion("dot", "convolution")
def _configured(inst: Instruction) -> Computation | None:
    """Take zeros off the factors and scale them, block by block, in f64; then sum products."""
    need_dense(inst)
    if is_packed(inst):
        return _unpacked(inst)
    if len(inst.operands) == 2:
        return None
    d = Draft(inst)
    out = inst.array_shape
    left, right = (_rescaled(d, inst, index) for index in (0, 1))
    attrs = {k: v for k, v in inst.attrs.items() if k != "block_scaling_config"}
    common = higher_precision(*(o.array_shape.element_type for o in inst.operands[:2]))
    total = d.op(inst.opcode, left, right, shape=array(_F64, out.dims), **attrs)
    if out.element_type.is_integer:
        total = d.convert(total, common)
    return d.done(d.relaid(d.convert(total, out.element_type), out))


def _unpacked(inst: Instruction) -> Computation:
    """Multiply the low halves of bytes, and the high ones, and add both."""
    d = Draft(inst)
    attrs = {**inst.attrs, "operand_precision": DEFAULT_PRECISIONS}
    out = array(inst.array_shape.element_type, inst.array_shape.dims)
    low, high = (
        d.op(inst.opcode, *(_half(d, p, is_low=is_low) for p in d.parameters), shape=out, **attrs)
        for is_low in (True, False)
    )
    return d.done(d.relaid(d.op("add", low, high), inst.shape))


def _half(d: Draft, value: Instruction, *, is_low: bool) -> Instruction:
    """Four bits of each byte, as a byte."""
    et = value.array_shape.element_type
    shape = array(et, value.array_shape.dims)
    value, four = d.relaid(value, shape), d.broadcast(d.constant(et, 4), shape)
    if is_low:
        value = d.op("shift-left", value, four)
    kind = "arithmetic" if et.is_signed else "logical"
    return d.op(f"shift-right-{kind}", value, four)


def _rescaled(d: Draft, inst: Instruction, index: int) -> Instruction:
    """A factor in f64, without its zero and times its scale."""
    shape = inst.operands[index].array_shape
    value = d.convert(d.relaid(d.parameters[index], array(shape.element_type, shape.dims)), _F64)
    scales = scaling(inst, index)
    if scales is None:
        return value
    for number, opcode in ((scales.zero, "subtract"), (scales.scale, "multiply")):
        if number is not None:
            table = inst.operands[number].array_shape
            blocks = blocks_of(scales, shape, table)
            assert blocks is not None
            other = d.convert(
                d.relaid(d.parameters[number], array(table.element_type, table.dims)), _F64
            )
            value = d.op(opcode, value, _spread(d, other, shape.dims, blocks))
    return value


def _spread(
    d: Draft, table: Instruction, dims: Sequence[int], blocks: Sequence[tuple[int, int]]
) -> Instruction:
    """An array of these dimensions with the element of a table that is for each block."""
    counts = [-(-n // size) for n, (size, _) in zip(dims, blocks, strict=True)]
    taken = tuple(
        SliceDim(0, max(0, (count - 1) * step + 1), max(1, step)) if count else SliceDim(0, 0, 1)
        for count, (_, step) in zip(counts, blocks, strict=True)
    )
    used = d.op("slice", table, slice=taken)
    sizes = [n for count, (size, _) in zip(counts, blocks, strict=True) for n in (count, size)]
    spread = d.op(
        "broadcast", used, shape=array(_F64, sizes), dimensions=tuple(range(0, len(sizes), 2))
    )
    whole = [count * size for count, (size, _) in zip(counts, blocks, strict=True)]
    spread = d.op("reshape", spread, shape=array(_F64, whole))
    return d.op("slice", spread, slice=tuple(SliceDim(0, n, 1) for n in dims))


# --- ragged-dot ---------------------------------------------------------------------------------


@expansion("ragged-dot")
def _ragged_dot(inst: Instruction) -> Computation:
    """A loop over groups, each of which has its own part of a dimension.

    The state is the group, where its part begins, the result and the operands.
    """
    d = Draft(inst)
    lhs, rhs, sizes = d.parameters
    dims, (ragged,) = _dims(inst), inst.lhs_ragged_dims
    if ragged in dims.lhs_batch:
        # Every batch has its own matrices already: where groups end makes no difference.
        return d.done(_dot(d, lhs, rhs, dims, inst.shape))
    groups = sizes.array_shape.dims[-1]
    starts = array(S64, sizes.array_shape.dims[:-1])
    out = array(inst.array_shape.element_type, inst.array_shape.dims)
    # Rows of no group are the number zero, which is NaN in a type without it.
    nothing = d.broadcast(d.constant(out.element_type, 0), out)
    state = d.op(
        "tuple", d.constant(S64, 0), d.broadcast(d.constant(S64, 0), starts), nothing,
        lhs, rhs, sizes,
    )  # fmt: skip
    test = Draft(inst, [state.shape])
    at = test.op("get-tuple-element", test.parameters[0], index=0)
    go_on = test.compare(at, test.constant(S64, groups), "LT")
    loop = d.op(
        "while", state, shape=state.shape, condition=test.done(go_on),
        body=_RaggedStep(inst, state.shape).body(),
    )  # fmt: skip
    return d.done(d.relaid(d.op("get-tuple-element", loop, index=2), inst.shape))


class _RaggedStep(Draft):
    """The body of the loop over groups."""

    def __init__(self, inst: Instruction, state: Shape) -> None:
        super().__init__(inst, [state])
        self.at, self.start, self.out, self.lhs, self.rhs, self.sizes = (
            self.op("get-tuple-element", self.parameters[0], index=n) for n in range(6)
        )
        self.dims = _dims(inst)
        (self.ragged,) = inst.lhs_ragged_dims
        self.group = next(iter(inst.rhs_group_dims), None)
        shape = self.lhs.array_shape
        # Dimensions of lhs along which the sizes of groups vary.
        varies = self.start.array_shape.dims != ()
        self.prefix = ragged_prefix(self.dims, shape.rank, self.ragged) if varies else ()
        self.length = shape.dims[self.ragged]

    def body(self) -> Computation:
        end = self._end()
        new = self._rows(end) if self.group is not None else self._sum(end)
        following = self.op("add", self.at, self.constant(S64, 1))
        return self.done(self.op("tuple", following, end, new, self.lhs, self.rhs, self.sizes))

    def _end(self) -> Instruction:
        """Where the group's part ends: a negative size is an empty group."""
        sizes, starts = self.sizes.array_shape, self.start.array_shape
        zero = self.constant(S64, 0)
        place = [*(zero for _ in starts.dims), self.at]
        size = self.op("dynamic-slice", self.sizes, *place, dynamic_slice_sizes=(*starts.dims, 1))
        size = self.op("reshape", size, shape=array(sizes.element_type, starts.dims))
        et = sizes.element_type
        most = self.length
        if et.name == "u64":
            # What is too large for s64 is too large for the dimension.
            limit = self.broadcast(self.constant(et, most), starts.with_type(et))
            size = self.op("minimum", size, limit)
        size = self.convert(size, S64)
        low, high = (self.broadcast(self.constant(S64, n), starts) for n in (0, most))
        size = self.op("clamp", low, size, high)
        return self.op("minimum", self.op("add", self.start, size), high)

    def _inside(
        self, end: Instruction, shape: ArrayShape, ragged: int, prefix: Sequence[int]
    ) -> Instruction:
        """Which elements of an array lie in the group, by the index in dimension `ragged`.

        prefix: the dimensions of the array along which the group varies.
        """
        numbers = array(S64, shape.dims)
        at = self.op("iota", shape=numbers, iota_dimension=ragged)
        low, high = (
            self.op("broadcast", x, shape=numbers, dimensions=tuple(prefix))
            for x in (self.start, end)
        )
        return self.op("and", self.compare(at, low, "GE"), self.compare(at, high, "LT"))

    def _rows(self, end: Instruction) -> Instruction:
        """The result with the rows of the group, which meet its own matrix of rhs."""
        assert self.group is not None
        shape, out = self.rhs.array_shape, self.out.array_shape
        zero = self.constant(S64, 0)
        sizes = tuple(1 if n == self.group else size for n, size in enumerate(shape.dims))
        places = [self.at if n == self.group else zero for n in range(shape.rank)]
        matrix = self.op("dynamic-slice", self.rhs, *places, dynamic_slice_sizes=sizes)
        kept = [size for n, size in enumerate(shape.dims) if n != self.group]
        matrix = self.op("reshape", matrix, shape=array(shape.element_type, kept))
        group = self.group

        def shift(numbers: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(n - (n > group) for n in numbers)

        d = self.dims
        dims = DotDims(d.lhs_batch, shift(d.rhs_batch), d.lhs_contract, shift(d.rhs_contract))
        product = _dot(self, self.lhs, matrix, dims, out)
        order = [*d.lhs_batch, *d.lhs_free(self.lhs.array_shape.rank)]
        place = {n: at for at, n in enumerate(order)}
        inside = self._inside(end, out, place[self.ragged], [place[n] for n in self.prefix])
        return self.op("select", inside, product, self.out)

    def _sum(self, end: Instruction) -> Instruction:
        """The result with the sum over the group's part."""
        d, out = self.dims, self.out.array_shape
        paired = dict(
            zip((*d.lhs_batch, *d.lhs_contract), (*d.rhs_batch, *d.rhs_contract), strict=True)
        )
        sides = []
        for value, names in ((self.lhs, {n: n for n in paired}), (self.rhs, paired)):
            shape = value.array_shape
            prefix = [names[n] for n in self.prefix]
            inside = self._inside(end, shape, names[self.ragged], prefix)
            sides.append(self.op("select", inside, value, self.zeros(shape), shape=shape))
        part = array(out.element_type, out.dims[1:])
        left, right = sides
        product = _dot(self, left, right, d, part)
        update = self.op("reshape", product, shape=array(out.element_type, (1, *part.dims)))
        zero = self.constant(S64, 0)
        places = [self.at, *(zero for _ in part.dims)]
        return self.op("dynamic-update-slice", self.out, update, *places, shape=out)
