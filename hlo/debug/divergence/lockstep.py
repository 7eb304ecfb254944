"""Two modules side by side on the interpreter: the first value that one of them gets wrong.

Each value of the other module that stands for one of the given module is computed from the given
module's values of its operands, and compared with the given module's. So what is wrong shows where
it is wrong and nowhere after it, and rounding does not add up. What does the same as its partner,
to the same operands, is not computed for this at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hlo.debug.divergence.beside import Beside, Frames
from hlo.debug.divergence.blame import Suspect, blamed, stands_for_something_else
from hlo.debug.divergence.nodes import Actions, Node, Region, Tree, leaves, region_of
from hlo.debug.divergence.origins import Origins
from hlo.debug.divergence.pairing import (
    CONTROL,
    Elements,
    Pairing,
    state_pairs,
)
from hlo.debug.divergence.screen import Execute, Programs, Screen, can_be_cut, is_worth_compiling
from hlo.debug.divergence.tolerance import Tolerance
from hlo.debug.divergence.values import Values, is_cheap, last_uses
from hlo.errors import HloError
from hlo.eval.interpreter import Interpreter
from hlo.host import Host
from hlo.ir import Computation, Instruction, Module

# So many iterations of loops are looked at value by value, come what may.
_FIRST_ITERATIONS = 16


class _Found(Exception):
    def __init__(self, suspect: Suspect) -> None:
        self.suspect = suspect


class _OutOfStep(Exception):
    """Loops of the two modules do not run alike, for all that is known."""


class Lockstep:
    """Runs two modules side by side."""

    def __init__(
        self, given: Module, other: Module, tolerance: Tolerance,
        known: Mapping[Instruction, Instruction] | None = None,
        hosts: Callable[[], Host | None] = lambda: None,
        native: Execute | None = None, *, interprets: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """Begin with nothing run.

        native: runs modules as native code, for what the interpreter is slow at. interprets: the
        given module's values come from the interpreter all the same. tell: is told how far it is.
        """
        self._modules = given, other
        self.tolerance = tolerance
        self._known = known
        self._origins = Origins(given, other)
        self._actions = Actions()
        self._mine = Interpreter(hosts(), given.device_counts)
        self._its = Interpreter(hosts(), other.device_counts)
        self._regions: dict[Computation, Region] = {}
        self._pairings: dict[tuple[Computation, Computation, Elements], Pairing] = {}
        can = native is not None and can_be_cut(given) and can_be_cut(other)
        self._native = native if can else None
        self._interprets = interprets
        self.tell = tell
        self._worth: dict[Computation, bool] = {}
        self._programs: dict[tuple[Computation, Computation, Elements], Programs] = {}
        # What differs inside of loops and branches whose results agree.
        self.hidden: list[Suspect] = []

    def first(self, arguments: Sequence[Any]) -> Suspect | None:
        """Return the first value that the other module gets wrong, or None.

        arguments: values for the parameters of the entries.
        """
        given, other = (m.entry for m in self._modules)
        try:
            self.run(given, arguments, other, arguments, (), needs_result=False)
        except _Found as found:
            return found.suspect
        return None

    def beside(self, arguments: Sequence[Any]) -> tuple[Suspect | None, Any]:
        """Do what `first` does; returns the given module's result as well if nothing is wrong."""
        given, other = (m.entry for m in self._modules)
        try:
            return None, self.run(given, arguments, other, arguments, ())[0]
        except _Found as found:
            return found.suspect, None

    # --- one region -----------------------------------------------------------------------------

    def region(self, comp: Computation) -> Region:
        found = self._regions.get(comp)
        if found is None:
            found = self._regions[comp] = region_of(comp)
        return found

    def pairing(
        self, given: Computation, other: Computation, unlike: Elements = frozenset()
    ) -> Pairing:
        """Return which values of two computations stand for the same.

        unlike: which elements of the states of two loops do not.
        """
        key = given, other, unlike
        found = self._pairings.get(key)
        if found is None:
            regions = self.region(given), self.region(other)
            found = self._pairings[key] = Pairing(
                *regions, self._actions, self._known, unlike, self._origins
            )
        return found

    def run(
        self, given: Computation, mine: Sequence[Any], other: Computation, its: Sequence[Any],
        frames: Frames, shared: Sequence[tuple[int, int]] = (), unlike: Elements = frozenset(),
        *, needs_result: bool = True,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Run two computations; returns the result of each. Raises _Found, _OutOfStep.

        shared: which elements of the results, if they are tuples, stand for the same. unlike: as
        for `pairing`. needs_result: else the results are not computed, but for what is compared of
        them, and None is returned.
        """
        left, right = self.region(given), self.region(other)
        pairing = self.pairing(given, other, unlike)
        natively = self._native if self._is_worth_compiling(given) else None
        # Interpreted values stay; native code has those that are cheap anew in each chunk.
        again = is_cheap if natively is not None and not self._interprets else lambda _: False
        lasts = last_uses(left, right, pairing, again=again)
        mine_too = Values(self._mine, dict(zip(left.parameters, mine, strict=True)), lasts.given)
        its_too = Values(self._its, dict(zip(right.parameters, its, strict=True)), lasts.other)
        beside = Beside(mine_too, its_too, self._its, pairing, self.tolerance, frames)
        run = _Run(self, beside)
        if natively is not None:
            programs = self._programs.setdefault((given, other, unlike), {})
            screen = Screen(
                beside, right, lasts, natively, programs, given_is_interpreted=self._interprets
            )
            run.screened(screen, len(right.nodes))
            if needs_result:
                screen.fill(list(leaves(left.root)))
        else:
            run.all(right.nodes)
        run.check_result(*_alike(left.root, right.root, shared))
        if not needs_result:
            return None, None
        return beside.given.tree(left.root), beside.result(right.root)

    def _is_worth_compiling(self, comp: Computation) -> bool:
        found = self._worth.get(comp)
        if found is None:
            found = self._worth[comp] = is_worth_compiling(comp)
        return found

    def run_whole(
        self, given: Computation, mine: Sequence[Any], other: Computation, its: Sequence[Any],
        frames: Frames, shared: Sequence[tuple[int, int]] = (), unlike: Elements = frozenset(),
    ) -> tuple[Any, Any]:  # fmt: skip
        """Do what `run` does, and look at values inside only if the results differ."""
        left, right = self._mine.call(given, mine), self._its.call(other, its)
        if isinstance(left, tuple):
            pairs = [(left[a], right[b]) for a, b in shared]
        else:
            pairs = [(left, right)]
        if all(self.are_same(a, b) for a, b in pairs):
            return left, right
        return self.run(given, mine, other, its, frames, shared, unlike)

    def whole(self, given: Node, mine: Sequence[Any], other: Node, its: Sequence[Any]) -> Any:
        """Return what two instructions make of their operands, each by itself."""
        return self._mine.evaluate(given.inst, mine), self._its.evaluate(other.inst, its)

    def are_same(self, a: Any, b: Any) -> bool:
        """True if two values agree, all elements of tuples."""
        if isinstance(a, tuple):
            return len(a) == len(b) and all(map(self.are_same, a, b))
        return a is b or not hasattr(a, "dtype") or self.tolerance.compare(b, a).same


class _Run:
    """One run of two regions, step by step."""

    def __init__(self, lockstep: Lockstep, beside: Beside) -> None:
        self._lockstep = lockstep
        self._beside = beside

    def all(self, nodes: Sequence[Node]) -> None:
        """Look at each value. Raises _Found."""
        for node in nodes:
            self.step(node)
            if node.number % 16 == 0:
                self._beside.free(node.number)

    def screened(self, screen: Screen, count: int) -> None:
        """Look at those values that native code finds apart. Raises _Found."""
        beside, at = self._beside, 0
        while at < count:
            apart, stop = screen.chunk(at)
            known = len(beside.apart)
            for node in apart:
                self.step(node)
                if len(beside.apart) > known:  # what follows is not what it was compared as
                    stop = node.number + 1
                    break
            beside.free(stop - 1)
            at = stop
            if not beside.frames:
                self._lockstep.tell(f"compared {at} of {count} values")

    def step(self, node: Node) -> None:
        """Compute a value of the other region, if need be, and compare it. Raises _Found."""
        beside = self._beside
        partner = beside.partner(node)
        if node.opcode == "parameter":
            return
        if partner is not None and beside.is_exact(node):
            return
        if partner is not None and node.opcode in CONTROL and self._control(partner, node):
            return
        value = beside.computed(node)
        if partner is None or not node.is_array or not partner.is_array:
            beside.other[node] = value
            return
        want = beside.given[partner]
        found = beside.compare(node, value, want)
        if found.same:
            return
        if stands_for_something_else(beside, node, value):
            beside.apart.add(node)
            return
        raise _Found(blamed(beside, partner, node, want, found))

    def check_result(self, given: Tree, other: Tree) -> None:
        """Compare results that stand for the same by their places. Raises _Found."""
        beside = self._beside
        its, mine = list(leaves(other)), list(leaves(given))
        if len(its) != len(mine):
            return
        for node, want in zip(its, mine, strict=True):
            if not (node.is_array and want.is_array) or beside.partner(node) is want:
                continue
            if node.inst.array_shape.dims != want.inst.array_shape.dims:
                continue
            value = beside.value(node)
            found = beside.tolerance.compare(value, beside.given[want])
            if not found.same:
                raise _Found(blamed(beside, want, node, beside.given[want], found))

    # --- control flow ---------------------------------------------------------------------------

    def _control(self, given: Node, other: Node) -> bool:
        """Run loops or branches side by side; returns whether they go alike. Raises _Found."""
        beside = self._beside
        if given.opcode != other.opcode:
            return False
        mine = [beside.given.tree(t) for t in given.operands]
        its = [beside.result(t) for t in other.operands]
        outer = beside.frames + tuple((c, None) for c in given.callers)
        try:
            if given.opcode == "while":
                results = self._loop(given, mine[0], other, its[0], outer)
            else:
                results = self._branch(given, mine, other, its, outer)
        except _OutOfStep:
            return False
        except _Found as found:
            # What differs inside is at fault only if it makes the result differ.
            results = self._lockstep.whole(given, mine, other, its)
            if not self._agree(given, other, *results):
                raise
            self._lockstep.hidden.append(found.suspect)
        beside.given[given], beside.other[other] = results
        return True

    def _agree(self, given: Node, other: Node, left: Any, right: Any) -> bool:
        """True if the results of two loops or branches agree in all that is used of both."""
        if not isinstance(left, tuple):
            return self._lockstep.are_same(left, right)
        elements = set()
        for user in other.users:
            partner = self._beside.partner(user)
            if partner is None or user.opcode != "get-tuple-element":
                continue
            if partner.opcode == user.opcode and partner.operands[0] is given:
                elements.add((partner.inst.tuple_index, user.inst.tuple_index))
        return bool(elements) and all(
            self._lockstep.are_same(left[a], right[b]) for a, b in elements
        )

    def _loop(
        self, given: Node, mine: Any, other: Node, its: Any, outer: Frames
    ) -> tuple[Any, Any]:
        a, b = given.inst, other.inst
        lockstep = self._lockstep
        pairing = lockstep.pairing(a.body, b.body)
        pairs = state_pairs(lockstep.region(a.body), lockstep.region(b.body), pairing)
        shared = [p for p in pairs if self._begins_alike(given, mine, other, its, *p)]
        unlike = frozenset(pairs) - frozenset(shared)
        iteration = 0
        while True:
            frames = (*outer, (a, iteration))
            # Each value of the first iterations, then results, unless these differ.
            step = lockstep.run if iteration < _FIRST_ITERATIONS else lockstep.run_whole
            on, on_too = step(a.condition, [mine], b.condition, [its], frames, (), unlike)
            if bool(on) != bool(on_too):
                raise _OutOfStep
            if not on:
                return mine, its
            mine, its = step(a.body, [mine], b.body, [its], frames, shared, unlike)
            its = _with_elements(its, mine, shared)
            iteration += 1

    def _begins_alike(
        self, given: Node, mine: Any, other: Node, its: Any, number: int, its_number: int
    ) -> bool:
        """True if elements of the states of two loops begin with the same value.

        Passes hoist what does not change into elements that are free, of which these began
        otherwise. Raises _Found where an element begins with what is to be the same value.
        """
        if not isinstance(mine, tuple) or not isinstance(its, tuple):
            return True
        if self._lockstep.are_same(mine[number], its[its_number]):
            return True
        tree, its_tree = given.operands[0], other.operands[0]
        if isinstance(tree, tuple) and isinstance(its_tree, tuple):
            want, got = tree[number], its_tree[its_number]
            if isinstance(want, Node) and isinstance(got, Node) and want.is_array:
                if got.is_array and self._beside.pairing.places.is_made_of(got, want):
                    found = self._beside.tolerance.compare(its[its_number], mine[number])
                    raise _Found(blamed(self._beside, want, got, mine[number], found))
        return False

    def _branch(
        self, given: Node, mine: Sequence[Any], other: Node, its: Sequence[Any], outer: Frames
    ) -> tuple[Any, Any]:
        a, b = given.inst.called_computations, other.inst.called_computations
        if len(a) != len(b) or mine[0].dtype != its[0].dtype:
            raise _OutOfStep
        at, too = (_branch_taken(v[0], len(a)) for v in (mine, its))
        if at != too:
            raise _OutOfStep
        frames = (*outer, (given.inst, None))
        return self._lockstep.run(a[at], [mine[1 + at]], b[at], [its[1 + at]], frames)


def _alike(given: Tree, other: Tree, shared: Sequence[tuple[int, int]]) -> tuple[Tree, Tree]:
    """Return those elements of two results that stand for the same; all if nothing is said."""
    if not shared or not isinstance(given, tuple) or not isinstance(other, tuple):
        return given, other
    return tuple(given[a] for a, _ in shared), tuple(other[b] for _, b in shared)


def _branch_taken(selector: Any, count: int) -> int:
    if selector.dtype.kind == "b":
        return 0 if selector else 1
    index = int(selector)
    return index if 0 <= index < count else count - 1


def _with_elements(state: Any, given: Any, shared: Sequence[tuple[int, int]]) -> Any:
    """Return the state of a loop with those elements that both loops have taken from the other."""
    if not isinstance(state, tuple) or not isinstance(given, tuple):
        return given if shared else state
    elements = list(state)
    for mine, its in shared:
        if mine < len(given) and its < len(elements):
            elements[its] = given[mine]
    return tuple(elements)


def unsupported(module: Module) -> HloError | None:
    """Return why a module cannot be run side by side with another one, or None."""
    from hlo.analysis.devices import devices_of

    counts = devices_of(module)
    if counts != (1, 1):
        return HloError.at(
            "unsupported-devices",
            f"{module.name}: it runs on {counts[0] * counts[1]} devices, and divergences are "
            "looked for on one",
        )  # fmt: skip
    return None
