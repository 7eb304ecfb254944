"""What running a computation costs: operations, transcendental functions, memory traffic.

The counts follow the program, not its implementation: a product of [m,k] and [k,n] takes
2mnk operations, a convolution counts the taps inside the image, a reduction of n elements applies
its computation n - 1 times. All element types count alike; a complex product
counts six operations, a sum two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from hlo.analysis.bitcasts import is_bitcast
from hlo.analysis.trips import trip_count
from hlo.ir import Computation, Instruction, Module
from hlo.ir.calls import applied_computations
from hlo.library_calls import expand_call, is_scratch
from hlo.ops import Category, Trait
from hlo.ops.attrs import WindowDim
from hlo.values.types import ArrayShape, Shape, TupleShape


@dataclass(frozen=True)
class Cost:
    """Counts of one run. `exact` is false if a loop of unknown trip count is counted as one
    iteration, or an operation is opaque, such as most custom calls."""

    operations: int = 0
    transcendentals: int = 0
    bytes: int = 0
    exact: bool = True

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.operations + other.operations,
            self.transcendentals + other.transcendentals,
            self.bytes + other.bytes,
            self.exact and other.exact,
        )

    def times(self, count: int) -> Cost:
        """Return this cost times a count."""
        return Cost(
            self.operations * count, self.transcendentals * count, self.bytes * count, self.exact
        )


Fused = Callable[[Instruction], bool]


def cost_of(comp: Computation, fused: Fused = lambda _: False) -> Cost:
    """Return the cost of running a computation once.

    fused: the instructions whose values are not materialized; they count no bytes of their own.
    """
    return _Costs(fused).of(comp)


def costs_of_instructions(fused: Fused) -> Callable[[Instruction], Cost]:
    """Return the function that gives the cost of running one instruction, including its callees.

    fused: as of `cost_of`.
    """
    return _Costs(fused).instruction


def instruction_costs(comp: Computation) -> list[tuple[Instruction, Cost]]:
    """Return the cost of each instruction of a computation, including its callees, in order."""
    costs = _Costs(lambda _: False)
    return [(inst, costs.instruction(inst)) for inst in comp.in_order()]


def cost_of_instruction(inst: Instruction) -> Cost:
    """Return the cost of running one instruction, including its callees."""
    return _Costs(lambda _: False).instruction(inst)


def costs_of_module(module: Module) -> dict[Instruction, Cost]:
    """Return the cost of one run of each instruction of a module, including its callees.

    What is inside a fusion accesses no memory, and neither do applications to scalars.
    """
    outside = _Costs(lambda _: False)
    inside = outside._inside
    applied = set(applied_computations(module))
    within: set[Computation] = set()
    for comp in reversed(module.callees_first()):
        if comp in within:
            within.update(c for inst in comp for c in inst.called_computations)
        else:
            within.update(inst.calls for inst in comp if inst.opcode == "fusion")
    return {
        inst: (inside if comp in within or comp in applied else outside).instruction(inst)
        for comp in module.computations
        for inst in comp
    }


def costs_of_computations(module: Module) -> dict[Computation, Cost]:
    """Return the cost of running each computation of a module once, as `cost_of`."""
    costs = _Costs(lambda _: False)
    return {comp: costs.of(comp) for comp in module.computations}


_NOTHING = Cost()


class _Costs:
    def __init__(self, fused: Fused) -> None:
        self._fused = fused
        self._done: dict[Computation, Cost] = {}

    @cached_property
    def _inside(self) -> _Costs:
        """The costs inside of fusions, which access no memory."""
        return _Costs(lambda _: True)

    def of(self, comp: Computation) -> Cost:
        if comp not in self._done:
            operations, transcendentals, bytes_, exact = 0, 0, 0, True
            for inst in comp:
                cost = self.instruction(inst)
                operations += cost.operations
                transcendentals += cost.transcendentals
                bytes_ += cost.bytes
                exact = exact and cost.exact
            self._done[comp] = Cost(operations, transcendentals, bytes_, exact)
        return self._done[comp]

    def instruction(self, inst: Instruction) -> Cost:
        match inst.opcode:
            case "while":
                count = trip_count(inst)
                body, test = self.of(inst.body), self.of(inst.condition)
                if count is None:
                    return body + test + Cost(exact=False)
                return body.times(count) + test.times(count + 1)
            case "conditional":
                branches = [self.of(c) for c in inst.called_computations]
                worst = max(branches, key=lambda c: (c.operations + c.transcendentals, c.bytes))
                return worst + Cost(exact=len(set(branches)) == 1)
            case "call" | "async-start":
                return self.of(inst.called_computations[0])
            case "fusion":
                inner = self._inside.of(inst.called_computations[0])
                return inner + Cost(bytes=self._traffic(inst))
            case "custom-call":
                return self._custom_call(inst)
        cost, traffic = self._arithmetic(inst), self._traffic(inst)
        if not traffic:
            return cost
        return Cost(cost.operations, cost.transcendentals, cost.bytes + traffic, cost.exact)

    def _custom_call(self, inst: Instruction) -> Cost:
        """Return the cost of a call: of a vendor's library, that of one kernel."""
        traffic = Cost(bytes=self._traffic(inst))
        computation = expand_call(inst)
        if computation is None:
            return traffic + Cost(exact=False)
        return self._inside.of(computation) + traffic

    # --- arithmetic -----------------------------------------------------------------------------

    def _arithmetic(self, inst: Instruction) -> Cost:
        shape = inst.shape
        if inst.spec.has(Trait.ELEMENTWISE) and isinstance(shape, ArrayShape):
            return self._elementwise(inst, shape)
        if inst.opcode in _COUNTS:
            return Cost(_COUNTS[inst.opcode](inst))
        if inst.opcode in _APPLIED:
            return _no_bytes(self.of(inst.to_apply)).times(_APPLIED[inst.opcode](inst))
        if inst.opcode == "select-and-scatter":
            source = inst.operands[1].array_shape.num_elements
            chosen = source * (_window_elements(inst) - 1)
            select, scatter = self.of(inst.select), self.of(inst.scatter)
            return _no_bytes(select).times(chosen) + _no_bytes(scatter).times(source)
        return _NOTHING

    def _elementwise(self, inst: Instruction, shape: ArrayShape) -> Cost:
        count = shape.num_elements
        if inst.opcode == "map":
            return _no_bytes(self.of(inst.to_apply)).times(count)
        if inst.spec.has(Trait.TRANSCENDENTAL):
            return Cost(transcendentals=count)
        if not inst.spec.cost:
            return _NOTHING
        if shape.element_type.is_complex:
            count *= 6 if inst.opcode in ("multiply", "divide") else 2
        return Cost(count)

    # --- memory ---------------------------------------------------------------------------------

    def _traffic(self, inst: Instruction) -> int:
        """Return the bytes that an instruction reads and writes, each operand once."""
        if self._fused(inst) or (is_bitcast(inst) and not self._fused(inst.operands[0])):
            return 0
        if inst.spec.category in _NO_TRAFFIC and inst.opcode != "fusion":
            return 0
        reads: dict[Instruction, int] = {}
        stack = [(inst, math.inf)]
        seen: set[Instruction] = set()
        while stack:
            node, limit = stack.pop()
            for n, operand in enumerate(node.operands):
                most = min(limit, _read_limit(node, n))
                if not self._fused(operand):
                    size = int(min(most, _bytes(operand.shape)))
                    reads[operand] = max(reads.get(operand, 0), size)
                elif operand not in seen:
                    seen.add(operand)
                    stack.append((operand, most))
        return sum(reads.values()) + _written(inst)


