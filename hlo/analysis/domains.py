"""The domains of parameters: ranges of values for which a program is well-defined.

The operand of a square root should not be negative, an index should be in bounds. Such demands
are created at the operations and propagated backwards to the parameters, through operations that
keep or shift a range. They are a heuristic for test inputs, not a guarantee: values that the
analysis does not understand have no domain.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hlo.analysis.constants import splat
from hlo.analysis.elided import is_elided
from hlo.io.random import Domain
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.ops.movement.gather_scatter import INDEX_ATTRS, index_dims
from hlo.values.types import UNBOUNDED, ArrayShape

Path = tuple[int, ...]
Demand = tuple[Instruction, Path, Domain]

# Operands of functions with a pole at 0 keep away from it: narrow types overflow near it.
_AWAY = 2.0**-7
_INSIDE = 1 - 2.0**-4
# The ranges of operands outside which operations on floats give NaN or infinity.
_ARGUMENTS: dict[str, tuple[int, float, float]] = {
    "sqrt": (0, 0.0, math.inf),
    "rsqrt": (0, _AWAY, math.inf),
    "log": (0, _AWAY, math.inf),
    "log2": (0, _AWAY, math.inf),
    "log-plus-one": (0, -_INSIDE, math.inf),
    "acosh": (0, 1.0, math.inf),
    "acos": (0, -1.0, 1.0),
    "asin": (0, -1.0, 1.0),
    "atanh": (0, -_INSIDE, _INSIDE),
    "batch-norm-inference": (4, 0.0, math.inf),
    "batch-norm-grad": (3, 0.0, math.inf),
}
# Beside what only moves data: operations that keep what they round or exchange in the domain.
_KEEPING = frozenset(
    {"convert", "reduce-precision", "all-gather", "all-to-all", "collective-permute"}
)
# Operations, besides those with the trait, whose results are nonnegative or -0 for all operands.
_NEVER_NEGATIVE = frozenset({"sqrt", "rsqrt", "iota"})
_SHIFTS = frozenset({"shift-left", "shift-right-arithmetic", "shift-right-logical"})
# The largest of the integers that count, or that an index is computed from.
_FEW = 9
_DEPTH = 8
# How often the demand on one value may be narrowed: through loops it might never converge.
_MOST_VISITS = 4


def domains_of(module: Module) -> dict[tuple[int, Path], Domain]:
    """Return the domains of leaves of a valid module's parameters, by number and index path."""
    known, entry = _demands(module), module.entry
    return {
        (inst.parameter_number, path): domain
        for (inst, path), domain in known.items()
        if inst.opcode == "parameter" and inst.parent is entry
    }


def domains_of_constants(module: Module) -> dict[tuple[Instruction, Path], Domain]:
    """Return the domains of leaves of a valid module's elided constants, by index path."""
    return {place: domain for place, domain in _demands(module).items() if is_elided(place[0])}


def _demands(module: Module) -> dict[tuple[Instruction, Path], Domain]:
    """Return the demands on the leaves of values."""
    demands = deque(demand for inst in module.instructions() for demand in _asked(inst))
    callers = module.callers() if demands else {}
    known: dict[tuple[Instruction, Path], Domain] = {}
    visits: Counter[tuple[Instruction, Path]] = Counter()
    while demands:
        inst, path, domain = demands.popleft()
        before = known.get((inst, path))
        if before is not None:
            domain = _both(before, domain)
            if domain == before or visits[inst, path] == _MOST_VISITS:
                continue
        known[inst, path] = domain
        visits[inst, path] += 1
        if inst.opcode != "parameter":
            demands.extend(_behind(inst, path, domain))
        elif inst.parent is not module.entry:
            assert inst.parent is not None
            for caller in callers[inst.parent]:
                demands.extend(_passed(caller, inst.parent, inst.parameter_number, path, domain))
    return known


