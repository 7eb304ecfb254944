"""convert, bitcast-convert, reduce-precision, and the parts of complex numbers."""

from __future__ import annotations

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops.elementwise.casts import float_info, has_zero, widens
from hlo.ops.elementwise.conversion import reduction_type
from hlo.passes.algsimp._match import dims_of, filled, type_of
from hlo.passes.algsimp._rules import rule
from hlo.values.types import ElementType, array, integer_range

# --- convert ------------------------------------------------------------------------------------


@rule(
    "convert bitcast-convert", "convert(x) = x, bitcast-convert(x) = x, for its own type",
    dynamic=True,
)  # fmt: skip
def convert_to_own_type(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    return x if type_of(x) is type_of(inst) else None


@rule(
    "convert", "convert(convert(x)) = convert(x), where the first keeps every value", on="convert"
)
def convert_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "convert":
        return None
    x, to = inner.operands[0], type_of(inst)
    if not widens(type_of(x), type_of(inner)):
        return None
    # Integers wrap in integers, floats saturate.
    if type_of(x).is_integer and not type_of(inner).is_integer and to.is_integer:
        return b.convert(x, to) if widens(type_of(x), to) else None
    return b.convert(x, to)


@rule(
    "convert",
    "convert(convert(x)) = convert(x), for integers and a last type of no more bits",
    on="convert",
)
def truncate_twice(inst: Instruction, b: Builder) -> Instruction | None:
    """Conversions between integers keep low bits."""
    inner = inst.operands[0]
    if inner.opcode != "convert":
        return None
    x = inner.operands[0]
    if not all(type_of(i).is_integer for i in (x, inner, inst)):
        return None
    return b.convert(x, type_of(inst)) if type_of(inst).bits <= type_of(inner).bits else None


@rule("convert", "convert(iota) = iota, where both types have every number of it", on="iota")
def convert_of_iota(inst: Instruction, b: Builder) -> Instruction | None:
    x, et = inst.operands[0], type_of(inst)
    if x.opcode != "iota" or et.is_pred or not (has_zero(type_of(x)) and has_zero(et)):
        return None
    last = dims_of(x)[x.iota_dimension] - 1
    if not (_counts_to(type_of(x), last) and _counts_to(et, last)):
        return None
    return b.op("iota", shape=array(et, dims_of(x)), iota_dimension=x.iota_dimension)


def _counts_to(et: ElementType, last: int) -> bool:
    """True for types that have every integer from 0 to `last`."""
    if et.is_integer:
        return last <= integer_range(et)[1]
    return et.is_float and last <= min(1 << (float_info(et).nmant + 1), float(float_info(et).max))


# --- bits ---------------------------------------------------------------------------------------


@rule(
    "bitcast-convert",
    "bitcast-convert(bitcast-convert(x)) = bitcast-convert(x), of equal width",
    on="bitcast-convert",
)
def bitcast_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "bitcast-convert":
        return None
    x = inner.operands[0]
    if type_of(inner).is_pred or type_of(x).bits != type_of(inst).bits:
        return None
    if type_of(x) is type_of(inst):
        return x
    if dims_of(x) != dims_of(inst):
        return None
    return b.op("bitcast-convert", x, shape=array(type_of(inst), dims_of(inst)))


@rule("reduce-precision", "reduce-precision(x) = x, for at least the bits of its type")
def precise_already(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    return x if _has_bits_of(inst, reduction_type(type_of(x))) else None


@rule(
    "reduce-precision", "reduce-precision(convert(x)) = convert(x), for f32 of bf16", on="convert"
)
def precise_before_convert(inst: Instruction, b: Builder) -> Instruction | None:
    """Only of these two types are exponents the same, so that denormals are kept."""
    inner = inst.operands[0]
    if inner.opcode != "convert" or type_of(inner).name != "f32":
        return None
    source = type_of(inner.operands[0])
    return inner if source.name == "bf16" and _has_bits_of(inst, source) else None


def _has_bits_of(inst: Instruction, et: ElementType) -> bool:
    """True when precision is reduced to no less than what a type of 16 bits or more has."""
    mantissa = int(float_info(et).nmant)
    exponent = et.bits - 1 - mantissa
    return bool(inst.exponent_bits >= exponent and inst.mantissa_bits >= mantissa)


@rule(
    "reduce-precision",
    "reduce-precision(reduce-precision(x)) = the inner, for bits no fewer",
    on="reduce-precision",
)
def precision_twice(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "reduce-precision":
        return None
    same = all(inst.attrs[k] >= inner.attrs[k] for k in ("exponent_bits", "mantissa_bits"))
    return inner if same else None


# --- complex numbers ----------------------------------------------------------------------------


@rule("real imag", "real(complex(x, y)) = x, imag(complex(x, y)) = y", on="complex")
def part_of_complex(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "complex":
        return None
    return inner.operands[0 if inst.opcode == "real" else 1]


@rule("complex", "complex(real(z), imag(z)) = z, for a complex z")
def complex_of_parts(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x.opcode != "real" or y.opcode != "imag" or x.operands[0] is not y.operands[0]:
        return None
    z = x.operands[0]
    return z if type_of(z) is type_of(inst) else None


@rule("real imag", "real(x) = x, imag(x) = 0, for a real x")
def part_of_real(inst: Instruction, b: Builder) -> Instruction | None:
    x = inst.operands[0]
    if type_of(x).is_complex:
        return None
    return x if inst.opcode == "real" else filled(b, inst, 0)


@rule("real imag", "real(convert(x)) = convert(x), imag(convert(x)) = 0, for a real x")
def part_of_converted(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "convert" or type_of(inner.operands[0]).is_complex:
        return None
    if inst.opcode == "imag":
        return filled(b, inst, 0)
    return b.convert(inner.operands[0], inst.array_shape.element_type)


def _is_taken_apart(inst: Instruction) -> bool:
    """True for a complex value computed from `complex(u, v)` of which only parts are used."""
    if inst.is_root or inst.num_users > 2 or not type_of(inst).is_complex:
        return False
    if any(user.opcode not in ("real", "imag") for user in inst.users):
        return False
    return any(o.opcode == "complex" for o in inst.operands)


@rule("real imag", "real(-z) = -real(z), imag(-z) = -imag(z), where z is complex(u, v)")
def part_of_negated(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "negate" or not _is_taken_apart(inner):
        return None
    return b.op("negate", b.op(inst.opcode, inner.operands[0]))


@rule("real imag", "real(x + y) = real(x) + real(y), and imag and -, where one is complex(u, v)")
def part_of_sum(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode not in ("add", "subtract") or not _is_taken_apart(inner):
        return None
    return b.op(inner.opcode, *(b.op(inst.opcode, o) for o in inner.operands))
