"""A module with probes: calls that hand values over while the module runs, on any backend.

Each call of a computation gets a copy of its own, so that a probe knows its callers. A probe is a
custom call with a side effect; its first operand is its number. Calls keep their order, in
interpreted and in native code alike. Functions that are applied to elements (reducers, comparators)
have no probes: they run out of sight, or once for many elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hlo.debug.trace.record import Frame
from hlo.errors import HloError
from hlo.ir import Computation, Instruction, Module
from hlo.ops import Trait
from hlo.values.literal import Literal
from hlo.values.types import UNBOUNDED, ArrayShape, Shape, TupleShape, array

TARGET = "hlo_trace"
# Every call becomes a copy of its callee.
_MAX_INSTRUCTIONS = 500_000
# Those whose computations run once each time, on whole values.
_CALLS = Trait.CALL | Trait.CONTROL_FLOW


@dataclass(frozen=True)
class Loop:
    """A copy of a loop: its instruction, and its place among the loops around it, from 0."""

    inst: Instruction
    level: int


@dataclass(frozen=True)
class Probe:
    """A call that hands values over.

    inst: the instruction, of the module without probes. observed: those whose values are the
    operands. callers: the way to it, the outermost first; loops as such.
    """

    inst: Instruction
    observed: tuple[Instruction, ...]
    callers: tuple[Instruction | Loop, ...]


@dataclass(frozen=True)
class LoopMark:
    """A call at the begin of a loop, or of each of its iterations."""

    loop: Loop
    begins: bool


@dataclass
class Probed:
    """A module with probes: `calls` has what each number stands for."""

    module: Module
    calls: list[Probe | LoopMark] = field(default_factory=list)


# Which values of an instruction are handed over: its own and those of operands, or none.
Wanted = Callable[[Instruction], Sequence[Instruction]]


def with_probes(module: Module, wanted: Wanted) -> Probed:
    """Return a copy of a valid module with a probe behind each instruction of which any is wanted.

    The probes need a host with the target `TARGET`. Raises HloError (`too-large`).
    """
    maker = _Maker(wanted)
    entry = maker.copy(module.entry, ())
    copy = Module(
        module.name, attrs=module.attrs, source=module.source, custom_calls=module.custom_calls
    )
    copy.attrs.pop("is_scheduled", None)
    copy.tables = dict(module.tables)
    pending = [entry]
    shared: dict[Computation, Computation] = {}
    while pending:
        comp = pending.pop()
        for inst in comp:
            for callee in inst.called_computations:
                if callee.module is module and callee not in shared:
                    shared[callee] = callee.clone(callee.name)
                    pending.append(shared[callee])
                elif callee in maker.copies:
                    pending.append(callee)
            inst.replace_called(shared)
        if comp is not entry:
            copy.add(comp)
    copy.add(entry, entry=True)
    return Probed(copy, maker.calls)


class _Maker:
    """Copies computations, with probes."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._count = 0
        self.calls: list[Probe | LoopMark] = []
        self.copies: set[Computation] = set()

    def copy(
        self, comp: Computation, callers: tuple[Instruction | Loop, ...],
        iteration_of: Loop | None = None, thread: str | None = None,
    ) -> Computation:  # fmt: skip
        """Return a copy of a computation, and of those that it calls, without a module.

        thread: that of the caller, if there is one.
        """
        self._count += len(comp)
        if self._count > _MAX_INSTRUCTIONS:
            raise HloError.at(
                "too-large", f"with a copy of what is called for each call, {comp.name} and its "
                f"callers have more than {_MAX_INSTRUCTIONS} instructions",
            )  # fmt: skip
        copy = Computation(
            comp.name, execution_thread=thread or comp.execution_thread, span=comp.span
        )
        copy.backend_config = comp.backend_config
        made: dict[Instruction, Instruction] = {}
        if iteration_of is not None:
            self._call(copy, LoopMark(iteration_of, begins=False), [])
        for inst in comp.in_order():
            operands = [made[o] for o in inst.operands]
            if inst.spec.has(Trait.ASYNC_CHAIN) and inst.opcode != "async-start":
                made[inst] = operands[0]  # the result of the call that its start has become
                continue
            made[inst] = copy.add(self._copied(copy, inst, operands, callers))
            for before in inst.control_predecessors:
                made[inst].add_control_predecessor(made[before])
            wanted = self._wanted(inst)
            observed = tuple(v for v in wanted if _can_be_handed(v.shape))
            if observed and observed[0] is wanted[0]:
                self._call(copy, Probe(inst, observed, callers), [made[v] for v in observed])
        copy.set_root(made[comp.root])
        self.copies.add(copy)
        return copy

    def _copied(
        self, copy: Computation, inst: Instruction, operands: list[Instruction],
        callers: tuple[Instruction | Loop, ...],
    ) -> Instruction:  # fmt: skip
        """Return the copy of an instruction, which is not added yet."""
        if not inst.spec.has(_CALLS) and inst.opcode != "async-start":
            return inst.clone(operands)
        caller: Instruction | Loop = inst
        if inst.opcode == "while":
            caller = Loop(inst, sum(isinstance(c, Loop) for c in callers))
            self._call(copy, LoopMark(caller, begins=True), [])
        attrs: dict[str, Any] = {}
        for key in inst.spec.computation_attrs:
            value = inst.attrs[key]
            within = (*callers, caller)
            if isinstance(value, tuple):
                attrs[key] = tuple(
                    self.copy(c, within, thread=copy.execution_thread) for c in value
                )
            elif value is not None:
                mark = caller if key == "body" and isinstance(caller, Loop) else None
                attrs[key] = self.copy(value, within, mark, copy.execution_thread)
        if inst.opcode not in ("fusion", "async-start"):
            return inst.clone(operands, attrs=attrs)
        # Fusions, and what runs asynchronously, have no calls with side effects inside.
        body = attrs["calls"]
        call = Instruction(inst.name, "call", body.root.shape, operands, {"to_apply": body})
        call.annotations.update(inst.annotations)
        call.span = inst.span
        return call

    def _call(self, copy: Computation, what: Probe | LoopMark, operands: list[Instruction]) -> None:
        """Append the call of a probe."""
        number = copy.create(
            "constant", array("s32", ()), (),
            {"literal": Literal.of(np.asarray(len(self.calls), np.int32))}, name="trace_number",
        )  # fmt: skip
        handed, sizes = [number], list[Instruction]()
        for value in operands:
            padded, own = _padded(copy, value)
            handed.append(padded)
            sizes += own
        copy.create(
            "custom-call", TupleShape(()), [*handed, *sizes],
            {"custom_call_target": TARGET, "custom_call_has_side_effect": True}, name="trace",
        )  # fmt: skip
        self.calls.append(what)


