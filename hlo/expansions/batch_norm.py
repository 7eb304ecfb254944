"""Batch normalization as reductions and elementwise operations."""

from __future__ import annotations

import math

import numpy as np

from hlo.expansions.draft import Draft, expansion
from hlo.ir import Computation, Instruction
from hlo.values.types import ELEMENT_TYPES, ArrayShape, TupleShape, array


class _Batch(Draft):
    """Batch normalization in f32 at least, each result rounded once."""

    def __init__(self, inst: Instruction) -> None:
        super().__init__(inst)
        self.shape = inst.operands[0].array_shape
        self.feature: int = inst.feature_index
        wide = self.shape.element_type.name == "f64"
        self.et = ELEMENT_TYPES["f64" if wide else "f32"]
        self.wide = self.shape.with_type(self.et)
        self.features = array(self.et, self.shape.dims[self.feature : self.feature + 1])
        self.values = [self.convert(p, self.et) for p in self.parameters]
        self.epsilon = self.spread(self.number(float(np.float32(inst.epsilon))))
        self.count = self.spread(self._count())

    def _count(self) -> Instruction:
        """The number of a feature's elements, of those that are meant where sizes vary."""
        others = [d for d in range(self.shape.rank) if d != self.feature]
        fixed = [self.shape.dims[d] for d in others if not self.shape.is_dynamic_dim(d)]
        count = self.number(math.prod(fixed))
        for d in others:
            if self.shape.is_dynamic_dim(d):
                size = self.op("get-dimension-size", self.parameters[0], dimensions=(d,))
                count = self.op("multiply", count, self.convert(size, self.et))
        return count

    def number(self, value: float) -> Instruction:
        return self.constant(self.et, value)

    def spread(self, scalar: Instruction) -> Instruction:
        """One value for every feature."""
        return self.broadcast(scalar, self.features)

    def each(self, features: Instruction) -> Instruction:
        """The value of its feature for every element."""
        return self.op("broadcast", features, shape=self.wide, dimensions=(self.feature,))

    def total(self, value: Instruction) -> Instruction:
        """The sum of each feature's elements."""
        dims = tuple(d for d in range(self.shape.rank) if d != self.feature)
        add = Draft(self.inst, [array(self.et, ())] * 2)
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
        shape = self.inst.shape
        wanted = shape.elements if isinstance(shape, TupleShape) else (shape,)
        rounded = []
        for value, want in zip(values, wanted, strict=True):
            assert isinstance(want, ArrayShape)
            rounded.append(self.relaid(self.convert(value, want.element_type), want))
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