def _both(first: Domain, second: Domain) -> Domain:
    """Return the intersection of two domains, or the first if they are disjoint."""
    low, high = max(first.low, second.low), min(first.high, second.high)
    if low > high or (low, high) == (first.low, first.high):
        return first
    return Domain(low, high, first.used_by if low == first.low else second.used_by)


# --- demands of operations ----------------------------------------------------------------------


def _asked(inst: Instruction) -> Iterator[Demand]:
    op = inst.opcode
    if op in _ARGUMENTS:
        number, low, high = _ARGUMENTS[op]
        yield from _if_float(inst.operands[number], Domain(low, high, op))
    elif op == "power":
        exponent = splat(inst.operands[1]) if _is_float(inst) else None
        if _is_float(inst) and (exponent is None or not float(exponent).is_integer()):
            yield inst.operands[0], (), Domain(_AWAY, math.inf, op)
    elif op in ("dynamic-slice", "dynamic-update-slice"):
        yield from _slice_starts(inst)
    elif op in INDEX_ATTRS:
        yield from _indices(inst)
    elif op == "conditional" and inst.operands[0].array_shape.element_type.is_integer:
        most = len(inst.called_computations) - 1
        yield inst.operands[0], (), Domain(0, most, op)
    elif op == "while":
        yield from _trip_counts(inst)
    elif op in _SHIFTS:
        bits = inst.array_shape.element_type.bits
        yield inst.operands[1], (), Domain(0, min(bits - 1, _FEW), op)
    elif op == "set-dimension-size":
        yield inst.operands[1], (), _size(inst.operands[0].array_shape.dims[inst.dimensions[0]], op)
    elif op == "dynamic-reshape":
        for size, bound in zip(inst.operands[1:], inst.array_shape.dims, strict=True):
            yield size, (), _size(bound, op)


def _if_float(inst: Instruction, domain: Domain) -> Iterator[Demand]:
    if _is_float(inst):
        yield inst, (), domain


def _is_integer(inst: Instruction) -> bool:
    return isinstance(inst.shape, ArrayShape) and inst.shape.element_type.is_integer


def _is_float(inst: Instruction) -> bool:
    return isinstance(inst.shape, ArrayShape) and inst.shape.element_type.is_float


def _size(bound: int, op: str) -> Domain:
    """Return the domain of a size of at most `bound`."""
    return Domain(0, _FEW if bound == UNBOUNDED else bound, op)


def _trip_counts(loop: Instruction) -> Iterator[Demand]:
    """Yield the domains of the integers that a loop's condition compares: it has few iterations."""
    for inst in loop.condition:
        if inst.opcode == "compare" and _is_integer(inst.operands[0]):
            for operand in inst.operands:
                yield operand, (), Domain(0, _FEW, loop.opcode)


def _slice_starts(inst: Instruction) -> Iterator[Demand]:
    whole = inst.operands[0].array_shape.dims
    first = 1 if inst.opcode == "dynamic-slice" else 2
    part = (inst if first == 1 else inst.operands[1]).array_shape.dims
    if UNBOUNDED in (*whole, *part):
        return
    room = [w - p for w, p in zip(whole, part, strict=True)]
    starts = inst.operands[first:]
    if len(starts) == 1 and starts[0].array_shape.rank == 1:
        starts, room = starts, [min(room, default=0)]
    for start, most in zip(starts, room, strict=True):
        yield start, (), Domain(0, most, inst.opcode)


def _indices(inst: Instruction) -> Iterator[Demand]:
    """Yield the domains of the indices of a gather or a scatter."""
    at = 1 if inst.opcode == "gather" else len(inst.operands) // 2
    operand, indices, dims = inst.operands[0].array_shape, inst.operands[at], index_dims(inst)
    sizes = list(inst.slice_sizes if at == 1 and inst.opcode == "gather" else ())
    if inst.opcode == "scatter":
        updates = inst.operands[at + 1].array_shape
        sizes = [1] * operand.rank
        window = dims.window_dims(operand.rank)
        for d, of in zip(window, inst.update_window_dims, strict=True):
            sizes[d] = updates.dims[of]
    if UNBOUNDED in (*operand.dims, *sizes) or not dims.index_map:
        return
    room = [operand.dims[d] - sizes[d] for d in dims.index_map]
    parts = indices.operands
    if (
        indices.opcode == "concatenate"
        and indices.dimensions == (dims.index_vector_dim,)
        and len(parts) == len(room)
    ):
        # Each component of the index vectors is computed separately, with its own domain.
        for part, most in zip(parts, room, strict=True):
            yield part, (), Domain(0, most, inst.opcode)
    else:
        yield indices, (), Domain(0, max(0, min(room)), inst.opcode)


