"""Matrix products of cuBLAS and cuBLASLt (hipBLAS and hipBLASLt on ROCm, by the same names).

Source: XLA's backend_configs.proto (GemmBackendConfig), gemm_rewriter.cc, and the order of operands
and results in thunk_emitter.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hlo.ir import Computation, Instruction
from hlo.library_calls import activations
from hlo.library_calls.call import Call, is_scratch, library_call
from hlo.library_calls.config import Config
from hlo.values.layout.bitcasts import layout_of
from hlo.values.types import S32, ElementType

EPILOGUES = (
    "DEFAULT", "BIAS", "RELU", "BIAS_RELU", "GELU", "GELU_AUX", "BIAS_GELU", "BIAS_GELU_AUX",
    "SILU", "BIAS_SILU",
)  # fmt: skip
_ACTIVATIONS: dict[str, activations.Activation] = {
    "RELU": activations.relu, "GELU": activations.gelu, "SILU": activations.swish,
}  # fmt: skip


@dataclass(frozen=True)
class DotNumbers:
    """Which dimensions of the factors are batch and which are summed, as a config has them."""

    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]

    @classmethod
    def of(cls, config: Config, key: str) -> DotNumbers:
        found = config.need_section(key)
        return cls(
            found.integers("lhs_batch_dimensions"), found.integers("rhs_batch_dimensions"),
            found.integers("lhs_contracting_dimensions"),
            found.integers("rhs_contracting_dimensions"),
        )  # fmt: skip


def product(
    c: Call, dims: DotNumbers, lhs: Instruction, rhs: Instruction, et: ElementType
) -> Instruction:
    """Append a product of factors as they are, its sums in a type."""
    exact = et.is_float and not any(
        v.array_shape.element_type.is_float or v.array_shape.element_type.is_complex
        for v in (lhs, rhs)
    )
    precisions = c.config.section("precision_config").choices(
        "operand_precision", ("DEFAULT", "HIGH", "HIGHEST", "PACKED_NIBBLE")
    )
    attrs: dict[str, Any] = {}
    if len(precisions) == 2 and "PACKED_NIBBLE" not in precisions:
        attrs["operand_precision"] = tuple(p.lower() for p in precisions)
    if not dims.lhs_batch and dims.rhs_batch:
        # The batch is of one factor alone: it comes first, where `dot` has lhs first.
        lhs, rhs = rhs, lhs
        dims = DotNumbers(dims.rhs_batch, (), dims.rhs_contracting, dims.lhs_contracting)
        made = _dot(c, DotNumbers((), (), dims.lhs_contracting, dims.rhs_contracting), lhs, rhs,
                    S32 if exact else et, attrs)  # fmt: skip
        order = _batch_rows_columns(dims, lhs, rhs, swapped=True)
        return c.convert(_transposed(c, made, order), et)
    if dims.lhs_batch and not dims.rhs_batch:
        made = _dot(c, DotNumbers((), (), dims.lhs_contracting, dims.rhs_contracting), lhs, rhs,
                    S32 if exact else et, attrs)  # fmt: skip
        return c.convert(_transposed(c, made, _batch_rows_columns(dims, lhs, rhs)), et)
    return c.convert(_dot(c, dims, lhs, rhs, S32 if exact else et, attrs), et)


def _dot(
    c: Call, dims: DotNumbers, lhs: Instruction, rhs: Instruction, et: ElementType,
    attrs: dict[str, Any],
) -> Instruction:  # fmt: skip
    made = c.op(
        "dot", lhs, rhs, lhs_batch_dims=dims.lhs_batch, rhs_batch_dims=dims.rhs_batch,
        lhs_contracting_dims=dims.lhs_contracting, rhs_contracting_dims=dims.rhs_contracting,
        **attrs,
    )  # fmt: skip
    made.shape = made.array_shape.with_type(et)
    return made


def _batch_rows_columns(
    dims: DotNumbers, lhs: Instruction, rhs: Instruction, *, swapped: bool = False
) -> list[int]:
    """Return the order of a product's dimensions that has the batch of `lhs` first.

    swapped: then the dimensions of `rhs`, and those of `lhs` last.
    """
    kept = [d for d in range(lhs.array_shape.rank) if d not in dims.lhs_contracting]
    others = rhs.array_shape.rank - len(dims.rhs_contracting)
    batch = [kept.index(d) for d in dims.lhs_batch]
    rows = [n for n in range(len(kept)) if n not in batch]
    columns = list(range(len(kept), len(kept) + others))
    return [*batch, *columns, *rows] if swapped else [*batch, *rows, *columns]


def _transposed(c: Call, value: Instruction, order: list[int]) -> Instruction:
    if order == sorted(order):
        return value
    return c.op("transpose", value, dimensions=tuple(order))


@library_call("__cublas$gemm", section="gemm_backend_config")
def _gemm(c: Call) -> Computation:
    """`alpha * lhs * rhs + beta * C`."""
    beta = c.config.number("beta")
    c.need_operands(3 if beta else 2)
    return c.done(_with_addend(c, _scaled_product(c), beta))


@library_call("__cublas$lt$matmul", section="gemm_backend_config")
def _lt_matmul(c: Call) -> Computation:
    """`activation(alpha * lhs * rhs + beta * C + bias)`, and what the activation is applied to."""
    beta, epilogue = c.config.number("beta"), c.config.choice("epilogue", EPILOGUES)
    has_bias = epilogue.startswith("BIAS")
    c.need_operands(2 + bool(beta) + has_bias)
    x = _with_addend(c, _scaled_product(c), beta)
    if has_bias:
        x = _with_bias(c, x, len(c.operands) - 1)
    y = _activated(c, x, epilogue)
    # XLA also asks for it beside SILU, which has no epilogue of that name.
    has_aux = epilogue.endswith("AUX") or (len(c.wanted) > 1 and not is_scratch(c.wanted[1]))
    return c.done(y, x) if has_aux else c.done(y)


@library_call("__cublas$lt$matmul$f8", section="gemm_backend_config")
def _lt_matmul_f8(c: Call) -> Computation:
    """A product of f8 with scales of the factors and, where it is f8 itself, of the result.

    Operands: lhs, rhs, C if beta is not 0, the scales of lhs and rhs, bias, the scale of the
    result; until 2024 those of C and of the result came before the bias, in every call.
    """
    beta, epilogue = c.config.number("beta"), c.config.choice("epilogue", EPILOGUES)
    has_bias, has_addend = epilogue.startswith("BIAS"), bool(beta)
    narrow = c.wanted[0].element_type.name.startswith("f8")
    first = 2 + has_addend
    is_old = len(c.operands) == first + 4 + has_bias
    if not is_old:
        c.need_operands(first + 2 + has_bias + narrow)
    scales = [c.as_wide(c.plain(n)) for n in (first, first + 1)]
    x = _scaled_product(c, *scales)
    addend_scale = c.as_wide(c.plain(first + 2)) if is_old and narrow else None
    x = _with_addend(c, x, beta, addend_scale)
    if has_bias:
        x = _with_bias(c, x, first + (4 if is_old else 2))
    y = d = _activated(c, x, epilogue)
    if narrow:
        scale = c.as_wide(c.plain(first + 3 if is_old else len(c.operands) - 1))
        d = c.op("multiply", y, c.spread(_scalar(c, scale), (), y))
    if not c.config.flag("damax_output"):
        return c.done(d)
    size = c.op("abs", y)
    return c.done(d, c.total(size, range(size.array_shape.rank), "maximum"))


def _scaled_product(c: Call, *scales: Instruction) -> Instruction:
    config = c.config
    dims = DotNumbers.of(config, "dot_dimension_numbers")
    x = product(c, dims, c.operands[0], c.operands[1], c.wide)
    for scale in scales:
        x = c.op("multiply", x, c.spread(_scalar(c, scale), (), x))
    return c.times(x, complex(config.number("alpha_real", 1), config.number("alpha_imag")))


def _scalar(c: Call, value: Instruction) -> Instruction:
    if value.array_shape.num_elements != 1:
        shape = value.array_shape.to_string(False)
        raise c.wrong(f"a scale is a scalar, not {shape}", "shape-mismatch")
    return c.reshape(value, ())


def _with_addend(
    c: Call, x: Instruction, beta: float, scale: Instruction | None = None
) -> Instruction:
    if not beta:
        return x
    addend = c.as_wide(c.plain(2))
    if scale is not None:
        addend = c.op("multiply", addend, c.spread(_scalar(c, scale), (), addend))
    return c.op("add", x, c.times(addend, beta))


def _with_bias(c: Call, x: Instruction, number: int) -> Instruction:
    """Add a vector along the dimension that is contiguous in memory; a scalar to a vector."""
    bias, dims = c.as_wide(c.plain(number)), x.array_shape.dims
    if not bias.array_shape.rank:
        return c.op("add", x, c.spread(bias, (), x))
    at = layout_of(c.wanted[0]).minor_to_major[0]
    if bias.array_shape.dims != dims[at : at + 1]:
        raise c.wrong(
            f"the bias {bias.array_shape.to_string(False)} is no vector along dimension {at} of "
            f"the result, {c.wanted[0].to_string(False)}",
            "shape-mismatch",
        )
    return c.op("add", x, c.spread(bias, (at,), x))


def _activated(c: Call, x: Instruction, epilogue: str) -> Instruction:
    for name, apply in _ACTIVATIONS.items():
        if name in epilogue.split("_"):
            return apply(c, x)
    return x
