"""The first instruction that makes a NaN or an infinity from operands without it.

The module runs as it was given, with probes behind instructions that may make one. As native code
these look by themselves, and only at values that show what others have as well (`witnesses`). Where
there are some, the module runs again with probes that hand over their values and the operands, and
the first to blame is found with them. Only if the module makes none, what the passes make of it is
looked at likewise: what is found then is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hlo.analysis.source_location import source_location
from hlo.debug.trace.blame import Blame, blame, has_nonfinite, is_inexact, may_make
from hlo.debug.trace.finding import Finding
from hlo.debug.trace.leaves import leaves
from hlo.debug.trace.origin import origin
from hlo.debug.trace.probes import Probe, with_probes
from hlo.debug.trace.record import Frame
from hlo.debug.trace.running import first_nonfinite, need_backend, optimized, run_probed
from hlo.debug.trace.witnesses import Witnesses
from hlo.errors import HloError
from hlo.eval import Interpreter
from hlo.host import Host
from hlo.ir import Computation, Instruction, Module
from hlo.ir.extract import extract


class _Found(Exception):
    """Ends a run where the instruction is found."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding


def find_nan_values(
    module: Module, values: Sequence[Sequence[Any]], *, backend: str = "compiled",
    passes: str = "default", host: Host | None = None, threads: int | None = None,
    verify: str = "strict",
) -> Finding | None:  # fmt: skip
    """Return what makes the first NaN or infinity of a run, None if nothing does.

    values: checked arguments, for each device. Else as `hlo.find_nan`. Raises HloError.
    """
    need_backend(backend)
    optimized(module, "", verify)
    given = _given(module, values)
    search = _Search(values, backend, host, threads, tuple(name for name, _ in given), module.attrs)
    found = search.first(module)
    if found is None and backend == "compiled" and passes:
        found = search.first(optimized(module, passes, verify), module)
    if found is None and given:
        return given[0][1]
    return found


def _given(
    module: Module, values: Sequence[Sequence[Any]]
) -> list[tuple[str, Finding]]:  # fmt: skip
    """Return parameters and constants that have a NaN."""
    found: dict[str, Finding] = {}
    for device, own in enumerate(values):
        for inst, value in zip(module.entry.parameters, own, strict=True):
            _add_given(found, inst, value, "parameter", device)
    for inst in module.instructions():
        if inst.opcode == "constant" and any(is_inexact(s) for _, s in inst.shape.leaves()):
            _add_given(found, inst, inst.spec.evaluate(inst, [], Interpreter()), "constant", 0)
    return list(found.items())


def _add_given(
    found: dict[str, Finding], inst: Instruction, value: Any, source: str, device: int
) -> None:
    for leaf, array in leaves(value):
        bad = np.isnan(array) if array.dtype.kind in "fcV" else np.zeros(array.shape, bool)
        if bad.any() and inst.name not in found:
            index = tuple(map(int, np.unravel_index(int(np.argmax(bad)), bad.shape)))
            found[inst.name] = Finding(
                "nan", source, inst.name, inst.opcode, _computation(inst), (), leaf, index,
                int(np.count_nonzero(bad)), (), value, source_location(inst), device,
            )  # fmt: skip


def _computation(inst: Instruction) -> str:
    return inst.parent.name if inst.parent is not None else ""


# So many values that have one are looked into at first.
_AT_FIRST = 8
# The header's attributes that an instruction's own module needs.
_DEVICE_COUNTS = ("replica_count", "num_partitions")


