"""A run that was saved, `hlo-run --trace=OUT.npz`: the first instruction that it got wrong.

Each saved value is compared with what the interpreter makes of the saved values of the operands;
what was not saved is computed from what was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlo.analysis.source_location import source_location
from hlo.debug.divergence.record import Divergence
from hlo.debug.divergence.sides import Side
from hlo.debug.divergence.tolerance import Tolerance
from hlo.debug.trace.record import Frame, Trace, TracedValue
from hlo.errors import HloError
from hlo.eval.interpreter import Interpreter
from hlo.ir import Computation, Instruction, Module
from hlo.ir.extract import extract

Frames = tuple[Frame, ...]


def first_of_trace(
    trace: Trace, name: str, side: Side, arguments: Sequence[Any], tolerance: Tolerance
) -> Divergence | None:
    """Return the first value of a trace that does not follow from those before it, or None.

    name: of the trace. side: the run of the module that it is compared with. arguments: values for
    the module's parameters. Raises HloError for a trace without arrays, of another module, or of
    other arguments.
    """
    if not any(v.array is not None for v in trace.values):
        raise HloError.at("bad-file", f"{name} has no arrays to compare with")
    saved = _Saved(trace, side.given, arguments)
    compared = 0
    for value in trace.values:
        inst = saved.instruction(value)
        if value.array is None or inst is None or value.device:
            continue
        if inst.opcode == "parameter":
            if inst.parent is side.given.entry:
                _need_argument(value, arguments[inst.parameter_number], name)
            continue
        try:
            operands = [saved.value(o, value.frames) for o in inst.operands]
        except _Unknown:
            continue
        compared += 1
        want = saved.interpreter.evaluate(inst, operands)
        for n in value.leaf:
            want = want[n]
        found = tolerance.compare(want, value.array)
        if not found.same:
            return Divergence(
                "instruction", side.name, name, "trace", inst.name, inst.opcode,
                value.computation, source_location(inst), value.frames, "", found,
                tuple(zip((o.name for o in inst.operands), operands, strict=True)),
                want, value.array, *_alone(inst, operands),
            )  # fmt: skip
    if not compared:
        raise HloError.at(
            "bad-file", f"{name} has no value that can be compared: it is of another module, or of "
            "one that passes have made of this one",
            hint="hlo-run --trace=OUT.npz --backend reference saves all values of a run",
        )  # fmt: skip
    return None


def _need_argument(value: TracedValue, argument: Any, name: str) -> None:
    for n in value.leaf:
        argument = argument[n]
    if not Tolerance(0.0, 0.0).compare(argument, value.array).same:
        raise HloError.at(
            "other-arguments", f"{name} was made with another value of {value.instruction}",
            hint="run with the inputs of that run; random ones need its --seed",
        )  # fmt: skip


def _alone(inst: Instruction, operands: Sequence[Any]) -> tuple[Module, tuple[Any, ...]]:
    module = extract(inst, 0)
    by_name = {o.name: v for o, v in zip(inst.operands, operands, strict=True)}
    return module, tuple(by_name[p.name] for p in module.entry.parameters)


class _Unknown(Exception):
    """Nothing tells the value: a call or loop before it has another name in the trace."""


class _Saved:
    """The values of a trace by instruction and callers, and those that follow from them."""

    def __init__(self, trace: Trace, module: Module, arguments: Sequence[Any]) -> None:
        self.interpreter = Interpreter()
        self._module = module
        self._arguments = arguments
        self._whole: dict[tuple[str, str, Frames], TracedValue] = {}
        # Passes inline calls: without their frames, where that is not ambiguous.
        self._loops: dict[tuple[str, Frames], list[TracedValue]] = {}
        self._leaves: dict[tuple[str, str, Frames], dict[tuple[int, ...], Any]] = {}
        self._insts = {(c.name, i.name): i for c in module for i in c}
        self._by_name: dict[str, list[Instruction]] = {}
        for inst in module.instructions():
            self._by_name.setdefault(inst.name, []).append(inst)
        self._callers = module.callers()
        self._known: dict[tuple[Instruction, Frames], Any] = {}
        for v in trace.values:
            if v.array is None:
                continue
            key = (v.computation, v.instruction, v.frames)
            if v.leaf:
                self._leaves.setdefault(key, {})[v.leaf] = v.array
            else:
                self._whole[key] = v
                self._loops.setdefault((v.instruction, _iterations(v.frames)), []).append(v)

    def instruction(self, value: TracedValue) -> Instruction | None:
        """Return the instruction that a value is of, None if the module has none of that kind."""
        inst = self._insts.get((value.computation, value.instruction))
        if inst is None or inst.opcode != value.opcode:
            same = [i for i in self._by_name.get(value.instruction, ()) if i.opcode == value.opcode]
            inst = same[0] if len(same) == 1 else None
        if inst is None or inst.parent is None or _has_frames(inst.parent, value.frames):
            return inst
        return None

    def value(self, inst: Instruction, frames: Frames) -> Any:
        """Return the value of an instruction in a call: the saved one, or what follows."""
        key = (inst, frames)
        if key not in self._known:
            self._known[key] = self._found(inst, frames)
        return self._known[key]

    def _found(self, inst: Instruction, frames: Frames) -> Any:
        comp = inst.parent
        assert comp is not None
        saved = self._whole.get((comp.name, inst.name, frames))
        if saved is None and len(self._by_name[inst.name]) == 1 and self._is_called_once(comp):
            same = self._loops.get((inst.name, _iterations(frames)), [])
            saved = same[0] if len(same) == 1 and same[0].opcode == inst.opcode else None
        if saved is not None:
            return saved.array
        leaves = self._leaves.get((comp.name, inst.name, frames))
        if leaves is not None and all(len(leaf) == 1 for leaf in leaves):
            return tuple(array for _, array in sorted(leaves.items()))
        if inst.opcode == "parameter":
            return self._argument(comp, inst.parameter_number, frames)
        if inst.opcode == "tuple":
            return tuple(self.value(o, frames) for o in inst.operands)
        operands = [self.value(o, frames) for o in inst.operands]
        return self.interpreter.evaluate(inst, operands)

    def _is_called_once(self, comp: Computation) -> bool:
        while comp is not self._module.entry:
            callers = self._callers.get(comp, [])
            if len(callers) != 1 or callers[0].parent is None:
                return False
            comp = callers[0].parent
        return True

    def _argument(self, comp: Computation, number: int, frames: Frames) -> Any:
        """Return what a computation was called with."""
        if comp is self._module.entry:
            return self._arguments[number]
        caller, outer = self._caller(comp, frames)
        if caller.opcode == "while":
            frame = frames[-1]
            if not frame.iteration:
                return self.value(caller.operands[0], outer)
            before = (*outer, Frame(frame.instruction, frame.iteration - 1))
            return self.value(caller.body.root, before)
        if caller.opcode == "conditional":
            return self.value(caller.operands[1 + caller.called_computations.index(comp)], outer)
        return self.value(caller.operands[number], outer)

    def _caller(self, comp: Computation, frames: Frames) -> tuple[Instruction, Frames]:
        """Return what called a computation, and the frames of that. Raises _Unknown."""
        callers = self._callers.get(comp, [])
        named = [c for c in callers if frames and c.name == frames[-1].instruction]
        if len(named) == 1:
            return named[0], frames[:-1]
        if not named and len(callers) == 1 and callers[0].opcode in ("call", "fusion"):
            return callers[0], frames  # passes have inlined it
        raise _Unknown


def _iterations(frames: Frames) -> Frames:
    return tuple(f for f in frames if f.iteration is not None)


def _has_frames(comp: Computation, frames: Frames) -> bool:
    """True if calls of a computation can come by way of some frames, loops left out or not."""
    module = comp.module
    assert module is not None
    callers: Mapping[Computation, list[Instruction]] = module.callers()
    if not frames:
        return comp is module.entry
    return any(c.name == frames[-1].instruction for c in callers.get(comp, ()))
