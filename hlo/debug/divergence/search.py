"""The search for the first instruction where two runs diverge.

Between the two runs lie modules and machines: what passes made of the module, another module, what
executes it. Each step is looked at by itself: modules beside each other on the interpreter
(`lockstep.py`), a machine beside the interpreter on one module (`segments.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hlo.analysis.rounding import rounded_digits
from hlo.analysis.source_location import SourceLocation, source_location
from hlo.compiler.backends import NATIVE, REFERENCE
from hlo.debug.divergence.lockstep import Lockstep, Suspect, unsupported
from hlo.debug.divergence.passes import culprit, frames_in, rules_at
from hlo.debug.divergence.record import Divergence
from hlo.debug.divergence.screen import Execute, can_be_cut, is_worth_compiling
from hlo.debug.divergence.segments import Machine, Wrong
from hlo.debug.divergence.sides import Listing, Side, native
from hlo.debug.divergence.tolerance import Tolerance
from hlo.debug.trace.origin import origin
from hlo.debug.trace.record import Frame
from hlo.errors import HloError
from hlo.eval.interpreter import Interpreter
from hlo.host import Host
from hlo.io.arguments import named_leaves
from hlo.ir import Instruction, Module
from hlo.ir.extract import extract
from hlo.passes.default import pipeline_of
from hlo.testing.compare import Comparison, judged, nudged
from hlo.values.types import without_layout


@dataclass
class Search:
    """Looks for where two runs diverge.

    left, right: the runs; names are those of the left module. arguments: checked values. tell: is
    told how far the search is, from time to time. undecided: set where all results agree and a
    value on the way to them does not: it is wrong and no result shows it, or it was compared with
    one that it does not stand for.
    """

    left: Side
    right: Side
    arguments: Sequence[Any]
    tolerance: Tolerance
    threads: int | None = None
    host: Host | None = None
    tell: Callable[[str], None] = lambda _: None
    undecided: Divergence | None = field(default=None, init=False)
    # What differs inside of a loop or branch whose result agrees.
    _inside: Divergence | None = field(default=None, init=False)
    # The results of both sides, by name.
    _leaves: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    _natively: Execute | None = None

    def first(self) -> Divergence | None:
        """Return the first divergence, or None where there are results and all of them agree.

        Raises HloError.
        """
        for side in (self.left, self.right):
            error = unsupported(side.given)
            if error is not None:
                raise error
        self._need_alike()
        results = self._beside_the_reference()
        if isinstance(results, Divergence):
            return results
        divergence = None
        if results is None:
            results = self._results()
            divergence = self._modules(results) or self._passes(results)
        if divergence is not None and not (results and _agree(results)):
            return divergence
        results = self._judged(results)
        if _agree(results):
            self.undecided = divergence or self._inside
            return None
        return (
            self._machines(results)
            or self._inside
            or Divergence("growth", self.left.name, self.right.name, "rounding", results=results)
        )

    def _need_alike(self) -> None:
        a, b = self.left.given.entry, self.right.given.entry
        mine = [without_layout(s) for s in [*a.parameter_shapes, a.result_shape]]
        its = [without_layout(s) for s in [*b.parameter_shapes, b.result_shape]]
        if mine != its:
            raise HloError.at(
                "shape-mismatch",
                f"{self.right.name} does not take and give what {self.left.name} does: "
                f"{b.signature}, not {a.signature}",
            )

    def _results(self) -> Mapping[str, Comparison]:
        """Run both sides whole; returns how their results compare."""
        mine, its = (self._run(side, self.arguments) for side in (self.left, self.right))
        return self._compared(mine, its)

    def _compared(self, mine: Any, its: Any) -> Mapping[str, Comparison]:
        """Return how the results of both sides compare, and keep them."""
        shape = self.left.given.entry.result_shape
        pairs = zip(named_leaves(shape, mine), named_leaves(shape, its), strict=True)
        self._leaves = {name: (a, b) for (name, _, a), (_, _, b) in pairs}
        return {name: self.tolerance.compare(a, b) for name, (a, b) in self._leaves.items()}

    def _beside_the_reference(self) -> Divergence | Mapping[str, Comparison] | None:
        """Run the reference once, for its results and beside the other side's module.

        Returns what was found, or how results compare; None unless one side is the reference on a
        module that takes long, and the other one native code that passes make of it.
        """
        a, b = self.left, self.right
        plain, other = (a, b) if a.backend == REFERENCE else (b, a)
        if (
            plain.backend != REFERENCE
            or plain.made is not plain.given
            or plain.given is not other.given
        ):
            return None
        if other.made is other.given or not is_worth_compiling(plain.given.entry):
            return None
        if not (can_be_cut(plain.given) and can_be_cut(other.made)):
            return None
        lockstep = self._lockstep(plain.given, other.made, interprets=True)
        suspect, want = lockstep.beside(self.arguments)
        got = self._run(other, self.arguments)
        if suspect is not None:
            # On the interpreter they would take as long again, unless this is no divergence.
            natively = self._run(replace(plain, backend=NATIVE), self.arguments)
            if _agree(self._compared(*((natively, got) if plain is a else (got, natively)))):
                return None
            swapped = other is self.right
            return self._culprit(other, {}, swapped=swapped) or self._divergence(
                suspect, "passes", {}, swapped=swapped
            )
        return self._compared(*((want, got) if plain is a else (got, want)))

    def _lockstep(
        self, given: Module, other: Module, known: Mapping[Instruction, Instruction] | None = None,
        *, interprets: bool = False,
    ) -> Lockstep:  # fmt: skip
        if self._natively is None:
            self._natively = native(self.threads, self._host())
        return Lockstep(
            given, other, self.tolerance, known, self._host, self._natively,
            interprets=interprets, tell=self.tell,
        )  # fmt: skip

    def _judged(self, found: Mapping[str, Comparison]) -> Mapping[str, Comparison]:
        """Return how results compare where what the inputs' last places change is no difference."""
        if self.tolerance.is_given or _agree(found):
            return found

        def nearby() -> Mapping[str, Any]:
            digits = rounded_digits(self.right.given)
            right = self.right
            if right.backend == REFERENCE and is_worth_compiling(right.made.entry):
                # How much results move is the same for native code, which is faster.
                right = replace(right, backend=NATIVE)
            near = self._run(right, [nudged(v, digits) for v in self.arguments])
            shape = self.left.given.entry.result_shape
            return {name: value for name, _, value in named_leaves(shape, near)}

        off = [name for name, c in found.items() if not c.same]
        mine, its = ({n: self._leaves[n][side] for n in off} for side in (0, 1))
        return {**found, **judged(mine, its, nearby)}

    def _run(self, side: Side, arguments: Sequence[Any]) -> Any:
        self.tell(f"running {side.name}")
        return side.execute(self.threads, self._host())(side.made, arguments)

    def _host(self) -> Host | None:
        """Return a fresh host with the functions that were given: runs leave state behind."""
        if self.host is None:
            return None
        return Host(self.host.custom_calls, self.host.libraries)

    # --- modules --------------------------------------------------------------------------------

    def _modules(self, results: Mapping[str, Comparison]) -> Divergence | None:
        """Compare the modules of both sides as they were given."""
        given, other = self.left.given, self.right.given
        if given is other:
            return None
        known = None
        if not _share_names(given, other):
            from hlo.analysis.matching import match_modules

            known = {b: a for a, b in match_modules(given, other).pairs}
        # What the search takes for right is the left side's.
        suspect = self._first(self._lockstep(given, other, known), "module", results, swapped=True)
        if suspect is None:
            return None
        return self._divergence(suspect, "module", results, swapped=True)

    def _passes(self, results: Mapping[str, Comparison]) -> Divergence | None:
        """Compare the module of each side with what passes have made of it."""
        for side in (self.left, self.right):
            if side.made is side.given or self._is_equally_made(side):
                continue
            swapped = side is self.right
            if not _agree(results):
                divergence = self._culprit(side, results, swapped=swapped)
                if divergence is not None:
                    return divergence
                continue
            lockstep = self._lockstep(side.given, side.made)
            suspect = self._first(lockstep, "passes", results, swapped=swapped)
            if suspect is not None:
                return self._divergence(suspect, "passes", results, swapped=swapped)
        return None

    def _culprit(
        self, side: Side, results: Mapping[str, Comparison], *, swapped: bool
    ) -> Divergence | None:
        """Look for the pass of a side that makes results differ, and what differs there first."""
        plain = Side(side.name, REFERENCE, "", side.given, side.given)
        if is_worth_compiling(side.given.entry):
            plain = replace(plain, backend=NATIVE)
        shape = side.given.entry.result_shape
        want = named_leaves(shape, self._run(plain, self.arguments))

        def agrees(module: Module) -> bool:
            self.tell(f"looking for the pass that {side.name} differs by")
            run = replace(plain, made=module).execute(self.threads, self._host())
            got = named_leaves(shape, run(module, self.arguments))
            pairs = zip(got, want, strict=True)
            return all(self.tolerance.compare(a, b).same for (*_, a), (*_, b) in pairs)

        pipeline = pipeline_of(side.passes, fuses=False)
        found = culprit(side.given, pipeline, agrees)
        if found is None:
            return None
        lockstep = self._lockstep(found.before, found.after)
        suspect = lockstep.first(self.arguments) or next(iter(lockstep.hidden), None)
        if suspect is None:
            return None
        divergence = self._divergence(suspect, "passes", results, swapped=swapped)
        made, inst = suspect.given.inst, origin(suspect.given.inst, side.given)
        names = [inst.name, made.name, *([suspect.other.inst.name] if suspect.other else [])]
        rules = rules_at(divergence.module, pipeline, found.run, names)
        return replace(
            divergence, instruction=inst.name, opcode=inst.opcode, computation=_computation(inst),
            location=_location(inst), rules=rules,
            frames=frames_in(side.given, suspect.frames, made),
        )  # fmt: skip

    def _first(
        self, lockstep: Lockstep, between: str, results: Mapping[str, Comparison], *, swapped: bool
    ) -> Suspect | None:
        """Return the first suspect of two modules, and keep what a loop or branch hides."""
        suspect = lockstep.first(self.arguments)
        if suspect is None and lockstep.hidden and self._inside is None:
            hidden = lockstep.hidden[0]
            self._inside = self._divergence(hidden, between, results, swapped=swapped)
        return suspect

    def _is_equally_made(self, side: Side) -> bool:
        other = self.left if side is self.right else self.right
        return side is self.right and side.passes == other.passes and side.given is other.given

    def _divergence(
        self, suspect: Suspect, between: str, results: Mapping[str, Comparison], *, swapped: bool
    ) -> Divergence:
        inst = suspect.given.inst
        got, want, comparison = suspect.got, suspect.want, suspect.comparison
        if swapped:
            got, want = want, got
            comparison = self.tolerance.compare(got, want)
        counterpart = "" if suspect.other is None else str(suspect.other.inst)
        return Divergence(
            "instruction", self.left.name, self.right.name, between, inst.name, inst.opcode,
            _computation(inst), _location(inst), _frames(suspect.frames), counterpart, comparison,
            _named(inst, suspect.operands), got, want, *_alone(inst, suspect.operands),
            results=results,
        )  # fmt: skip

    # --- machines -------------------------------------------------------------------------------

    def _machines(self, results: Mapping[str, Comparison]) -> Divergence | None:
        """Compare the machine of each side with the interpreter on the module that it runs."""
        for side in (self.left, self.right):
            if side.backend == REFERENCE:
                continue
            execute = side.execute(self.threads, self._host())
            machine = Machine(execute, Interpreter(self._host()), self.tolerance, self.tell)
            wrong = machine.first_wrong(side.made, self.arguments)
            if wrong is not None:
                return self._of_machine(wrong, side, results)
        return None

    def _of_machine(
        self, wrong: Wrong, side: Side, results: Mapping[str, Comparison]
    ) -> Divergence:
        inst = origin(wrong.at, side.given)
        got, want, comparison = wrong.got, wrong.want, wrong.comparison
        if side is self.right:
            got, want = want, got
            comparison = self.tolerance.compare(got, want)
        parameters = wrong.module.entry.parameters
        kind = "instruction" if len(wrong.insts) == 1 else "together"
        return Divergence(
            kind, self.left.name, self.right.name, side.backend, inst.name, inst.opcode,
            _computation(inst), _location(inst), _frames(wrong.frames), str(wrong.at), comparison,
            tuple((p.name, v) for p, v in zip(parameters, wrong.arguments, strict=True)),
            got, want, wrong.module, tuple(wrong.arguments), results=results,
        )  # fmt: skip