def _padded(copy: Computation, value: Instruction) -> tuple[Instruction, list[Instruction]]:
    """Return a value at its bounds, and its sizes if they vary: calls take no varying ones."""
    shape = value.shape
    if not isinstance(shape, ArrayShape) or not shape.dynamic:
        return value, []
    size, bounds = array("s32", ()), array(shape.element_type, shape.dims)
    both = copy.create(
        "custom-call", TupleShape((bounds, *[size] * shape.rank)), [value],
        {"custom_call_target": "PadToStatic"}, name="trace_padded",
    )  # fmt: skip
    parts = [
        copy.create("get-tuple-element", part, [both], {"index": n}, name="trace_part")
        for n, part in enumerate((bounds, *[size] * shape.rank))
    ]
    return parts[0], parts[1:]


def _can_be_handed(shape: Shape) -> bool:
    """True for a value with arrays whose sizes are known, or can be handed over with it."""
    leaves = [leaf for _, leaf in shape.leaves() if isinstance(leaf, ArrayShape)]
    if isinstance(shape, ArrayShape):
        return UNBOUNDED not in shape.dims
    return bool(leaves) and not any(leaf.dynamic for leaf in leaves)


# --- while it runs ------------------------------------------------------------------------------


class Listener:
    """Takes the calls of one device, and knows in which iteration of each loop it is."""

    def __init__(
        self, calls: Sequence[Probe | LoopMark],
        take: Callable[[Probe, list[Any], tuple[Frame, ...]], None],
        iterations: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """Begin a run. take: gets the values that a probe hands over, and its callers.

        iterations: of the loops that run, by their level, where the program itself counts them.
        """
        self._calls = calls
        self._take = take
        self._counted = iterations
        self._iterations: list[int] = []

    def __call__(self, op: Any, args: Sequence[Any]) -> tuple[()]:
        """Take a call: the function of the custom call's target."""
        what = self._calls[int(args[0])]
        if isinstance(what, LoopMark):
            level = what.loop.level
            if what.begins:
                del self._iterations[level:]
                self._iterations.append(-1)
            else:
                del self._iterations[level + 1 :]
                self._iterations[level] += 1
            return ()
        count = len(what.observed)
        values = list(args[1 : 1 + count])
        sizes = iter(args[1 + count :])
        for n, inst in enumerate(what.observed):
            if isinstance(inst.shape, ArrayShape) and inst.shape.dynamic:
                valid = tuple(slice(0, int(next(sizes))) for _ in inst.shape.dims)
                values[n] = np.asarray(values[n][valid])
        counts = self._iterations if self._counted is None else self._counted
        self._take(what, values, frames_of(what, counts))
        return ()


def frames_of(probe: Probe, iterations: Sequence[int] | np.ndarray) -> tuple[Frame, ...]:
    """Return the callers of a probe. iterations: of the loops that run, by their level."""
    frames = []
    for n, caller in enumerate(probe.callers):
        if not isinstance(caller, Loop):
            frames.append(Frame(caller.name))
            continue
        iteration = int(iterations[caller.level])
        within = probe.callers[n + 1 :] or (probe.inst,)
        first = within[0].inst if isinstance(within[0], Loop) else within[0]
        if first.parent is caller.inst.condition:
            iteration += 1  # the one that it decides about
        frames.append(Frame(caller.inst.name, iteration))
    return tuple(frames)
