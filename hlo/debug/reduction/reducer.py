"""The reduction of a module: steps with delta debugging, until none makes it simpler."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256

from hlo.debug.reduction.editing import change
from hlo.debug.reduction.interestingness.base import Test, problem
from hlo.debug.reduction.localization import candidates
from hlo.debug.reduction.steps import NEED_VALID, Step, steps
from hlo.debug.reduction.workers import Verdict, Workers
from hlo.errors import HloError
from hlo.frontends.text import parse
from hlo.ir import Module
from hlo.verifier import diagnose

Make = Callable[[Module], Module | None]
"""Makes a candidate of the current module, which it may change; None if there is none."""

# A module of more instructions is searched for the part that is wrong before it is run as a whole.
LARGE = 150


@dataclass(frozen=True)
class Progress:
    """How far a reduction is: what it does, how many tests it ran, the sizes of the module."""

    stage: str
    tested: int
    instructions: int
    computations: int


class Reducer:
    """Reduces a module by a test.

    Each module that is tested, adopted and returned is the one that its text gives back: the text
    is what people keep.

    Attributes:
        module: the smallest module so far; None until one was seen to be wrong.
        problem: what is wrong with it.
        known: digests of modules that need no test: nothing is wrong with them, or they were
            adopted before.
        stage: what is going on.

    adopted: told of each smaller module, and of what is wrong with it. passed: told of digests of
    modules with which nothing is. name: what errors call the given module, by default its own name.
    """

    def __init__(
        self, module: Module, test: Test, workers: Workers, *,
        adopted: Callable[[Module, str], None] = lambda module, problem: None,
        passed: Callable[[str], None] = lambda digest: None, name: str = "",
    ) -> None:  # fmt: skip
        self._given, self._name = _reread(module), name or module.name
        self.module: Module | None = None
        self.problem = ""
        self.known: set[str] = set()
        self.stage = ""
        self._test = test
        self._workers = workers
        self._adopted, self._passed = adopted, passed

    @property
    def progress(self) -> Progress:
        module = self.module or self._given
        count = sum(len(c) for c in module)
        return Progress(self.stage, self._workers.tested, count, len(module.computations))

    def run(self, problem: str = "") -> Module:
        """Return the smallest module. problem: what is wrong with the module, where that is known.

        Raises HloError (`nothing-wrong`) if the test does not fail on it.
        """
        self._test.prepare()
        # Forks share the memory of what no collection touches.
        gc.collect()
        gc.freeze()
        try:
            if problem:
                self.module, self.problem = self._given, problem
            else:
                self._find()
            self._reduce()
        finally:
            gc.unfreeze()
        assert self.module is not None
        return self.module

    # --- the first module that is wrong ---------------------------------------------------------

    def _find(self) -> None:
        """Adopt a part of the given module, or all of it."""
        large = sum(len(c) for c in self._given) > LARGE
        rounds = candidates(self._given) if large else []
        for number, (stage, makes) in enumerate(rounds):
            self.stage = stage
            if self._first(makes) is not None:
                return
            if not number and not self._is_wrong():
                raise self._nothing_wrong()
        if self.module is None and not self._is_wrong():
            raise self._nothing_wrong()

    def _is_wrong(self) -> bool:
        """Test the whole module as it is."""
        self.stage = "running the whole module"
        (verdict,) = self._each([lambda module: module])
        if not verdict.problem:
            return False
        self.module, self.problem = self._given.clone(), verdict.problem
        self._adopted(self.module, self.problem)
        return True

    def _nothing_wrong(self) -> HloError:
        ended = ", ".join(self._workers.ended)
        hint = f"the process of the test ended by {ended}" if ended else None
        if set(self._workers.ended) - {"timeout"}:
            hint = f"{hint}; --crash is for what ends a process"
        what = f"nothing to reduce: the test does not fail on {self._name}"
        return HloError.at("nothing-wrong", what, None, hint)

    # --- steps ----------------------------------------------------------------------------------

    def _reduce(self) -> None:
        """Run all steps until none of them changes anything."""
        settled: dict[str, str] = {}
        while True:
            for name, step in steps():
                self.stage = name
                before = self._digest()
                if settled.get(name) == before:
                    continue
                if name not in NEED_VALID or self._is_valid():
                    self._delta(step)
                # What a step changes may be what its other targets waited for.
                settled[name] = before
            if set(settled.values()) == {self._digest()}:
                return

    def _is_valid(self) -> bool:
        """Return whether the module is: a test of errors may look for those of invalid ones."""
        assert self.module is not None
        return not diagnose(self.module)

    def _digest(self) -> str:
        assert self.module is not None
        return digest(self.module)

    def _delta(self, step: Step) -> None:
        """Apply a step to as many of its targets as possible: to all, to halves, ..., to each."""
        assert self.module is not None
        targets = step.targets(self.module)
        size = len(targets)
        while size:
            chunks = [targets[n : n + size] for n in range(0, len(targets), size)]
            left: list[str] = []
            while chunks:
                makes = [_applied(step, chunk) for chunk in chunks]
                found = self._first(makes)
                if found is None:
                    left += [t for chunk in chunks for t in chunk]
                    break
                left += [t for chunk in chunks[:found] for t in chunk]
                chunks = chunks[found + 1 :]
            targets = left
            size = 0 if size == 1 else min((size + 1) // 2, len(targets))

    # --- candidates -----------------------------------------------------------------------------

    def _first(self, makes: Sequence[Make]) -> int | None:
        """Adopt the first candidate that is still wrong; returns its number, None if none is."""
        with closing(self._each(makes)) as verdicts:
            for number, verdict in enumerate(verdicts):
                if verdict.problem:
                    module = makes[number](self._base())
                    assert module is not None
                    if digest(module) != verdict.digest and not self._is_as_wrong(module):
                        continue
                    module = _reread(module)
                    self.module, self.problem = module, verdict.problem
                    # Two steps that undo each other come to an end.
                    self.known.add(verdict.digest)
                    self._adopted(module, self.problem)
                    return number
                if verdict.digest and verdict.digest not in self.known:
                    self.known.add(verdict.digest)
                    self._passed(verdict.digest)
        return None

    def _is_as_wrong(self, module: Module) -> bool:
        """Test a module that was not made again as it was tested: what is adopted was tested."""
        with closing(self._each([lambda _: module])) as verdicts:
            return bool(next(verdicts).problem)

    def _each(self, makes: Sequence[Make]) -> Generator[Verdict]:
        with closing(self._workers.verdicts([self._work(make) for make in makes])) as verdicts:
            for verdict in verdicts:
                if verdict.failed:
                    raise HloError.at("test-failed", verdict.failed)
                yield verdict

    def _work(self, make: Make) -> Callable[[], Verdict]:
        def work() -> Verdict:
            # A fork is a copy as a whole.
            forked = self._workers.forks
            module = make((self.module or self._given) if forked else self._base())
            if module is None:
                return Verdict()
            text = str(module)
            key = _digest_of(text)
            if key in self.known:
                return Verdict(digest=key)
            try:
                tested = _reread(module, text)
            except HloError:
                return Verdict(digest=key)  # an invalid module that no text spells
            said = problem(self._test, tested)
            same = said if said and self.problem in ("", said) else ""
            return Verdict(same, key)

        return work

    def _base(self) -> Module:
        """Return the module that candidates are made of, to be changed."""
        return (self.module or self._given).clone()


def _applied(step: Step, chunk: Sequence[str]) -> Make:
    def make(module: Module) -> Module | None:
        try:
            done = change(module, lambda m: step.apply(m, chunk))
        except HloError:
            return None
        return module if done else None

    return make


def _reread(module: Module, text: str | None = None) -> Module:
    """Return what a module's own text gives back, with the module's functions."""
    reread = parse(str(module) if text is None else text)
    reread.custom_calls = module.custom_calls
    return reread


def digest(module: Module) -> str:
    """Return a digest of a module's text."""
    return _digest_of(str(module))


def _digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
