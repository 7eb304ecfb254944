"""Elementwise arithmetic: unary and binary operations.

Operands of one operation have equal dimensions and one element type; nothing broadcasts. Comparison
and selection are in `selection`, conversions between types in `conversion`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from hlo.errors import InferError
from hlo.ops.attrs import ACCURACY, Attr
from hlo.ops.elementwise import arithmetic_eval as ev
from hlo.ops.elementwise import complex_eval as cx
from hlo.ops.elementwise.arithmetic_eval import Kernel
from hlo.ops.factors import pointwise
from hlo.ops.rules import array_operands, merge_dims, need_same_type, need_type
from hlo.ops.spec import (
    TRANSCENDENTAL_COST,
    Category,
    EvalContext,
    Evaluate,
    Infer,
    OpSpec,
    OpView,
    Trait,
    register,
)
from hlo.values.types import (
    ELEMENT_TYPES,
    PRED,
    ArrayShape,
    ElementType,
    complex_of,
    complex_part,
    element_type_of,
    integer_range,
)

TypeMap = Callable[[ElementType], ElementType]

# --- what all of them share ---------------------------------------------------------------------


def _accepted(kernel: Kernel) -> str:
    """Name the element types that a kernel accepts, for error messages."""
    words = []
    if kernel.pred:
        words.append("pred")
    if kernel.integer or kernel.sized:
        words.append("integer")
    elif kernel.signed:
        words.append("signed integer")
    if kernel.real:
        words.append("floating-point")
    if kernel.complex:
        words.append("complex")
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _kernel_rules(kernel: Kernel, result: TypeMap) -> tuple[Infer, Evaluate]:
    def infer(op: OpView) -> ArrayShape:
        shapes = array_operands(op)
        et = shapes[0].element_type
        if kernel.function(et) is None:
            raise InferError(
                f"{op.opcode}: operand 0 has element type {et}, {_accepted(kernel)} is needed",
                operand=0, code="type-mismatch",
            )  # fmt: skip
        for i in range(1, len(shapes)):
            need_same_type(op, 0, i)
        return merge_dims(op, shapes).with_type(result(et))

    def evaluate(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
        return ev.run(kernel, args, result(element_type_of(args[0].dtype)))

    return infer, evaluate


def _same(et: ElementType) -> ElementType:
    return et


def _elementwise(
    name: str,
    arity: int,
    kernel: Kernel,
    *,
    result: TypeMap = _same,
    attrs: dict[str, Attr] | None = None,
    traits: Trait = Trait.NONE,
    cost: float = 1.0,
    identity: Callable[[ElementType], Any] | None = None,
    source: str = "",
    examples: Sequence[str],
) -> None:
    infer, evaluate = _kernel_rules(kernel, result)
    register(
        OpSpec(
            name, arity, infer, evaluate, Category.ELEMENTWISE, source or f"003: {name}",
            tuple(examples), attrs=attrs or {}, traits=traits | Trait.ELEMENTWISE | Trait.INFERABLE,
            cost=cost,
            identity=identity,
            factors=pointwise,
        )
    )  # fmt: skip


def _unary(name: str, kernel: Kernel, *types: str, result: TypeMap = _same, **options: Any) -> None:
    examples = [f"{result(ELEMENT_TYPES[t])}[7] {name}({t}[7] x)" for t in types]
    _elementwise(name, 1, kernel, result=result, examples=examples, **options)


def _binary(name: str, kernel: Kernel, *types: str, **options: Any) -> None:
    examples = [f"{t}[2,3] {name}({t}[2,3] x, {t}[2,3] y)" for t in types]
    _elementwise(name, 2, kernel, examples=examples, **options)


def _transcendental(
    name: str, kernel: Kernel, *types: str, traits: Trait = Trait.NONE,
    cost: float = TRANSCENDENTAL_COST,
) -> None:  # fmt: skip
    _unary(
        name, kernel, *types, attrs={"result_accuracy": Attr(ACCURACY)},
        traits=traits | Trait.TRANSCENDENTAL, cost=cost,
    )  # fmt: skip


# --- unary --------------------------------------------------------------------------------------


def _to_pred(et: ElementType) -> ElementType:
    return PRED


def _zeros(x: np.ndarray) -> np.ndarray:
    return np.zeros_like(x)


_unary("abs", Kernel(signed=np.abs, real=np.abs, complex=cx.absolute, wide_complex=True),
       "f32", "s32", "c64", result=complex_part,
       traits=Trait.EXACT | Trait.NONNEGATIVE)  # fmt: skip
_unary("negate", Kernel(integer=np.negative, real=np.negative, complex=np.negative), "f32", "u8",
       traits=Trait.INVOLUTION | Trait.EXACT)  # fmt: skip
_unary("sign", Kernel(signed=np.sign, real=ev.sign, complex=cx.sign, wide_complex=True),
       "f32", "s8", "c64", traits=Trait.EXACT)  # fmt: skip
_unary("not", Kernel(pred=np.invert, integer=np.invert), "pred", "s32", traits=Trait.INVOLUTION)
_unary("popcnt", Kernel(sized=ev.count_ones), "u32", "s8")
_unary("count-leading-zeros", Kernel(sized=ev.count_leading_zeros), "u32", "s16")
_unary("is-finite", Kernel(real=np.isfinite), "f32", "bf16", result=_to_pred, traits=Trait.EXACT)
_unary("real", Kernel(real=np.positive, complex=cx.real), "c64", "f32", result=complex_part,
       traits=Trait.EXACT, cost=0.0)  # fmt: skip
_unary("imag", Kernel(real=_zeros, complex=cx.imag), "c64", "f32", result=complex_part,
       traits=Trait.EXACT, cost=0.0)  # fmt: skip
_unary("ceil", Kernel(real=np.ceil), "f32", traits=Trait.EXACT)
_unary("floor", Kernel(real=np.floor), "f32", traits=Trait.EXACT)
_unary("round-nearest-afz", Kernel(real=ev.round_half_away), "f32", "f64", traits=Trait.EXACT)
_unary("round-nearest-even", Kernel(real=np.rint), "f32", "f64", traits=Trait.EXACT)

# Machines round square roots and quotients of f32 correctly as they are.
_transcendental("sqrt", Kernel(real=np.sqrt, complex=np.sqrt, wide_complex=True), "f32", "c64",
                cost=5.0)  # fmt: skip
_transcendental(
    "rsqrt", Kernel(real=ev.rsqrt, complex=cx.rsqrt, wide_real=True, wide_complex=True),
    "f32", "c64", cost=6.0,
)  # fmt: skip
_NONNEGATIVE = ("acos", "acosh", "cosh", "exp2", "exponential", "logistic")
for _name, _real, _complex in (
    ("acos", np.arccos, np.arccos),
    ("acosh", np.arccosh, np.arccosh),
    ("asin", np.arcsin, np.arcsin),
    ("asinh", np.arcsinh, np.arcsinh),
    ("atanh", np.arctanh, np.arctanh),
    ("cbrt", np.cbrt, None),
    ("cosine", np.cos, np.cos),
    ("cosh", np.cosh, np.cosh),
    ("erf", ev.erf, None),
    ("exp2", np.exp2, cx.exp2),
    ("exponential", np.exp, np.exp),
    ("exponential-minus-one", np.expm1, cx.expm1),
    ("log", np.log, np.log),
    ("log2", np.log2, cx.log2),
    ("log-plus-one", np.log1p, cx.log1p),
    ("logistic", ev.logistic, cx.logistic),
    ("sine", np.sin, np.sin),
    ("sinh", np.sinh, np.sinh),
    ("tan", np.tan, np.tan),
    ("tanh", np.tanh, np.tanh),
):
    _transcendental(
        _name,
        Kernel(real=_real, complex=_complex, wide_real=True, wide_complex=True),
        *(("f32", "c64") if _complex else ("f32", "f64")),
        traits=Trait.NONNEGATIVE if _name in _NONNEGATIVE else Trait.NONE,
    )

# --- binary -------------------------------------------------------------------------------------


def _zero(et: ElementType) -> object:
    """Return what an addition does not change; +0 would turn -0 into +0."""
    if et.name == "f8e8m0fnu":
        return None  # it has no zero
    if et.is_complex:
        return complex(-0.0, -0.0)
    return -0.0 if et.is_float else 0


def _one(et: ElementType) -> object:
    """Return what a multiplication does not change; it does the zeros of complex numbers."""
    return None if et.is_complex else 1


def _no_bits(et: ElementType) -> object:
    return 0


def _all_bits(et: ElementType) -> object:
    return 1 if et.is_pred else -1 if et.is_signed else integer_range(et)[1]


def _end(et: ElementType, sign: int) -> object:
    """Return the greatest number of a type, or the least: for sign -1."""
    if et.is_complex:
        return None
    if et.is_pred:
        return int(sign > 0)
    if et.is_integer:
        return integer_range(et)[sign > 0]
    with np.errstate(all="ignore"):
        end = float(np.asarray(sign * np.inf).astype(et.dtype))
    if np.isinf(end):
        return end
    limits = ml_dtypes.finfo(et.dtype)
    return float(limits.max if sign > 0 else limits.min)


_SYMMETRIC = Trait.COMMUTATIVE | Trait.ASSOCIATIVE_INT
_REORDERABLE = Trait.COMMUTATIVE | Trait.ASSOCIATIVE

# On pred, addition is or and multiplication is and.
_binary("add", Kernel(pred=np.add, integer=np.add, real=np.add, complex=np.add),
        "f32", "s32", "pred", traits=_SYMMETRIC, identity=_zero)  # fmt: skip
_binary("multiply",
        Kernel(pred=np.multiply, integer=np.multiply, real=np.multiply, complex=cx.multiply),
        "f32", "u8", traits=_SYMMETRIC, identity=_one)  # fmt: skip
_binary("subtract", Kernel(integer=np.subtract, real=np.subtract, complex=np.subtract),
        "f32", "u32")  # fmt: skip
_binary("divide",
        Kernel(integer=ev.integer_divide, real=np.divide, complex=cx.divide, wide_complex=True),
        "f32", "s32", "c64", cost=5.0)  # fmt: skip
_binary("remainder", Kernel(integer=ev.integer_remainder, real=np.fmod), "f32", "s32",
        traits=Trait.EXACT, cost=10.0)  # fmt: skip
_binary("power",
        Kernel(integer=ev.integer_power, real=ev.exactly_f32(np.power), complex=cx.power,
               wide_real=True, wide_complex=True),
        "f32", "s32", traits=Trait.TRANSCENDENTAL, cost=TRANSCENDENTAL_COST)  # fmt: skip
_binary("atan2",
        Kernel(real=ev.exactly_f32(np.arctan2), complex=cx.atan2, wide_real=True,
               wide_complex=True),
        "f32", traits=Trait.TRANSCENDENTAL, cost=TRANSCENDENTAL_COST)  # fmt: skip
# Complex numbers are ordered by real, then by imaginary part.
_binary("maximum",
        Kernel(pred=np.maximum, integer=np.maximum, real=ev.maximum, complex=np.maximum),
        "f32", "s32", traits=_REORDERABLE | Trait.IDEMPOTENT | Trait.EXTREMUM | Trait.EXACT,
        identity=lambda et: _end(et, -1))  # fmt: skip
_binary("minimum",
        Kernel(pred=np.minimum, integer=np.minimum, real=ev.minimum, complex=np.minimum),
        "f32", "s32", traits=_REORDERABLE | Trait.IDEMPOTENT | Trait.EXTREMUM | Trait.EXACT,
        identity=lambda et: _end(et, 1))  # fmt: skip
_binary("and", Kernel(pred=np.bitwise_and, integer=np.bitwise_and), "pred", "u32",
        traits=_REORDERABLE | Trait.IDEMPOTENT, identity=_all_bits)  # fmt: skip
_binary("or", Kernel(pred=np.bitwise_or, integer=np.bitwise_or), "pred", "u32",
        traits=_REORDERABLE | Trait.IDEMPOTENT, identity=_no_bits)  # fmt: skip
_binary("xor", Kernel(pred=np.bitwise_xor, integer=np.bitwise_xor), "pred", "u32",
        traits=_REORDERABLE, identity=_no_bits)  # fmt: skip
_binary("shift-left", Kernel(sized=ev.shift_left), "u32", "s8")
_binary("shift-right-arithmetic", Kernel(sized=ev.shift_right_arithmetic), "s32", "u8")
_binary("shift-right-logical", Kernel(sized=ev.shift_right_logical), "u32", "s8")
_binary("mulhi", Kernel(sized=ev.multiply_high), "s32", "u64", traits=Trait.COMMUTATIVE,
        source="XLA hlo_opcode.h: the upper half of an integer product")  # fmt: skip
_COMPLEX_INFER, _COMPLEX_EVALUATE = _kernel_rules(Kernel(real=cx.join), complex_of)


def _infer_complex(op: OpView) -> ArrayShape:
    for i in range(2):
        need_type(op, i, lambda et: et.name in ("f32", "f64"), "f32 or f64")
    shape = _COMPLEX_INFER(op)
    assert isinstance(shape, ArrayShape)
    return shape


register(
    OpSpec(
        "complex", 2, _infer_complex, _COMPLEX_EVALUATE, Category.ELEMENTWISE, "003: Complex",
        ("c64[3] complex(f32[3] x, f32[3] y)",), traits=Trait.ELEMENTWISE | Trait.INFERABLE,
        cost=0.0,
        factors=pointwise,
    )
)  # fmt: skip