def _agree(results: Mapping[str, Comparison]) -> bool:
    return all(c.same for c in results.values())


def _share_names(a: Module, b: Module) -> bool:
    """True if most instructions have the name of one of the other module, of the same opcode."""
    names = {(i.name, i.opcode) for i in a.instructions()}
    shared = sum((i.name, i.opcode) in names for i in b.instructions())
    return 2 * shared > sum(1 for _ in b.instructions())


def _computation(inst: Instruction) -> str:
    return inst.parent.name if inst.parent is not None else ""


def _location(inst: Instruction) -> SourceLocation:
    location = source_location(inst)
    if inst.span is not None and isinstance(inst.span.source, Listing):
        return replace(location, hlo_file=None, hlo_line=None)
    return location


def _frames(frames: Sequence[tuple[Instruction, int | None]]) -> tuple[Frame, ...]:
    return tuple(Frame(inst.name, iteration) for inst, iteration in frames)


def _named(inst: Instruction, operands: Sequence[Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((o.name, v) for o, v in zip(inst.operands, operands, strict=True))


def _alone(inst: Instruction, operands: Sequence[Any]) -> tuple[Module | None, tuple[Any, ...]]:
    """Return an instruction as a runnable module, and the values of its parameters."""
    if inst.opcode == "parameter":
        return None, ()
    module = extract(inst, 0)
    by_name = {o.name: v for o, v in zip(inst.operands, operands, strict=True)}
    return module, tuple(by_name[p.name] for p in module.entry.parameters)
