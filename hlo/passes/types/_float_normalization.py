"""Arithmetic on narrow floats in a wider type, as hardware without them does it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hlo.analysis.patterns import applies, single_binary_op
from hlo.errors import HloError
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Category, Trait
from hlo.passes.rewrites import Rewrites
from hlo.passes.types._retype import Retyper, has_type
from hlo.values.types import ELEMENT_TYPES, ArrayShape, ElementType

# Bits of the significand, the hidden one included, and of the exponent.
_FORMS = {
    "f4e2m1fn": (2, 2), "f6e2m3fn": (4, 2), "f6e3m2fn": (3, 3), "f8e3m4": (5, 3),
    "f8e4m3": (4, 4), "f8e4m3b11fnuz": (4, 4), "f8e4m3fn": (4, 4), "f8e4m3fnuz": (4, 4),
    "f8e5m2": (3, 5), "f8e5m2fnuz": (3, 5), "f8e8m0fnu": (1, 8), "bf16": (8, 8),
    "f16": (11, 5), "f32": (24, 8), "f64": (53, 11),
}  # fmt: skip
F8 = tuple(name for name in _FORMS if name.startswith("f8"))

# They move, reinterpret, or round in their own way, in any type.
_KEPT = frozenset("convert bitcast-convert stochastic-convert select reduce-precision".split())
_ELEMENTWISE_ROUNDED_LATE = frozenset({"batch-norm-inference"})
_APPROXIMATE = frozenset(
    "dot ragged-dot convolution batch-norm-training batch-norm-grad cholesky "
    "triangular-solve".split()
)
_APPLYING = frozenset(
    "map reduce reduce-window select-and-scatter scatter all-reduce reduce-scatter".split()
)
# One rounding to the wider type before the one to the narrower changes nothing for these (nor for
# exact operations), if the wider has more than twice the digits; f32 has them for all.
_ROUNDED_ONCE = frozenset({"add", "subtract"})


def float_types(names: str) -> list[ElementType]:
    """Return the float types with names joined by `+`. Raises HloError for others."""
    return [_float(name) for name in names.split("+")]


def _float(name: str) -> ElementType:
    if name not in _FORMS:
        raise HloError.at("bad-pass-option", f"{name} is not a floating-point element type")
    return ELEMENT_TYPES[name]


def computes(inst: Instruction) -> bool:
    """True for operations that do arithmetic on elements, rather than move or reinterpret them."""
    opcode = inst.opcode
    if opcode in _APPLYING or opcode in _APPROXIMATE:
        return True
    return opcode not in _KEPT and inst.spec.category is Category.ELEMENTWISE


def normalize(
    module: Module,
    rewrites: Rewrites,
    name: str,
    narrow: Collection[ElementType],
    to: str,
    chosen: Callable[[Instruction], bool] = computes,
) -> None:
    """Compute in type `to` where the module computes in one of the narrow types.

    Values keep their types; arithmetic is put between conversions. Elementwise operations round as
    before. chosen: which instructions, by default not those that only move values. Raises HloError
    unless `to` has all values of the narrow types.
    """
    wide = _float(to)
    for et in narrow:
        if et is wide or not _has_all(wide, et):
            raise HloError.at("bad-pass-option", f"{wide} has not all values of {et}, or no more")
    retyper = Retyper(module, dict.fromkeys(narrow, wide))
    # Callers first: reducers are still unchanged when their caller is processed.
    todo = list(module.callees_first())
    # These contain the one operation that runs asynchronously.
    wrapped = {i.calls for i in module.instructions() if i.opcode == "async-start"}
    while todo or retyper.made:
        comp = todo.pop() if todo else retyper.made.pop()
        if comp.module is module and comp not in wrapped:
            for inst in comp.in_order():
                if chosen(inst):
                    _visit(inst, retyper, rewrites, name)


def _has_all(wide: ElementType, narrow: ElementType) -> bool:
    return all(a >= b for a, b in zip(_FORMS[wide.name], _FORMS[narrow.name], strict=True))


def _visit(inst: Instruction, retyper: Retyper, rewrites: Rewrites, name: str) -> None:
    if not any(has_type(s, retyper.types) for s in (inst.shape, *inst.operand_shapes)):
        return
    if not retyper.can(inst):
        return
    direct = {c: _is_taken_directly(c, retyper) for c in inst.called_computations}
    approximate = _is_approximate(inst, retyper, direct)
    if rewrites.allow(f"{name}.{inst.opcode}", inst, approximate=approximate):
        retyper.change(inst, lambda c: direct[c])


def _is_approximate(inst: Instruction, retyper: Retyper, direct: dict[Computation, bool]) -> bool:
    if inst.opcode in _APPLYING:
        return any(direct[c] and not applies(c, Trait.EXTREMUM) for c in direct)
    if inst.opcode in _APPROXIMATE or inst.opcode in _ELEMENTWISE_ROUNDED_LATE:
        return True
    return not all(
        _rounds_the_same(inst, narrow, wide)
        for narrow, wide in retyper.types.items()
        if isinstance(inst.shape, ArrayShape) and inst.shape.element_type is narrow
    )


def _rounds_the_same(inst: Instruction, narrow: ElementType, wide: ElementType) -> bool:
    """True when rounding to the wide type first makes no difference."""
    if wide.bits >= 32:
        return True  # narrow arithmetic is defined as that of f32, rounded
    digits, range_ = _FORMS[wide.name]
    enough = digits >= 2 * _FORMS[narrow.name][0] + 2 and range_ >= _FORMS[narrow.name][1] + 1
    return (inst.spec.has(Trait.EXACT) or inst.opcode in _ROUNDED_ONCE) and enough


def _is_taken_directly(comp: Computation, retyper: Retyper) -> bool:
    """True for a sum, which is rounded once anyway, and for what rounds nothing.

    A product of bf16 has the range of f32 and only fewer digits; in narrower ranges one that
    overflows on its way would come out finite.
    """
    opcode = single_binary_op(comp)
    if opcode == "multiply":
        return all(_FORMS[a.name][1] == _FORMS[b.name][1] for a, b in retyper.types.items())
    return opcode in ("add", "maximum", "minimum")
