"""Operations that are code generated as computations of other operations.

An expansion is a computation that takes the operands of an instruction and gives its value. It is
inlined like a call while a module is flattened, so it may itself call computations and use
operations that have expansions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ir import Computation, Instruction
from hlo.literal import Literal
from hlo.ops.attrs import SliceDim
from hlo.types import (
    ELEMENT_TYPES,
    PRED,
    S32,
    S64,
    TOKEN,
    ArrayShape,
    BufferShape,
    ElementType,
    Shape,
    TupleShape,
    array,
)

# Returns None where an instruction has an emitter of its own after all.
Expansion = Callable[[Instruction], Computation | None]
EXPANSIONS: dict[str, Expansion] = {}


def expansion(*opcodes: str) -> Callable[[Expansion], Expansion]:
    """Register how the instructions of some opcodes are expressed by others."""

    def add(expand: Expansion) -> Expansion:
        for opcode in opcodes:
            assert opcode not in EXPANSIONS, opcode
            EXPANSIONS[opcode] = expand
        return expand

    return add


def expand(inst: Instruction) -> Computation | None:
    """Return the computation that stands for an instruction, None for the instruction itself."""
    rule = EXPANSIONS.get(inst.opcode)
    return rule(inst) if rule else None


class Draft:
    """A computation under construction, with shapes inferred."""

    def __init__(self, like: Instruction, parameters: Sequence[Shape] | None = None) -> None:
        """Begin with the parameters that the operands of `like` bind, or with others."""
        self.comp = Computation(f"{like.opcode}.expanded")
        self.like = like
        shapes = like.operand_shapes if parameters is None else parameters
        self.parameters = [
            self.comp.create("parameter", s, (), {"number": n}, name=f"p{n}", like=like)
            for n, s in enumerate(shapes)
        ]

    def op(
        self, opcode: str, *operands: Instruction, shape: Shape | None = None, **attrs: Any
    ) -> Instruction:
        """Append an operation; its shape is what the op table infers unless it is given."""
        inst = self.comp.create(opcode, shape or TOKEN, operands, attrs, like=self.like)
        if shape is None:
            inst.shape = inst.spec.infer(inst)
        return inst

    def constant(self, et: ElementType, value: Any) -> Instruction:
        """Append a scalar constant."""
        literal = Literal.of(np.asarray(value).astype(et.dtype))
        return self.op("constant", shape=literal.shape, literal=literal)

    def filled(self, value: Instruction, shape: ArrayShape) -> Instruction:
        """Append the array of a shape that has a scalar in every place."""
        return self.op("broadcast", value, shape=shape, dimensions=())

    def convert(self, value: Instruction, et: ElementType) -> Instruction:
        """Append a conversion, if one is needed."""
        shape = array_shape(value)
        if shape.element_type is et:
            return value
        return self.op("convert", value, shape=shape.with_type(et))

    def as_shape(self, value: Instruction, shape: Shape) -> Instruction:
        """Append a change of layout, if one is needed."""
        return value if value.shape == shape else self.op("copy", value, shape=shape)

    def relaid(self, value: Instruction, shape: Shape) -> Instruction:
        """Append changes of the layouts of a value's leaves, where they are needed."""
        if value.shape == shape or not (shape.is_array or shape.is_tuple):
            return value
        if not isinstance(shape, TupleShape):
            return self.as_shape(value, shape)
        parts = [
            self.relaid(self.op("get-tuple-element", value, index=n), s)
            for n, s in enumerate(shape.elements)
        ]
        return self.op("tuple", *parts)

    def zeros(self, shape: Shape) -> Instruction:
        """Append a value of a shape in which everything is zero."""
        if isinstance(shape, BufferShape):
            shape = shape.element
        if isinstance(shape, TupleShape):
            return self.op("tuple", *(self.zeros(s) for s in shape.elements))
        if isinstance(shape, ArrayShape):
            zero = self.constant(shape.element_type, 0)
            return self.filled(zero, shape) if shape.dims else zero
        if shape.is_token:
            return self.op("after-all", shape=TOKEN)
        raise InferError(f"{self.like.opcode}: there is no value of {shape}", code="bad-value")

    def done(self, root: Instruction) -> Computation:
        """Return the computation with its result set."""
        self.comp.set_root(root)
        return self.comp


def array_shape(inst: Instruction) -> ArrayShape:
    """Return the shape of an instruction that gives an array."""
    assert isinstance(inst.shape, ArrayShape)
    return inst.shape


# --- batch normalization ------------------------------------------------------------------------