def _no_bytes(cost: Cost) -> Cost:
    """Return the cost of a computation on scalars that stay in registers."""
    return Cost(cost.operations, cost.transcendentals, 0, cost.exact)


def _bytes(shape: Shape) -> int:
    if isinstance(shape, ArrayShape):
        return shape.byte_size
    return sum(s.byte_size for _, s in shape.leaves() if isinstance(s, ArrayShape))


def _read_limit(inst: Instruction, operand: int) -> float:
    """Return an upper bound of the bytes that an instruction reads of an operand."""
    if inst.opcode == "fusion":
        return _read_inside(inst.called_computations[0].parameters[operand])
    if inst.opcode in ("slice", "dynamic-slice", "gather") and operand == 0:
        return _bytes(inst.shape)
    # In-place update: elements that are not replaced are not accessed.
    if inst.opcode == "dynamic-update-slice" and operand == 0:
        return 0
    if inst.opcode == "scatter" and operand < len(inst.operands) // 2:
        return _bytes(inst.operands[len(inst.operands) // 2 + 1 + operand].shape)
    return math.inf


def _read_inside(value: Instruction) -> float:
    """Return an upper bound of the bytes that a fusion reads of one of its parameters or a view
    of it.

    Partial reads of several users are added up, to at most the whole.
    """
    total = math.inf if value.is_root else 0.0
    for user in value.users:
        if is_bitcast(user):
            total += _read_inside(user)
        else:
            total += sum(_read_limit(user, n) for n, o in enumerate(user.operands) if o is value)
    return total


def _written(inst: Instruction) -> int:
    if inst.opcode == "fusion":
        root = inst.called_computations[0].root
        return sum(map(_written, root.operands if root.opcode == "tuple" else [root]))
    if inst.opcode == "dynamic-update-slice":
        return _bytes(inst.operands[1].shape)
    if inst.opcode == "custom-call" and isinstance(inst.shape, TupleShape):
        return sum(_bytes(s) for s in inst.shape.elements if not is_scratch(s))
    if inst.opcode == "scatter":
        return sum(_bytes(o.shape) for o in inst.operands[len(inst.operands) // 2 + 1 :])
    return _bytes(inst.shape)


_NO_TRAFFIC = frozenset({Category.DATA, Category.STRUCTURE, Category.CONTROL, Category.ASYNC})


# --- operations with counts of their own --------------------------------------------------------


def _array(shape: Shape) -> ArrayShape:
    """Return the shape of an array; for a sparse one, a tuple with indices, that of its values."""
    if isinstance(shape, TupleShape):
        shape = shape.elements[0]
    assert isinstance(shape, ArrayShape)
    return shape


def _elements(shape: Shape) -> int:
    return sum(s.num_elements for _, s in shape.leaves() if isinstance(s, ArrayShape))


def _multiply_adds(inst: Instruction, count: int) -> int:
    return count * (8 if _array(inst.shape).element_type.is_complex else 2)


def _dot(inst: Instruction) -> int:
    lhs = _array(inst.operand_shapes[0])
    depth = math.prod(lhs.dims[d] for d in inst.lhs_contracting_dims)
    return _multiply_adds(inst, _array(inst.shape).num_elements * depth)


def _convolution(inst: Instruction) -> int:
    dims = inst.dim_labels
    lhs, rhs = (_array(s) for s in inst.operand_shapes[:2])
    taps = math.prod(
        _taps(lhs.dims[d], w) for d, w in zip(dims.input_spatial, inst.window, strict=True)
    )
    features = rhs.dims[dims.kernel_input] * rhs.dims[dims.kernel_output]
    batch = lhs.dims[dims.input_batch] // inst.batch_group_count
    return _multiply_adds(inst, taps * batch * features)


# Windows of more elements are counted as if they were inside the operand everywhere.
_MANY_TAPS = 1 << 12


def _taps(size: int, w: WindowDim) -> int:
    """Return the number of pairs of window position and tap that hit an element."""
    outputs = w.output_size(size)
    if w.size > _MANY_TAPS:
        return outputs * min(w.size, size)
    # Positions p such that p * stride + offset = i * dilation for an element i repeat with period.
    common = math.gcd(w.stride, w.lhs_dilate)
    period = w.lhs_dilate // common
    inverse = pow(w.stride // common, -1, period)
    count = 0
    for tap in range(w.size):
        offset = tap * w.rhs_dilate - w.pad_low
        if offset % common:
            continue
        low = max(0, -(offset // w.stride))
        high = min(outputs - 1, ((size - 1) * w.lhs_dilate - offset) // w.stride)
        low += (-(offset // common) * inverse - low) % period
        count += max(0, (high - low) // period + 1)
    return count


def _window_elements(inst: Instruction) -> int:
    return math.prod(w.size for w in inst.window)


def _sort(inst: Instruction) -> int:
    shape = _array(inst.operand_shapes[0])
    return shape.num_elements * _log2(shape.dims[inst.dimensions[0]])


def _log2(n: int) -> int:
    """Return the binary logarithm of n, rounded up."""
    return max(0, n - 1).bit_length()


def _fft(inst: Instruction) -> int:
    lengths = inst.fft_length
    whole = max(_elements(s) for s in (inst.shape, inst.operand_shapes[0]))
    return 5 * whole * sum(_log2(n) for n in lengths)


def _cholesky(inst: Instruction) -> int:
    shape = _array(inst.shape)
    return shape.num_elements * shape.dims[-1] // 3


def _triangular_solve(inst: Instruction) -> int:
    return _elements(inst.shape) * _array(inst.operand_shapes[0]).dims[-1]


_COUNTS: dict[str, Callable[[Instruction], int]] = {
    "dot": _dot,
    "scaled-dot": _dot,
    "convolution": _convolution,
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "topk": lambda i: _elements(i.operand_shapes[0]),
    "rng": lambda i: _elements(i.shape),
    "rng-bit-generator": lambda i: _elements(i.shape),
}


# How often an operation applies its computation on scalars.
_APPLIED: dict[str, Callable[[Instruction], int]] = {
    "reduce": lambda i: max(0, _first(i.operand_shapes[0]) - _first(i.shape)),
    "reduce-window": lambda i: _first(i.shape) * max(0, _window_elements(i) - 1),
    "scatter": lambda i: _first(i.operand_shapes[-1]),
    "sort": _sort,
}


def _first(shape: Shape) -> int:
    """Return the number of elements of an array, or of the first of a tuple of equal ones."""
    return next(s.num_elements for _, s in shape.leaves() if isinstance(s, ArrayShape))