# --- backward propagation -----------------------------------------------------------------------


def _passed(
    caller: Instruction, callee: Computation, number: int, path: Path, domain: Domain
) -> Iterator[Demand]:
    """Yield the demands on callers' operands that follow from one on a computation's parameter."""
    if caller.spec.has(Trait.CALL) or caller.opcode in ("map", "async-start"):
        yield caller.operands[number], path, domain
    elif caller.opcode == "while":
        yield caller.operands[0], path, domain
    elif caller.opcode == "conditional":
        for branch, operand in zip(caller.called_computations, caller.operands[1:], strict=True):
            if branch is callee:
                yield operand, path, domain


def _behind(inst: Instruction, path: Path, domain: Domain) -> Iterator[Demand]:
    """Yield the demands on the operands that follow from one on a value."""
    op = inst.opcode
    if op == "tuple":
        yield inst.operands[path[0]], path[1:], domain
    elif op == "get-tuple-element":
        yield inst.operands[0], (inst.tuple_index, *path), domain
    elif op == "map" or inst.spec.has(Trait.CALL):
        yield inst.called_computations[0].root, path, domain
    elif op == "while":
        yield inst.operands[0], path, domain
    elif op == "conditional":
        for branch in inst.called_computations:
            yield branch.root, path, domain
    elif (moved := _moved(inst)) is not None:
        for operand in moved:
            if isinstance(operand.shape, ArrayShape) or path:
                yield operand, path, domain
    elif op == "select":
        for operand in _alternatives(inst):
            yield operand, path, domain
    elif not path:
        demands = list(_ARITHMETIC[op](inst, domain)) if op in _ARITHMETIC else []
        if not demands and _is_integer(inst) and math.isfinite(domain.high - domain.low):
            # However the index is computed, it is likely to be in bounds for small numbers.
            demands = [
                (x, (), Domain(0, _FEW, domain.used_by)) for x in inst.operands if _is_integer(x)
            ]
        yield from demands


def _alternatives(inst: Instruction) -> list[Instruction]:
    """Return the operands that a select may return: of `i < 0 ? i + n : i` only the unshifted
    one."""
    _, first, second = inst.operands
    if first.opcode == "add" and second in first.operands:
        return [second]
    if second.opcode == "add" and first in second.operands:
        return [first]
    return [first, second]


def _add(inst: Instruction, domain: Domain) -> Iterator[Demand]:
    a, b = inst.operands
    for x, y in ((a, b), (b, a)):
        shift = _real(y)
        if shift is None:
            continue
        moved = replace(domain, low=domain.low - shift, high=domain.high - shift)
        if _is_float(inst) and moved.low < 0 <= domain.low and math.isinf(domain.high):
            # A small epsilon added to a variance does not make negative variances valid.
            moved = replace(moved, low=0.0)
        yield x, (), moved
        return
    if domain.low >= 0 and math.isinf(domain.high):
        for x in (a, b):
            if not _is_never_negative(x):
                yield x, (), replace(domain, low=0.0)


def _subtract(inst: Instruction, domain: Domain) -> Iterator[Demand]:
    a, b = inst.operands
    if (shift := _real(b)) is not None:
        yield a, (), replace(domain, low=domain.low + shift, high=domain.high + shift)
    elif (start := _real(a)) is not None:
        yield b, (), replace(domain, low=start - domain.high, high=start - domain.low)