class _Batch(Draft):
    """Batch normalization in f32 at least, each result rounded once."""

    def __init__(self, inst: Instruction) -> None:
        super().__init__(inst)
        self.shape = array_shape(inst.operands[0])
        self.feature: int = inst.attrs["feature_index"]
        wide = self.shape.element_type.name == "f64"
        self.et = ELEMENT_TYPES["f64" if wide else "f32"]
        self.wide = self.shape.with_type(self.et)
        self.features = array(self.et, self.shape.dims[self.feature : self.feature + 1])
        self.values = [self.convert(p, self.et) for p in self.parameters]
        self.epsilon = self.spread(self.number(float(np.float32(inst.attrs["epsilon"]))))
        count = math.prod(n for d, n in enumerate(self.shape.dims) if d != self.feature)
        self.count = self.spread(self.number(count))

    def number(self, value: float) -> Instruction:
        return self.constant(self.et, value)

    def spread(self, scalar: Instruction) -> Instruction:
        """One value for every feature."""
        return self.filled(scalar, self.features)

    def each(self, features: Instruction) -> Instruction:
        """The value of its feature for every element."""
        return self.op("broadcast", features, shape=self.wide, dimensions=(self.feature,))

    def total(self, value: Instruction) -> Instruction:
        """The sum of each feature's elements."""
        dims = tuple(d for d in range(self.shape.rank) if d != self.feature)
        add = Draft(self.like, [array(self.et, ())] * 2)
        body = add.done(add.op("add", *add.parameters))
        zero = self.number(-0.0)
        return self.op("reduce", value, zero, dimensions=dims, to_apply=body)

    def mean(self, value: Instruction) -> Instruction:
        return self.op("divide", self.total(value), self.count)

    def centered(self, x: Instruction, mean: Instruction) -> Instruction:
        return self.op("subtract", x, self.each(mean))

    def deviation(self, variance: Instruction) -> Instruction:
        return self.op("sqrt", self.op("add", variance, self.epsilon))

    def normalized(
        self,
        x: Instruction,
        scale: Instruction,
        offset: Instruction,
        mean: Instruction,
        variance: Instruction,
    ) -> Instruction:
        factor = self.op("divide", scale, self.deviation(variance))
        product = self.op("multiply", self.each(factor), self.centered(x, mean))
        return self.op("add", product, self.each(offset))

    def results(self, *values: Instruction) -> Computation:
        """End with values rounded and laid out as the instruction's results are."""
        shape = self.like.shape
        wanted = shape.elements if isinstance(shape, TupleShape) else (shape,)
        rounded = []
        for value, want in zip(values, wanted, strict=True):
            assert isinstance(want, ArrayShape)
            rounded.append(self.as_shape(self.convert(value, want.element_type), want))
        return self.done(self.op("tuple", *rounded) if shape.is_tuple else rounded[0])


@expansion("batch-norm-training")
def _batch_norm_training(inst: Instruction) -> Computation:
    """Mean and variance of each feature, and the elements normalized by them."""
    d = _Batch(inst)
    x, scale, offset = d.values
    mean = d.mean(x)
    deviations = d.centered(x, mean)
    variance = d.mean(d.op("multiply", deviations, deviations))
    return d.results(d.normalized(x, scale, offset, mean, variance), mean, variance)


@expansion("batch-norm-inference")
def _batch_norm_inference(inst: Instruction) -> Computation:
    d = _Batch(inst)
    return d.results(d.normalized(*d.values))


@expansion("batch-norm-grad")
def _batch_norm_grad(inst: Instruction) -> Computation:
    """The gradients by operand, scale and offset."""
    d = _Batch(inst)
    x, scale, mean, variance, grad = d.values
    centered = d.centered(x, mean)
    grad_offset = d.total(grad)
    products = d.total(d.op("multiply", grad, centered))
    spread = d.op("add", variance, d.epsilon)
    deviation = d.op("sqrt", spread)
    level = d.op("divide", grad_offset, d.count)
    slope = d.op("divide", d.op("divide", products, d.count), spread)
    rest = d.op("subtract", grad, d.each(level))
    rest = d.op("subtract", rest, d.op("multiply", d.each(slope), centered))
    grad_x = d.op("multiply", d.each(d.op("divide", scale, deviation)), rest)
    return d.results(grad_x, d.op("divide", products, deviation), grad_offset)


# --- scan ---------------------------------------------------------------------------------------


@expansion("scan")
def _scan(inst: Instruction) -> Computation:
    """A loop that slices the inputs, applies the step, and writes its outputs into place.

    The state is the position, the inputs, the stacked outputs and the carries.
    """
    d = Draft(inst)
    inputs = len(inst.operands) - inst.attrs["num_carries"]
    (dim,) = inst.attrs["dimensions"]
    shape = inst.shape
    results = shape.elements if isinstance(shape, TupleShape) else (shape,)
    outputs = [s for s in results[: len(results) - inst.attrs["num_carries"]]]
    source = array_shape(inst.operands[0]) if inputs else outputs[0]
    assert isinstance(source, ArrayShape)
    steps = source.dims[dim]
    start = [d.constant(S64, 0), *d.parameters[:inputs]]
    for output in outputs:
        assert isinstance(output, ArrayShape)
        start.append(d.filled(d.constant(output.element_type, 0), output))
    carried = results[len(outputs) :]
    start += [d.as_shape(p, s) for p, s in zip(d.parameters[inputs:], carried, strict=True)]
    state = d.op("tuple", *start)

    test = Draft(inst, [state.shape])
    at = test.op("get-tuple-element", test.parameters[0], index=0)
    go_on = test.op(
        "compare", at, test.constant(S64, steps), shape=array(PRED, ()), direction="LT",
        type="SIGNED",
    )  # fmt: skip
    loop = d.op(
        "while", state, shape=state.shape, condition=test.done(go_on),
        body=_scan_step(inst, state.shape, inputs, len(outputs), dim, steps),
    )  # fmt: skip
    parts = [d.op("get-tuple-element", loop, index=1 + inputs + n) for n in range(len(results))]
    return d.done(d.op("tuple", *parts) if shape.is_tuple else parts[0])


