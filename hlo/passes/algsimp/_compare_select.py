"""compare, select and clamp."""

from __future__ import annotations

import numpy as np

from hlo.ir import Instruction
from hlo.ir.builder import Builder
from hlo.ops.elementwise.casts import widens
from hlo.ops.elementwise.selection import FLOAT_ORDERS
from hlo.passes.algsimp._facts import integers_of, type_range
from hlo.passes.algsimp._match import (
    compute,
    dims_of,
    filled,
    has_negatives,
    integer_splat,
    is_constant,
    is_exact,
    is_single_use,
    is_splat,
    limits,
    splat,
    type_of,
)
from hlo.passes.algsimp._rules import rule
from hlo.values.types import ElementType

_SWAPPED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
_NEGATED = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}
_TRUE_OF_EQUAL = {"EQ": 1, "LE": 1, "GE": 1, "NE": 0, "LT": 0, "GT": 0}


def _direction(inst: Instruction) -> str:
    return str(inst.direction)


def _is_total(inst: Instruction) -> bool:
    """True for comparisons under which every two values are ordered."""
    return is_exact(type_of(inst.operands[0])) or inst.comparison_type in FLOAT_ORDERS


# --- compare ------------------------------------------------------------------------------------


@rule("compare", "x == x is true and x < x false, for integers, pred and orders of all floats")
def compare_self(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x is not y or not _is_total(inst) or type_of(x).is_complex:
        return None
    return filled(b, inst, _TRUE_OF_EQUAL[_direction(inst)])


@rule("compare", "x < x is false, and >, for floats, NaN included; x != x is true for NaN")
def compare_float_self(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    return filled(b, inst, 0) if x is y and _direction(inst) in ("LT", "GT") else None


@rule("compare", "c < x = x > c, for a constant c", on="constant broadcast")
def compared_constant_right(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if not is_constant(x) or is_constant(y):
        return None
    return b.op("compare", y, x, direction=_SWAPPED[_direction(inst)], type=inst.comparison_type)


@rule("compare", "x < y is true where x < y always, for ranges of integers and pred")
def compare_ranges(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if not is_exact(type_of(x)) or x is y:
        return None
    (a, d), (c, e) = integers_of(x), integers_of(y)
    # Relations between the elements of x and y that are excluded.
    known = {
        "LT": d < c, "GE": a >= e, "GT": a > e, "LE": d <= c, "NE": d < c or a > e,
        "EQ": a == d == c == e,
    }  # fmt: skip
    direction = _direction(inst)
    if known[direction]:
        return filled(b, inst, 1)
    return filled(b, inst, 0) if known[_NEGATED[direction]] else None


@rule(
    "compare",
    "p == true and p != false = p, p != true and p == false = ~p, for pred",
    on="constant broadcast",
)
def compare_pred(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    value = integer_splat(y) if type_of(x).is_pred else None
    if value is None or _direction(inst) not in ("EQ", "NE"):
        return None
    return x if (value == 1) == (_direction(inst) == "EQ") else b.op("not", x)


@rule(
    "compare",
    "x <= c = (x == c) and x > c = (x != c), for the least c, and so on",
    on="constant broadcast",
)
def compare_with_limit(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if not is_exact(type_of(x)):
        return None
    value, (low, high) = integer_splat(y), integers_of(x)
    if value is None or low == high:
        return None
    if value == low:
        change = {"LE": ("EQ", low), "GT": ("NE", low)}
    elif value == high:
        change = {"GE": ("EQ", high), "LT": ("NE", high)}
    elif value == low + 1:
        change = {"LT": ("EQ", low), "GE": ("NE", low)}
    else:
        change = {"GT": ("EQ", high), "LE": ("NE", high)} if value == high - 1 else {}
    if _direction(inst) not in change:
        return None
    direction, limit = change[_direction(inst)]
    return b.op("compare", x, filled(b, y, limit), direction=direction, type=inst.comparison_type)


@rule("compare", "x + c == d = (x == d - c), and !=, for integers and constants c, d", on="add")
def compare_sum(inst: Instruction, b: Builder) -> Instruction | None:
    inner, y = inst.operands
    if inner.opcode != "add" or not type_of(y).is_integer:
        return None
    c, d = splat(inner.operands[1]), splat(y)
    if c is None or d is None or _direction(inst) not in ("EQ", "NE"):
        return None
    return b.op("compare", inner.operands[0], filled(b, y, compute("subtract", d, c)), **inst.attrs)


@rule("compare", "x - y == 0 and x ^ y == 0 = (x == y), and !=, for integers", on="subtract xor")
def compare_difference(inst: Instruction, b: Builder) -> Instruction | None:
    inner, y = inst.operands
    if inner.opcode not in ("subtract", "xor") or not type_of(y).is_integer:
        return None
    if not is_splat(y, 0) or _direction(inst) not in ("EQ", "NE"):
        return None
    return b.op("compare", *inner.operands, **inst.attrs)


@rule("compare", "-x == 0 and |x| == 0 = (x == 0), and !=, for real numbers", on="abs negate")
def compare_sign_change_with_zero(inst: Instruction, b: Builder) -> Instruction | None:
    inner, y = inst.operands
    if inner.opcode not in ("negate", "abs") or inst.comparison_type in FLOAT_ORDERS:
        return None
    x = inner.operands[0]
    if type_of(x) is not type_of(y) or type_of(x).is_complex or not has_negatives(type_of(x)):
        return None
    if not is_splat(y, 0) or _direction(inst) not in ("EQ", "NE"):
        return None
    return b.op("compare", x, y, **inst.attrs)


@rule("compare", "-x < -y = x > y, for floats", on="negate")
def compare_negated(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    et = type_of(x)
    if x.opcode != "negate" or y.opcode != "negate" or not et.is_float or not has_negatives(et):
        return None
    if inst.comparison_type in FLOAT_ORDERS:
        return None
    direction = _SWAPPED[_direction(inst)]
    return b.op("compare", x.operands[0], y.operands[0], direction=direction)


def _keeps_order(source: ElementType, to: ElementType) -> bool:
    """True for conversions that keep values, and with them the order."""
    return widens(source, to) and not to.is_complex


@rule(
    "compare",
    "convert(x) < convert(y) = x < y, for conversions of one type that keep values",
    on="convert",
)
def compare_converted(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if x.opcode != "convert" or y.opcode != "convert" or inst.comparison_type in FLOAT_ORDERS:
        return None
    u, v = x.operands[0], y.operands[0]
    if type_of(u) is not type_of(v) or not _keeps_order(type_of(u), type_of(x)):
        return None
    return b.op("compare", u, v, direction=_direction(inst))


@rule("compare", "convert(x) < c = x < d, for d with convert(d) = c and a kept order", on="convert")
def compare_converted_with_constant(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    value = splat(y)
    if x.opcode != "convert" or value is None or inst.comparison_type in FLOAT_ORDERS:
        return None
    source, to = type_of(x.operands[0]), type_of(x)
    if not _keeps_order(source, to):
        return None
    if is_exact(source):
        low, high = type_range(source)
        number = float(value) if to.is_float else int(value)
        if not low <= number <= high or number != int(number):
            return None
    with np.errstate(all="ignore"):
        small = value.astype(source.dtype)
        back = small.astype(to.dtype)
    if back.tobytes() != value.tobytes():
        return None
    bound = b.filled(source, dims_of(x), small)
    return b.op("compare", x.operands[0], bound, direction=_direction(inst))


@rule(
    "not",
    "~(x < y) = x >= y, for integers and orders of all floats; ~(x == y) = x != y, for all",
    on="compare",
)
def not_compare(inst: Instruction, b: Builder) -> Instruction | None:
    inner = inst.operands[0]
    if inner.opcode != "compare" or not is_single_use(inner):
        return None
    if not _is_total(inner) and _direction(inner) not in ("EQ", "NE"):
        return None
    direction = _NEGATED[_direction(inner)]
    return b.op("compare", *inner.operands, direction=direction, type=inner.comparison_type)


# --- select -------------------------------------------------------------------------------------


@rule("select", "p ? x : x = x")
def select_same(inst: Instruction, b: Builder) -> Instruction | None:
    _, x, y = inst.operands
    return x if x is y else None


@rule("select", "true ? x : y = x, false ? x : y = y", on="constant broadcast")
def select_constant(inst: Instruction, b: Builder) -> Instruction | None:
    p, x, y = inst.operands
    value = integer_splat(p)
    return None if value is None else x if value else y


@rule("select", "~p ? x : y = p ? y : x", on="not")
def select_not(inst: Instruction, b: Builder) -> Instruction | None:
    p, x, y = inst.operands
    return b.op("select", p.operands[0], y, x) if p.opcode == "not" else None


@rule("select", "p ? true : false = p, p ? false : true = ~p", on="constant broadcast")
def select_pred(inst: Instruction, b: Builder) -> Instruction | None:
    p, x, y = inst.operands
    if not type_of(inst).is_pred:
        return None
    yes, no = integer_splat(x), integer_splat(y)
    if yes is None or no is None or yes == no:
        return None
    whole = p if dims_of(p) == dims_of(inst) else b.broadcast(p, inst.array_shape)
    return whole if yes else b.op("not", whole)


@rule(
    "select",
    "p ? x : false = p & x, p ? true : x = p | x, for pred of one shape",
    on="constant broadcast",
)
def select_as_logic(inst: Instruction, b: Builder) -> Instruction | None:
    p, x, y = inst.operands
    if not type_of(inst).is_pred or dims_of(p) != dims_of(inst):
        return None
    if is_splat(y, 0):
        return b.op("and", p, x)
    return b.op("or", p, y) if is_splat(x, 1) else None


@rule("select", "p ? (p ? x : y) : z = p ? x : z, p ? x : (p ? y : z) = p ? x : z", on="select")
def select_again(inst: Instruction, b: Builder) -> Instruction | None:
    p, x, y = inst.operands
    if x.opcode == "select" and x.operands[0] is p:
        return b.op("select", p, x.operands[1], y)
    if y.opcode == "select" and y.operands[0] is p:
        return b.op("select", p, x, y.operands[2])
    return None


@rule(
    "select",
    "p ? x : (q ? x : y) = p | q ? x : y, p ? (q ? x : y) : y = p & q ? x : y",
    on="select",
)
def select_of_select(inst: Instruction, b: Builder) -> Instruction | None:
    p, x, y = inst.operands
    for inner, op, shared in ((y, "or", 1), (x, "and", 2)):
        if inner.opcode != "select" or not is_single_use(inner):
            continue
        q = inner.operands[0]
        if dims_of(q) == dims_of(p) and inner.operands[shared] is inst.operands[shared]:
            return b.op("select", b.op(op, p, q), inner.operands[1], inner.operands[2])
    return None


@rule("select", "x > y ? x : y = max(x, y), and so on, for integers", on="compare")
def select_greater(inst: Instruction, b: Builder) -> Instruction | None:
    p, x, y = inst.operands
    if p.opcode != "compare" or not is_exact(type_of(x)):
        return None
    direction = _direction(p)
    if p.operands == [y, x]:
        direction = _SWAPPED[direction]
    elif p.operands != [x, y]:
        return None
    op = {"GT": "maximum", "GE": "maximum", "LT": "minimum", "LE": "minimum"}.get(direction)
    return b.op(op, x, y) if op else None


@rule("select", "x == y ? x : y = y, x != y ? x : y = x, for integers", on="compare")
def select_equal(inst: Instruction, b: Builder) -> Instruction | None:
    p, x, y = inst.operands
    if p.opcode != "compare" or not is_exact(type_of(x)):
        return None
    if p.operands not in ([x, y], [y, x]):
        return None
    return {"EQ": y, "NE": x}.get(_direction(p))


@rule("select", "p ? 1 : 0 = convert(p), for numbers", on="constant broadcast")
def select_one_or_zero(inst: Instruction, b: Builder) -> Instruction | None:
    p, x, y = inst.operands
    et = type_of(inst)
    if et.is_pred or et.is_complex or not (is_splat(x, 1) and is_splat(y, 0)):
        return None
    return b.convert(p if dims_of(p) == dims_of(inst) else b.broadcast(p, inst.array_shape), et)


@rule("select", "x < 0 ? -x : x = |x|, and so on, for signed integers", on="compare")
def select_abs(inst: Instruction, b: Builder) -> Instruction | None:
    p, yes, no = inst.operands
    if p.opcode != "compare" or not type_of(inst).is_signed:
        return None
    x, bound = p.operands
    below = _direction(p) in ("LT", "LE") and is_splat(bound, 0)
    above = (_direction(p) == "GE" and is_splat(bound, 0)) or (
        _direction(p) == "GT" and (is_splat(bound, 0) or is_splat(bound, -1))
    )
    negated, plain = (yes, no) if below else (no, yes)
    if not (below or above) or plain is not x or negated.opcode != "negate":
        return None
    return b.op("abs", x) if negated.operands[0] is x else None


# --- clamp, minimum and maximum -----------------------------------------------------------------


def _full(b: Builder, bound: Instruction, inst: Instruction) -> Instruction:
    return bound if dims_of(bound) == dims_of(inst) else b.broadcast(bound, inst.array_shape)


@rule(
    "clamp",
    "clamp(least, x, h) = min(x, h), clamp(l, x, greatest) = max(x, l)",
    on="constant broadcast",
)
def clamp_on_one_side(inst: Instruction, b: Builder) -> Instruction | None:
    low, x, high = inst.operands
    ends = limits(type_of(x))
    if ends is None:
        return None
    if is_splat(low, ends[0]):
        return b.op("minimum", x, _full(b, high, inst))
    return b.op("maximum", x, _full(b, low, inst)) if is_splat(high, ends[1]) else None


@rule(
    "clamp",
    "clamp(l, clamp(l, x, h), h) = clamp(l, x, h), for constants l <= h and no NaN",
    on="clamp",
)
def clamp_again(inst: Instruction, b: Builder) -> Instruction | None:
    low, inner, high = inst.operands
    if inner.opcode != "clamp" or not _in_order(low, high):
        return None
    for mine, other in ((low, inner.operands[0]), (high, inner.operands[2])):
        x, y = splat(mine), splat(other)
        if x is None or y is None or x.tobytes() != y.tobytes():
            return None
    return inner


def _in_order(low: Instruction, high: Instruction) -> bool:
    """True for constants low <= high of real types, in the order in which -0 is less than 0."""
    x, y = splat(low), splat(high)
    if x is None or y is None or type_of(low).is_complex:
        return False
    return compute("maximum", x, y).tobytes() == y.tobytes() and bool(y == y)


@rule(
    "minimum maximum",
    "min(max(x, l), h) = max(min(x, h), l) = clamp(l, x, h), for l <= h",
    on="maximum minimum",
)
def clamp_of_bounds(inst: Instruction, b: Builder) -> Instruction | None:
    inner, outer = inst.operands
    other = "maximum" if inst.opcode == "minimum" else "minimum"
    if inner.opcode != other or not is_single_use(inner):
        return None
    x, bound = inner.operands
    low, high = (bound, outer) if inst.opcode == "minimum" else (outer, bound)
    return b.op("clamp", low, x, high) if _in_order(low, high) else None


@rule(
    "compare",
    "x == 1 = (x != 0), x != 1 = (x == 0), for integers 0 <= x <= 1",
    on="constant broadcast",
)
def compare_bit(inst: Instruction, b: Builder) -> Instruction | None:
    x, y = inst.operands
    if not type_of(y).is_integer or not is_splat(y, 1) or integers_of(x) != (0, 1):
        return None
    direction = {"EQ": "NE", "NE": "EQ"}.get(_direction(inst))
    if direction is None:
        return None
    return b.op("compare", x, filled(b, y, 0), direction=direction, type=inst.comparison_type)
