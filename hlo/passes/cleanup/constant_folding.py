"""Constant folding."""

from __future__ import annotations

import math
import time
from typing import Any

from hlo.analysis.congruence import has_control_edges
from hlo.analysis.cost import cost_of_instruction
from hlo.analysis.effects import Effects
from hlo.analysis.trips import counted
from hlo.errors import HloError, InferError
from hlo.eval import Interpreter
from hlo.ir import Computation, Instruction, Module
from hlo.ir.builder import Builder
from hlo.ops.rules import need_memory
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.rules import unfused
from hlo.values.literal import Literal, brace_pairs
from hlo.values.types import ArrayShape, Shape, TupleShape

# Cheaper to compute where they are used than to load; they fold only into something else.
_GENERATED = frozenset({"broadcast", "iota"})
# Not worth folding: structure, and operations that block optimization on purpose.
_NEVER = frozenset(
    {"parameter", "constant", "tuple", "after-all", "copy", "domain", "opt-barrier", "bitcast"}
)
# Constants of this size are no burden, whatever they were made from.
_SMALL_BYTES = 4096
# The interpreter's speed per second, and its overhead per instruction; conservative estimates.
_OPERATIONS_PER_SECOND = 2e7
_SECONDS_PER_RUN = 2e-5
# Computations that call each other deeper than this are not run.
_MAX_DEPTH = 50


@module_pass
def constant_folding(
    module: Module,
    rewrites: Rewrites,
    *,
    max_bytes: int = 1 << 28,
    max_seconds: float = 5.0,
) -> None:
    """Evaluate instructions on constants with the reference interpreter.

    max_bytes: the size of the largest constant to make. It may also not be larger than those that
    it is made from together, but for small ones. max_seconds: what all of this may take; what
    costs too much is left, by an estimate. Loops fold when they count and so end. Elided constants
    have no known value.
    """
    folder = _Folder(module, rewrites, max_bytes, max_seconds)
    for comp in unfused(module):
        folder.fold(comp)


class _Folder:
    def __init__(
        self, module: Module, rewrites: Rewrites, max_bytes: int, max_seconds: float
    ) -> None:
        self._effects = Effects()
        self._rewrites = rewrites
        self._max_bytes = max_bytes
        self._seconds = max_seconds
        self._end = time.perf_counter() + max_seconds
        self._runs: dict[Computation, float] = {}
        self._depths: dict[Computation, int] = {}
        for comp in module.callees_first():
            self._runs[comp] = sum(map(self._runs_of, comp))
            callees = [self._depths[c] for i in comp for c in i.called_computations]
            self._depths[comp] = 1 + max(callees, default=0)

    def fold(self, comp: Computation) -> None:
        for inst in comp.in_order():
            if not self._may_fold(inst):
                continue
            value = self._evaluate(inst)
            if value is None or not self._rewrites.allow("constant_folding", inst):
                continue
            b = Builder(comp, inst)
            inst.replace_all_uses_with(_constant(b, value, inst.shape))
            self._remove(inst)

    def _remove(self, inst: Instruction) -> None:
        """Take out an instruction, and operands that only it used."""
        stack = [inst]
        while stack:
            dead = stack.pop()
            if dead.parent is not None and self._effects.is_removable(dead):
                stack.extend(dead.operands)
                dead.parent.remove(dead)

    def _may_fold(self, inst: Instruction) -> bool:
        if inst.opcode in _NEVER or inst.opcode in _GENERATED or has_control_edges(inst):
            return False
        if not all(map(_is_constant, inst.operands)) or self._effects.is_removable(inst):
            return False
        if not self._effects.is_foldable(inst) or not _is_plain(inst.shape):
            return False
        size = _bytes(inst.shape)
        stored = sum(_stored_bytes(o) for o in set(inst.operands))
        if size > max(stored, _SMALL_BYTES) or size > self._max_bytes:
            return False
        if not size and _braces(inst.shape) > _SMALL_BYTES:
            return False
        if any(_bytes(o.shape) > self._max_bytes for o in inst.operands):
            return False
        return self._ends_soon(inst)

    def _ends_soon(self, inst: Instruction) -> bool:
        """True if running an instruction surely ends, and within the time that is left."""
        seconds = _SECONDS_PER_RUN * self._runs_of(inst)
        if seconds > self._seconds or any(
            self._depths[c] > _MAX_DEPTH for c in inst.called_computations
        ):
            return False
        cost = cost_of_instruction(inst)
        seconds += (cost.operations + cost.transcendentals + cost.bytes) / _OPERATIONS_PER_SECOND
        return seconds < self._seconds and time.perf_counter() + seconds < self._end

    def _runs_of(self, inst: Instruction) -> float:
        """Return how many instructions one executes, counting all branches; infinity for endless
        loops."""
        runs = 1 + sum(self._runs[c] for c in inst.called_computations)
        if inst.opcode != "while":
            return runs
        counter = counted(inst)
        return runs * (counter.count + 1) if counter else math.inf

    def _evaluate(self, inst: Instruction) -> Any:
        """Return the value of an instruction, None if it cannot run."""
        interpreter = Interpreter()
        try:
            need_memory(inst, inst.shape, *inst.operand_shapes)
            args = [self._value(o, interpreter) for o in inst.operands]
            return inst.spec.evaluate(inst, args, interpreter)
        except (InferError, HloError, MemoryError):
            return None  # it will say so itself when it runs

    def _value(self, inst: Instruction, interpreter: Interpreter) -> Any:
        args = [self._value(o, interpreter) for o in inst.operands]
        return inst.spec.evaluate(inst, args, interpreter)


def _is_constant(inst: Instruction) -> bool:
    """True for constants and what is made from them where it is used."""
    if inst.opcode == "constant":
        literal = inst.literal
        return not literal.is_elided_in_part
    if inst.opcode == "tuple" and not has_control_edges(inst):
        return all(o.opcode != "tuple" and _is_constant(o) for o in inst.operands)
    if inst.opcode == "copy" and _is_plain(inst.shape) and not has_control_edges(inst):
        return inst.operands[0].opcode != "copy" and _is_constant(inst.operands[0])
    if inst.opcode in _GENERATED and _is_plain(inst.shape):
        return all(o.opcode == "constant" and _is_constant(o) for o in inst.operands)
    return False


def _is_plain(shape: Shape) -> bool:
    """True for arrays of fixed dimensions, and tuples of such."""
    return all(isinstance(s, ArrayShape) and not s.dynamic for _, s in shape.leaves())


def _braces(shape: Shape) -> int:
    """Return how many pairs of braces a constant's text has: f32[1000000,0] has no bytes."""
    return sum(brace_pairs(s.dims) for _, s in shape.leaves() if isinstance(s, ArrayShape))


def _bytes(shape: Shape) -> int:
    return sum(s.byte_size for _, s in shape.leaves() if isinstance(s, ArrayShape))


def _stored_bytes(inst: Instruction) -> int:
    """Return how much of a constant operand is in the text of the module."""
    if inst.opcode == "constant":
        return _bytes(inst.shape)
    return sum(map(_stored_bytes, inst.operands))


def _constant(b: Builder, value: Any, shape: Shape) -> Instruction:
    """Append the constant of a value; of tuples of arrays, a tuple of constants."""
    if isinstance(shape, TupleShape):
        parts = [_constant(b, v, s) for v, s in zip(value, shape.elements, strict=True)]
        return b.tuple(*parts)
    assert isinstance(shape, ArrayShape)
    return b.literal(Literal.of(value).with_shape(shape))
