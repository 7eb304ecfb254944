"""The reference interpreter: every instruction in order, each by its op-table rule.

Slow and obvious by intent: it defines what compiled code has to compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo.errors import HloError, InferError
from hlo.eval.host import Host
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.types import ArrayShape

# Operations that do nothing to a scalar, so that they do nothing to an array of scalars either.
_SCALAR_IDENTITIES = frozenset(
    {"copy", "bitcast", "reshape", "transpose", "broadcast", "reverse", "opt-barrier"}
)


class Interpreter:
    """Evaluates computations. Fulfils `ops.spec.EvalContext`."""

    def __init__(self, host: Host | None = None) -> None:
        self._host = host or Host()
        # Per computation: its order, and for each position the values that die there.
        self._plans: dict[Computation, list[tuple[Instruction, list[Instruction]]]] = {}
        self._known: dict[Computation, str | None] = {}

    @property
    def host(self) -> Host:
        return self._host

    def call(self, computation: Computation, args: Sequence[Any]) -> Any:
        """Evaluate a computation on values; returns its result value."""
        values: dict[Instruction, Any] = {}
        for inst, dying in self._plan(computation):
            if inst.opcode == "parameter":
                values[inst] = args[inst.attrs["number"]]
                continue
            operands = [values[o] for o in inst.operands]
            for gone in dying:
                del values[gone]
            try:
                values[inst] = inst.spec.evaluate(inst, operands, self)
            except InferError as e:
                span = inst.span
                if span is not None and e.operand is not None:
                    raise HloError.at(e.code, e.message, span.operand(e.operand), e.hint) from None
                raise HloError.at(e.code, f"{inst.name}: {e.message}", span, e.hint) from None
        return values[computation.root]

    def known_op(self, computation: Computation) -> str | None:
        """Return the opcode of a body that is just `op(p0, p1)` on scalars of one type, else None."""
        if computation not in self._known:
            self._known[computation] = _single_binary_op(computation)
        return self._known[computation]

    def projection(self, computation: Computation) -> tuple[int, ...] | None:
        """Return the numbers of the parameters that are the result (or its tuple), else None."""
        root = computation.root
        parts = root.operands if root.opcode == "tuple" else [root]
        if any(p.opcode != "parameter" for p in parts):
            return None
        return tuple(p.attrs["number"] for p in parts)

    def apply(self, computation: Computation, args: Sequence[Any]) -> Any:
        """Apply a computation on scalars to arrays of equal shape, element by element.

        Bodies of elementwise operations, tuples and calls run once on whole arrays: each operation
        then does for every element what it would have done for one. Any other body runs once an
        element.
        """
        shape = np.broadcast_shapes(*(np.shape(a) for a in args)) if args else ()
        arrays = [np.broadcast_to(a, shape) for a in args]
        if self._applies_whole(computation):
            return _broadcast_result(self._apply_whole(computation, arrays), shape)
        results = [
            self.call(computation, [a[index] if a.shape else a for a in map(np.asarray, arrays)])
            for index in np.ndindex(shape)
        ] if shape else [self.call(computation, arrays)]
        return _stack_results(results, computation, shape)

    # --- plans ----------------------------------------------------------------------------------

    def _plan(self, comp: Computation) -> list[tuple[Instruction, list[Instruction]]]:
        plan = self._plans.get(comp)
        if plan is None:
            order = comp.in_order()
            last: dict[Instruction, int] = {}
            for at, inst in enumerate(order):
                for operand in inst.operands:
                    last[operand] = at
            last.pop(comp.root, None)
            plan = [
                (inst, [o for o in dict.fromkeys(inst.operands) if last.get(o) == at])
                for at, inst in enumerate(order)
            ]
            self._plans[comp] = plan
        return plan

    def _applies_whole(self, comp: Computation) -> bool:
        return all(
            inst.opcode in ("parameter", "constant", "tuple", "get-tuple-element")
            or inst.spec.has(Trait.ELEMENTWISE)
            or (
                inst.opcode in _SCALAR_IDENTITIES
                and all(isinstance(s, ArrayShape) and not s.dims for s in inst.operand_shapes)
                and isinstance(inst.shape, ArrayShape)
                and not inst.shape.dims
            )
            or (inst.opcode in ("call", "fusion") and self._applies_whole(inst.called_computations[0]))
            for inst in comp
        )

    def _apply_whole(self, comp: Computation, args: Sequence[Any]) -> Any:
        values: dict[Instruction, Any] = {}
        for inst, _ in self._plan(comp):
            operands = [values[o] for o in inst.operands]
            if inst.opcode == "parameter":
                values[inst] = args[inst.attrs["number"]]
            elif inst.opcode in _SCALAR_IDENTITIES:
                values[inst] = operands[0]
            elif inst.opcode in ("call", "fusion"):
                values[inst] = self._apply_whole(inst.called_computations[0], operands)
            else:
                values[inst] = inst.spec.evaluate(inst, operands, self)
        return values[comp.root]


def _single_binary_op(comp: Computation) -> str | None:
    root = comp.root
    params = comp.parameters
    if len(params) != 2 or len(comp) != 3 or len(root.operands) != 2:
        return None
    if not root.spec.has(Trait.ELEMENTWISE) or len({str(s) for s in root.operand_shapes}) != 1:
        return None
    if root.shape != root.operand_shapes[0] or root.called_computations:
        return None
    straight = list(root.operands) == list(params)
    swapped = list(root.operands) == list(params)[::-1] and root.spec.has(Trait.COMMUTATIVE)
    return root.opcode if straight or swapped else None


def _broadcast_result(value: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(value, tuple):
        return tuple(_broadcast_result(v, shape) for v in value)
    return np.broadcast_to(value, shape)


def _stack_results(results: list[Any], comp: Computation, shape: tuple[int, ...]) -> Any:
    result_shape = comp.result_shape
    leaves = [s for _, s in result_shape.leaves()]
    arrays = []
    for i, leaf in enumerate(leaves):
        assert isinstance(leaf, ArrayShape)
        out = np.empty(len(results), leaf.element_type.dtype)
        for j, r in enumerate(results):
            out[j] = r[i] if result_shape.is_tuple else r
        arrays.append(out.reshape(shape))
    return tuple(arrays) if result_shape.is_tuple else arrays[0]


def interpret(module: Module, args: Sequence[Any], host: Host | None = None) -> Any:
    """Run a module's entry on values in parameter order; returns the result value.

    Shapes: each argument has its parameter's shape and dtype (the caller checks). Raises HloError for
    an operation that cannot run, with its place in the text.
    """
    return Interpreter(host).call(module.entry, list(args))
