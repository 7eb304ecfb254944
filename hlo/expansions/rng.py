"""Random numbers of a distribution, from random bits by elementwise arithmetic.

The bits are those of Philox at the host's counter, which each call moves on by what it takes; the
interpreter draws the same numbers.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from hlo.expansions.draft import Draft, expansion
from hlo.ir import Computation, Instruction
from hlo.ops.attrs import SliceDim
from hlo.ops.random.bits import RNG_KEY
from hlo.values.types import ELEMENT_TYPES, F32, U32, U64, ElementType, TupleShape, array


class _Random(Draft):
    def __init__(self, inst: Instruction) -> None:
        super().__init__(inst)
        self.shape = inst.array_shape
        self.et = self.shape.element_type
        # What the arithmetic runs in, and the width of the random words.
        self.wide = ELEMENT_TYPES["f64"] if self.et.name == "f64" else F32
        self.word = U64 if self.et.bits == 64 else U32
        self.digits = np.finfo(self.wide.dtype).nmant + 1

    def words(self, arrays: int) -> list[Instruction]:
        """Return so many arrays of random words."""
        dims = (arrays, *self.shape.dims)
        per_counter = 2 if self.word is U64 else 4
        counter = self.op(
            "rng-get-and-update-state", shape=array(U64, (2,)),
            delta=-(-math.prod(dims) // per_counter),
        )  # fmt: skip
        key = self.op("reshape", self.constant(U64, RNG_KEY), shape=array(U64, (1,)))
        state = self.op("concatenate", key, counter, dimensions=(0,))
        bits = array(self.word, dims)
        made = self.op(
            "rng-bit-generator", state, shape=TupleShape((array(U64, (3,)), bits)),
            algorithm="rng_philox",
        )  # fmt: skip
        whole = self.op("get-tuple-element", made, index=1)
        found = []
        for n in range(arrays):
            taken = (SliceDim(n, n + 1), *(SliceDim(0, size) for size in self.shape.dims))
            piece = self.op("slice", whole, slice=taken)
            found.append(self.op("reshape", piece, shape=array(self.word, self.shape.dims)))
        return found

    def each(self, scalar: Instruction) -> Instruction:
        """The scalar in every place."""
        return self.broadcast(scalar, array(scalar.array_shape.element_type, self.shape.dims))

    def number(self, et: ElementType, value: float) -> Instruction:
        return self.each(self.constant(et, value))

    def unit(self, word: Instruction) -> Instruction:
        """Random words as numbers in [0, 1), multiples of the type's precision."""
        unused = self.number(self.word, self.word.bits - self.digits)
        top = self.op("shift-right-logical", word, unused)
        step = self.number(self.wide, 2.0**-self.digits)
        return self.op("multiply", self.convert(top, self.wide), step)

    def result(self, value: Instruction) -> Computation:
        return self.done(self.relaid(value, self.shape))


@expansion("rng")
def _rng(inst: Instruction) -> Computation:
    d = _Random(inst)
    if inst.distribution == "rng_normal":
        return _normal(d)
    if d.et.is_pred:
        # The one range that is not empty holds one value.
        return d.result(d.each(d.parameters[0]))
    return _uniform_float(d) if d.et.is_float else _uniform_integer(d)


def _normal(d: _Random) -> Computation:
    """Two uniform numbers make a normal one (Box and Muller)."""
    mean, deviation = (d.each(d.convert(p, d.wide)) for p in d.parameters)
    first, second = (d.unit(word) for word in d.words(2))
    log = d.op("log", d.op("subtract", d.number(d.wide, 1.0), first))
    radius = d.op("sqrt", d.op("multiply", d.number(d.wide, -2.0), log))
    angle = d.op("cosine", d.op("multiply", second, d.number(d.wide, 2.0 * math.pi)))
    scaled = d.op("multiply", deviation, d.op("multiply", radius, angle))
    return d.result(d.convert(d.op("add", mean, scaled), d.et))


def _uniform_float(d: _Random) -> Computation:
    """low (1 - u) + high u, which does not overflow as high - low may; kept below high."""
    low, high = d.parameters
    a, b = (d.each(d.convert(p, d.wide)) for p in (low, high))
    (word,) = d.words(1)
    u = d.unit(word)
    rest = d.op("subtract", d.number(d.wide, 1.0), u)
    value = d.op("add", d.op("multiply", a, rest), d.op("multiply", b, u))
    rounded = d.convert(value, d.et)
    inside = d.compare(rounded, d.each(high), "LT")
    kept = d.op("select", inside, rounded, d.each(_next_below(d, high)))
    some = d.each(d.compare(low, high, "LT"))
    return d.result(d.op("select", some, kept, d.each(low)))


def _next_below(d: _Random, x: Instruction) -> Instruction:
    """The next lower number of a float scalar's type, by its bits."""
    word = ELEMENT_TYPES.get(f"u{d.et.bits}")
    if word is None:
        return _next_below_by_value(d, x)
    bits = d.op("bitcast-convert", x, shape=array(word, ()))
    one = d.constant(word, 1)
    lower = d.op("subtract", bits, one)
    zero = d.constant(d.et, 0)
    if d.et.name != "f8e8m0fnu":  # which has no sign
        negative = d.compare(x, zero, "LT")
        lower = d.op("select", negative, d.op("add", bits, one), lower)
        below_zero = d.constant(word, (1 << (d.et.bits - 1)) + 1)
        lower = d.op("select", d.compare(x, zero, "EQ"), below_zero, lower)
    return d.op("bitcast-convert", lower, shape=array(d.et, ()))


def _next_below_by_value(d: _Random, x: Instruction) -> Instruction:
    """The next lower number of a type that no integer type is as wide as."""
    info = ml_dtypes.finfo(d.et.dtype)
    scalar, bits = array(F32, ()), array(U32, ())
    wide = d.convert(x, F32)
    # Just below in f32: its power of two says how far apart the numbers there are.
    below = d.op("subtract", wide, d.constant(F32, float(info.smallest_subnormal) / 4))
    power = d.op("and", d.op("bitcast-convert", below, shape=bits), d.constant(U32, 0x7F800000))
    step = d.op(
        "multiply", d.op("bitcast-convert", power, shape=scalar), d.constant(F32, float(info.eps))
    )
    step = d.op("maximum", step, d.constant(F32, float(info.smallest_subnormal)))
    return d.convert(d.op("subtract", wide, step), d.et)


def _uniform_integer(d: _Random) -> Computation:
    """low + word mod (high - low)."""
    low, high = d.parameters
    signed = ELEMENT_TYPES[f"s{d.word.bits}"]
    ends = [
        d.op("bitcast-convert", d.convert(p, signed), shape=array(d.word, ()))
        if d.et.is_signed
        else d.convert(p, d.word)
        for p in (low, high)
    ]
    span = d.op("subtract", ends[1], ends[0])
    (word,) = d.words(1)
    value = d.op("add", d.each(ends[0]), d.op("remainder", word, d.each(span)))
    some = d.each(d.compare(low, high, "LT"))
    return d.result(d.op("select", some, d.convert(value, d.et), d.each(low)))