def _negate(inst: Instruction, domain: Domain) -> Iterator[Demand]:
    yield inst.operands[0], (), replace(domain, low=-domain.high, high=-domain.low)


def _multiply(inst: Instruction, domain: Domain) -> Iterator[Demand]:
    a, b = inst.operands
    for x, y in ((a, b), (b, a)):
        factor = _real(y)
        if factor:
            ends = sorted((domain.low / factor, domain.high / factor))
            yield x, (), replace(domain, low=ends[0], high=ends[1])
            return
    if a is not b and domain.low >= 0 and math.isinf(domain.high):
        for x in (a, b):
            if not _is_never_negative(x):
                yield x, (), domain


def _divide(inst: Instruction, domain: Domain) -> Iterator[Demand]:
    a, b = inst.operands
    divisor = _real(b)
    if not _is_float(inst):
        return
    if divisor:
        ends = sorted((domain.low * divisor, domain.high * divisor))
        yield a, (), replace(domain, low=ends[0], high=ends[1])
    elif domain.low >= 0 and math.isinf(domain.high):
        if not _is_never_negative(a):
            yield a, (), domain
        if not _is_never_negative(b):
            yield b, (), replace(domain, low=max(_AWAY, domain.low))


def _reduce(inst: Instruction, domain: Domain) -> Iterator[Demand]:
    """Sums, means, products, minima and maxima of nonnegative values are nonnegative."""
    x = inst.operands[0]
    if domain.low >= 0 and math.isinf(domain.high) and not _is_never_negative(x):
        yield x, (), replace(domain, low=0.0)


def _extreme(inst: Instruction, domain: Domain) -> Iterator[Demand]:
    """The greater of a number in the domain and anything is in it, if it is open above."""
    open_end = domain.high if inst.opcode == "maximum" else -domain.low
    for number in map(_real, inst.operands):
        if number is not None and math.isinf(open_end) and domain.low <= number <= domain.high:
            return
    for x in inst.operands:
        yield x, (), domain


def _clamp(inst: Instruction, domain: Domain) -> Iterator[Demand]:
    """A clamp of indices is no reason to draw random ones out of bounds."""
    if not _is_float(inst):
        yield inst.operands[1], (), domain


_ARITHMETIC: dict[str, Callable[[Instruction, Domain], Iterator[Demand]]] = {
    "add": _add,
    "subtract": _subtract,
    "negate": _negate,
    "multiply": _multiply,
    "divide": _divide,
    "reduce": _reduce,
    "all-reduce": _reduce,
    "maximum": _extreme,
    "minimum": _extreme,
    "clamp": _clamp,
}


def _real(inst: Instruction) -> float | None:
    """Return the finite real number that each element of a constant is."""
    value = splat(inst)
    if value is None or value.dtype.kind == "c" or not math.isfinite(float(value)):
        return None
    return float(value)


def _is_never_negative(inst: Instruction, depth: int = _DEPTH) -> bool:
    """True where no operand can make an element negative."""
    op, operands = inst.opcode, inst.operands
    if not depth:
        return False
    if op in _NEVER_NEGATIVE or inst.spec.has(Trait.NONNEGATIVE):
        return True
    value = _real(inst)
    if value is not None:
        return value >= 0
    if op == "multiply" and operands[0] is operands[1]:
        return True
    if op in ("add", "multiply", "divide", "reduce", "concatenate", "minimum"):
        return all(_is_never_negative(o, depth - 1) for o in operands)
    if op == "maximum":
        return any(_is_never_negative(o, depth - 1) for o in operands)
    moved = _moved(inst)
    return moved is not None and _is_never_negative(moved[0], depth - 1)


def _moved(inst: Instruction) -> Sequence[Instruction] | None:
    """Return the operands whose elements are the result's, None for one that computes."""
    if inst.spec.has(Trait.FORWARDS) or inst.opcode in _KEEPING:
        return inst.operands[:1]
    return None if inst.spec.moved is None else inst.operands[inst.spec.moved]