def _scan_step(
    inst: Instruction, state: Shape, inputs: int, outputs: int, dim: int, steps: int
) -> Computation:
    """Return the body of the loop."""
    d = Draft(inst, [state])
    assert isinstance(state, TupleShape)
    at, *old = (
        d.op("get-tuple-element", d.parameters[0], index=n) for n in range(len(state.elements))
    )
    place = at
    if inst.attrs["is_reverse"]:
        place = d.op("subtract", d.constant(S64, steps - 1), at)
    zero = d.constant(S64, 0)

    def starts(rank: int) -> list[Instruction]:
        return [place if n == dim else zero for n in range(rank)]

    slices = []
    for x in old[:inputs]:
        dims = array_shape(x).dims
        sizes = tuple(1 if n == dim else size for n, size in enumerate(dims))
        piece = d.op("dynamic-slice", x, *starts(len(dims)), dynamic_slice_sizes=sizes)
        kept = [size for n, size in enumerate(dims) if n != dim]
        slices.append(d.op("reshape", piece, shape=array(array_shape(x).element_type, kept)))
    body: Computation = inst.attrs["to_apply"]
    called = d.op("call", *slices, *old[inputs + outputs :], shape=body.root.shape, to_apply=body)
    count = len(old) - inputs
    values = [called] if not called.shape.is_tuple else [
        d.op("get-tuple-element", called, index=n) for n in range(count)
    ]  # fmt: skip
    new = [d.op("add", at, d.constant(S64, 1)), *old[:inputs]]
    for target, value in zip(old[inputs : inputs + outputs], values, strict=False):
        shape = array_shape(target)
        size = [1 if n == dim else size for n, size in enumerate(shape.dims)]
        update = d.op("reshape", value, shape=array(shape.element_type, size))
        new.append(d.op("dynamic-update-slice", target, update, *starts(shape.rank), shape=shape))
    for target, value in zip(old[inputs + outputs :], values[outputs:], strict=True):
        new.append(d.as_shape(value, target.shape))
    return d.done(d.op("tuple", *new))


# --- topk ---------------------------------------------------------------------------------------

# Selecting that many elements, or a larger part of a line than one in so many, takes longer than
# sorting the line.
_SELECTED, _SELECTED_PART = 32, 64
_SORTED_LINE = 512


@expansion("topk")
def _topk(inst: Instruction) -> Computation | None:
    """A sort of elements and indices, of which the first are taken; for small k, none."""
    shape, k = array_shape(inst.operands[0]), inst.attrs["k"]
    n = shape.dims[-1]
    if n < _SORTED_LINE or k <= _SELECTED or k * _SELECTED_PART < n:
        return None
    et = shape.element_type
    before = Draft(inst, [array(et, ())] * 2 + [array(S32, ())] * 2)
    first = before.op(
        "compare", *before.parameters[:2], shape=array(PRED, ()),
        direction="GT" if inst.attrs["largest"] else "LT",
        type="TOTALORDER" if et.is_float else "SIGNED" if et.is_signed else "UNSIGNED",
    )  # fmt: skip
    d = Draft(inst)
    (x,) = d.parameters
    at = d.op("iota", shape=array(S32, shape.dims), iota_dimension=shape.rank - 1)
    both = d.op(
        "sort", x, at, dimensions=(shape.rank - 1,), is_stable=True, to_apply=before.done(first)
    )
    limits = (*shape.dims[:-1], k)
    parts = []
    for number, (_, result) in enumerate(inst.shape.leaves()):
        part = d.op("get-tuple-element", both, index=number)
        taken = tuple(SliceDim(0, limit, 1) for limit in limits)
        parts.append(d.as_shape(d.op("slice", part, slice=taken), result))
    return d.done(d.op("tuple", *parts))


# --- updates in place ---------------------------------------------------------------------------


@expansion("dynamic-update-slice", "scatter")
def _laid_out(inst: Instruction) -> Computation | None:
    """The same operation on operands that lie as its results do, since they become its results."""
    results = [s for _, s in inst.shape.leaves()]
    changed = inst.operands[: len(results)]
    if all(o.shape == s for o, s in zip(changed, results, strict=True)):
        return None
    d = Draft(inst)
    moved = [d.as_shape(p, s) for p, s in zip(d.parameters, results, strict=False)]
    same = inst.clone([*moved, *d.parameters[len(results) :]])
    return d.done(d.comp.add(same))
