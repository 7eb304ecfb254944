"""dot."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder, build_computation
from hlo.ops.elementwise.casts import widens
from hlo.passes.algsimp._fast import FAST
from hlo.passes.algsimp._match import (
    dims_of,
    filled,
    is_exact,
    is_single_use,
    is_splat,
    type_of,
)
from hlo.passes.algsimp._reducers import by_type
from hlo.passes.algsimp._rules import rule
from hlo.passes.rules import is_configured
from hlo.values.types import ElementType, array

STRENGTH = "dot_strength_reduction"


@dataclass(frozen=True)
class _Side:
    """One operand of a dot and the kinds of its dimensions."""

    value: Instruction
    batch: tuple[int, ...]
    contract: tuple[int, ...]

    @property
    def free(self) -> tuple[int, ...]:
        rank = self.value.array_shape.rank
        return tuple(d for d in range(rank) if d not in self.batch + self.contract)

    def without_ones(self, b: Builder) -> _Side:
        """Return the same without dimensions of size one."""
        sizes = dims_of(self.value)
        kept = [d for d, n in enumerate(sizes) if n != 1]
        return _Side(
            b.reshape(self.value, [sizes[d] for d in kept]),
            tuple(kept.index(d) for d in self.batch if d in kept),
            tuple(kept.index(d) for d in self.contract if d in kept),
        )


def _sides(inst: Instruction) -> tuple[_Side, _Side]:
    return (
        _Side(inst.operands[0], inst.lhs_batch_dims, inst.lhs_contracting_dims),
        _Side(inst.operands[1], inst.rhs_batch_dims, inst.rhs_contracting_dims),
    )


def _dot(
    b: Builder, inst: Instruction, lhs: _Side, rhs: _Side, *, swap: bool = False
) -> Instruction:
    """Append a dot of the precision and element type of another."""
    precision = inst.operand_precision
    sizes = [dims_of(lhs.value)[d] for d in lhs.batch + lhs.free]
    sizes += [dims_of(rhs.value)[d] for d in rhs.free]
    return b.op(
        "dot", lhs.value, rhs.value, shape=array(type_of(inst), sizes),
        lhs_batch_dims=lhs.batch, lhs_contracting_dims=lhs.contract,
        rhs_batch_dims=rhs.batch, rhs_contracting_dims=rhs.contract,
        operand_precision=precision[::-1] if swap else precision,
        algorithm=inst.algorithm,
    )  # fmt: skip


@rule("dot", "dot(x, y) = 0, for sums of no products")
def dot_of_nothing(inst: Instruction, b: Builder) -> Instruction | None:
    lhs, _ = _sides(inst)
    if 0 not in (dims_of(lhs.value)[d] for d in lhs.contract):
        return None
    return filled(b, inst, 0)


@rule("dot", "dot(x, 0) = 0, for integers and pred", on="constant broadcast")
def dot_of_zeros(inst: Instruction, b: Builder) -> Instruction | None:
    if not all(is_exact(type_of(i)) for i in (inst, *inst.operands)):
        return None
    return filled(b, inst, 0) if any(is_splat(x, 0) for x in inst.operands) else None


def _can_multiply(inst: Instruction) -> bool:
    """True where operands may be converted to the type of the result before multiplication."""
    return all(widens(type_of(x), type_of(inst)) for x in inst.operands)


def _spread(
    side: _Side, b: Builder, et: ElementType, dims: list[int], places: list[int]
) -> Instruction:
    """Append an operand in the dimensions of a product, without contracting sizes of one."""
    value = b.convert(side.value, et)
    if len(places) == len(dims) and places == sorted(places):
        return value
    return b.op("broadcast", value, shape=array(et, dims), dimensions=tuple(places))


def _products(
    inst: Instruction, b: Builder, lhs: _Side, rhs: _Side, tail: list[int]
) -> Instruction:
    """Append all products of a dot, with dimensions batch, free, free, and then `tail`."""
    dims = [*dims_of(inst), *tail]
    batch, left = len(lhs.batch), len(lhs.free)
    places: list[list[int]] = []
    for side, first in ((lhs, batch), (rhs, batch + left)):
        to = dict(zip(side.free, range(first, first + len(side.free)), strict=True))
        to |= {d: n for n, d in enumerate(side.batch)}
        to |= {d: inst.array_shape.rank + n for n, d in enumerate(side.contract)}
        places.append([to[d] for d in range(side.value.array_shape.rank)])
    et = type_of(inst)
    operands = [_spread(side, b, et, dims, at) for side, at in zip((lhs, rhs), places, strict=True)]
    return b.op("multiply", *operands, shape=array(et, dims))


def _no_contract(side: _Side, b: Builder) -> _Side:
    """Return a side without its contracting dimensions, which are of size one."""
    sizes = dims_of(side.value)
    kept = [d for d in range(len(sizes)) if d not in side.contract]
    value = b.reshape(side.value, [sizes[d] for d in kept])
    return _Side(value, tuple(kept.index(d) for d in side.batch), ())


@by_type("dot", "dot(x, y) = x * y, broadcast, for sums of one product")
def dot_of_one_product(inst: Instruction, b: Builder) -> Instruction | None:
    """What sign a sum has that is zero is nowhere stated."""
    lhs, rhs = _sides(inst)
    terms = math.prod(dims_of(lhs.value)[d] for d in lhs.contract)
    if terms != 1 or not _can_multiply(inst) or type_of(inst).is_pred:
        return None
    return _products(inst, b, _no_contract(lhs, b), _no_contract(rhs, b), [])


@by_type("dot", "dot(x, y) = reshape(dot(x, y)), without sizes of one")
def dot_without_ones(inst: Instruction, b: Builder) -> Instruction | None:
    lhs, rhs = _sides(inst)
    if 1 not in (*dims_of(lhs.value), *dims_of(rhs.value)):
        return None
    return b.reshape(_dot(b, inst, lhs.without_ones(b), rhs.without_ones(b)), dims_of(inst))


@by_type(
    "dot",
    "dot(transpose(x), y) = dot(x, y), where the dimensions that stay keep their order",
    on="transpose",
)
def dot_of_transpose(inst: Instruction, b: Builder) -> Instruction | None:
    sides = [_before_transpose(s) for s in _sides(inst)]
    if sides[0].value is inst.operands[0] and sides[1].value is inst.operands[1]:
        return None
    return _dot(b, inst, *sides)


def _before_transpose(side: _Side) -> _Side:
    if side.value.opcode != "transpose":
        return side
    order = side.value.dimensions
    free = [order[d] for d in side.free]
    if free != sorted(free):
        return side
    batch, contract = (tuple(order[d] for d in dims) for dims in (side.batch, side.contract))
    return _Side(side.value.operands[0], batch, contract)


@rule("transpose", "transpose(dot(x, y)) = dot(y, x), for the free dimensions exchanged",
      approximate=True, on="dot")  # fmt: skip
def transpose_of_dot(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "dot" or len(inner.operands) > 2 or not is_single_use(inner):
        return None
    lhs, rhs = _sides(inner)
    batch, left, right = len(lhs.batch), len(lhs.free), len(rhs.free)
    exchanged = [
        *range(batch), *range(batch + left, batch + left + right), *range(batch, batch + left),
    ]  # fmt: skip
    if list(inst.dimensions) != exchanged:
        return None
    return _dot(b, inner, rhs, lhs, swap=True)


@by_type("dot", "dot(-x, -y) = dot(x, y), for real numbers", on="negate")
def dot_of_negated(inst: Instruction, b: Builder) -> Instruction | None:
    if any(x.opcode != "negate" or not widens(type_of(x), type_of(inst)) for x in inst.operands):
        return None
    if any(type_of(x).is_integer and type_of(x) is not type_of(inst) for x in inst.operands):
        return None  # the least integer has no opposite in its own type
    lhs, rhs = _sides(inst)
    return _dot(
        b, inst, _Side(lhs.value.operands[0], lhs.batch, lhs.contract),
        _Side(rhs.value.operands[0], rhs.batch, rhs.contract),
    )  # fmt: skip


@rule("dot", "dot(dot(x, y), z) = dot(x, dot(y, z)); infinity and NaN may differ", approximate=True,
      option=FAST, on="dot")  # fmt: skip
def dot_of_dot(inst: Instruction, b: Builder) -> Instruction | None:
    sides = _sides(inst)
    for side, other in (sides, sides[::-1]):
        inner = side.value
        if inner.opcode != "dot" or not is_single_use(inner) or is_configured(inner):
            continue
        x, y = _sides(inner)
        if side.batch or x.batch or _arithmetic(inst) != _arithmetic(inner):
            continue
        if any(type_of(i) is not type_of(inst) for i in (x.value, y.value, other.value)):
            continue  # what is between would be rounded to another type
        is_left = side is sides[0]
        new = _regrouped(inst, b, (x, y), side, other, is_left=is_left)
        if new is not None:
            return new
    return None


def _regrouped(
    inst: Instruction, b: Builder, inner: tuple[_Side, _Side], side: _Side, other: _Side, *,
    is_left: bool,
) -> Instruction | None:  # fmt: skip
    """Multiply by `other` first the operand of `inner` whose dimensions it contracts, if that is
    less than half of the work.

    is_left: the inner product is the left operand.
    """
    left, right = inner
    count = len(left.free)
    is_of_left = all(d < count for d in side.contract)
    if not is_of_left and any(d < count for d in side.contract):
        return None
    near, far = (left, right) if is_of_left else (right, left)
    touched = tuple(near.free[d if is_of_left else d - count] for d in side.contract)
    if is_of_left == is_left and len(touched) < len(near.free):
        return None  # the dimensions of the result would be in another order
    first = _Side(near.value, (), touched)
    left_over = math.prod(dims_of(near.value)[d] for d in near.free if d not in touched)
    later = math.prod(dims_of(far.value)) * left_over * _columns(other)
    if _work(*inner) + _work(side, other) < 2 * (_work(first, other) + later):
        return None
    pair = (first, other) if is_left else (other, first)
    product = _dot(b, inst, *pair)
    begin = 0 if is_left else len(other.free)
    kept = [d for d in range(near.value.array_shape.rank) if d not in touched]
    rest = _Side(product, (), tuple(begin + kept.index(d) for d in near.contract))
    return _dot(b, inst, *((far, rest) if is_left else (rest, far)))


def _work(lhs: _Side, rhs: _Side) -> int:
    """Return the number of products that a dot without batch dimensions adds up."""
    return math.prod(dims_of(lhs.value)) * _columns(rhs)


def _columns(side: _Side) -> int:
    return math.prod(dims_of(side.value)[d] for d in side.free)


def _arithmetic(dot: Instruction) -> tuple[object, object]:
    return dot.operand_precision, dot.algorithm


@rule("dot", "dot(x, y) = the sum of x * y, where x or y is a vector", approximate=True,
      option=STRENGTH)  # fmt: skip
def dot_as_sum(inst: Instruction, b: Builder) -> Instruction | None:
    lhs, rhs = _sides(inst)
    et = type_of(inst)
    if (lhs.free and rhs.free) or not lhs.contract or not _can_multiply(inst) or et.is_pred:
        return None
    if 0 in (*dims_of(lhs.value), *dims_of(rhs.value)):
        return None
    tail = [dims_of(lhs.value)[d] for d in lhs.contract]
    products = _products(inst, b, lhs, rhs, tail)
    rank = inst.array_shape.rank
    return b.op(
        "reduce", products, b.constant(et, 0), dimensions=tuple(range(rank, rank + len(tail))),
        to_apply=_adder(b, et),
    )  # fmt: skip


def _adder(b: Builder, et: ElementType) -> Computation:
    """Return the function that adds two scalars, a new one where the module has none."""
    module = b.comp.module
    assert module is not None
    name = f"algsimp_add_{et}"
    found = module.get(name)
    if found is None:
        scalar = array(et, ())
        found = module.add(
            build_computation(name, [scalar, scalar], lambda b, x, y: b.op("add", x, y))
        )
    return found