@dataclass
class _Search:
    """Runs a module to find what makes the first NaN or infinity."""

    values: Sequence[Sequence[Any]]
    backend: str
    host: Host | None
    threads: int | None
    given: tuple[str, ...]
    attrs: Mapping[str, Any]
    _suspects: set[Instruction] = field(default_factory=set)
    # The instruction of the finding, in the module that ran, and its callers.
    _made_by: Instruction | None = None
    _made_in: tuple[Frame, ...] = ()

    def first(self, module: Module, source: Module | None = None) -> Finding | None:
        """Return the finding in a module, in terms of the one that it was made from."""
        if self.backend == "reference":
            suspects = self._suspects = set()
            self._run(module, may_make, self._suspect, whole=False)
            return self._judged(module, suspects, source)
        # A value that shows a NaN, and what it stands for, at the time and place where it did.
        witnesses = Witnesses(module.computations)
        probed = with_probes(module, lambda i: (i,) if witnesses.is_one(i) else ())
        met = first_nonfinite(probed, self.values, self.host, self.threads)
        if len(self.values) == 1 and len(met) > _AT_FIRST:
            some = dict.fromkeys(probe.inst for probe, _ in met[:_AT_FIRST])
            found = self._judged(module, _shown(witnesses, some), source)
            # What was first met later may make one earlier than this, in another iteration.
            if found is not None and self._made_by is not None:
                place = witnesses.of(self._made_by), self._made_in
                if any(place == (probe.inst, frames) for probe, frames in met[:_AT_FIRST]):
                    return found
        return self._judged(module, _shown(witnesses, (probe.inst for probe, _ in met)), source)

    def _judged(
        self, module: Module, suspects: set[Instruction], source: Module | None
    ) -> Finding | None:
        """Return the first of some instructions that makes one, from what its operands are."""
        if not suspects:
            return None
        try:
            self._run(module, suspects.__contains__, self._judge(source), whole=True)
        except _Found as e:
            return e.finding
        return None

    def _run(self, module: Module, takes: Any, take: Any, *, whole: bool) -> None:
        def wanted(inst: Instruction) -> tuple[Instruction, ...]:
            if not takes(inst):
                return ()
            return (inst, *dict.fromkeys(inst.operands)) if whole else (inst,)

        probed = with_probes(module, wanted)
        run_probed(
            probed, self.values, take, backend=self.backend, host=self.host, threads=self.threads,
            finite=False,
        )  # fmt: skip

    def _suspect(
        self, device: int, probe: Probe, values: list[Any], frames: tuple[Frame, ...]
    ) -> None:
        if probe.inst not in self._suspects and has_nonfinite(values[0]):
            self._suspects.add(probe.inst)

    def _judge(self, source: Module | None) -> Any:
        def take(device: int, probe: Probe, values: list[Any], frames: tuple[Frame, ...]) -> None:
            by_inst = dict(zip(probe.observed, values, strict=True))
            operands = [by_inst.get(o) for o in probe.inst.operands]
            made = blame(probe.inst, operands, values[0])
            if made is None:
                return
            self._made_by, self._made_in = probe.inst, frames
            raise _Found(
                self._finding(probe.inst, operands, values[0], made, frames, device, source)
            )

        return take

    def _finding(
        self, inst: Instruction, operands: list[Any], value: Any, made: Blame,
        frames: tuple[Frame, ...], device: int, source: Module | None,
    ) -> Finding:  # fmt: skip
        """Return the finding, in the function that the instruction applies to elements, if any."""
        alone = extract(inst, 0)
        alone.attrs |= {k: v for k, v in self.attrs.items() if k in _DEVICE_COUNTS}
        inputs = _inputs(alone, inst, operands)
        inner = _inside(inst, operands)
        if inner is not None:
            frames = (*frames, Frame(inst.name))
            inst, operands, value, made = inner
        named = inst if source is None else origin(inst, source)
        return Finding(
            made.kind, "instruction", named.name, named.opcode, _computation(named), frames,
            made.leaf, made.index, made.count,
            tuple((o.name, v) for o, v in zip(inst.operands, operands, strict=True)), value,
            source_location(named), device, alone,
            inputs, self.given,
            "" if source is None else f"{inst.name} = {inst.shape} {inst.opcode}",
        )  # fmt: skip


def _shown(witnesses: Witnesses, met: Iterable[Instruction]) -> set[Instruction]:
    """Return the instructions that may have made what was met."""
    return {inst for witness in met for inst in witnesses.shown_by(witness)}


class _Seen(Exception):
    """Ends the evaluation of a function where the instruction is found."""


def _inputs(alone: Module, inst: Instruction, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values of the parameters of an instruction's own module."""
    by_name = {o.name: v for o, v in zip(inst.operands, operands, strict=True)}
    if inst.opcode == "parameter":
        return ()
    return tuple(by_name[p.name] for p in alone.entry.parameters)


def _inside(
    inst: Instruction, operands: Sequence[Any]
) -> tuple[Instruction, list[Any], Any, Blame] | None:
    """Return what made it inside of a function that an instruction applies to elements.

    None for functions of one operation, which the instruction stands for, and for what another run
    does not show.
    """
    if not any(_computes(c) for c in inst.called_computations):
        return None

    def observe(inner: Instruction, args: Sequence[Any], value: Any) -> None:
        if inner.parent is not inst.parent and may_make(inner):
            made = blame(inner, args, value)
            if made is not None:
                found.append((inner, list(args), value, made))
                raise _Seen

    found: list[tuple[Instruction, list[Any], Any, Blame]] = []
    try:
        with np.errstate(all="ignore"):
            inst.spec.evaluate(inst, list(operands), Interpreter(observe=observe))
    except _Seen:
        return found[0]
    except HloError:
        return None
    return None


def _computes(comp: Computation) -> bool:
    """True for a function of more than one operation."""
    plain = ("parameter", "constant", "tuple", "get-tuple-element")
    return sum(inst.opcode not in plain for inst in comp) > 1
