"""Translation validation: does a pass keep what the module computes?

After each pass that changed something, the module before and the module after run on the reference
interpreter, on seeded inputs with special values among them. If results differ, the pass runs again
with fewer and fewer of its rewrites, until the first one that makes the difference is known. A pass
that changes the module without recording a rewrite is named alone.
Modules whose devices exchange data run on all their devices, each with inputs of its own; after the
partitioner, with shards of the inputs before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from hlo.analysis.devices import devices_of
from hlo.analysis.strict_math import has_strict_math
from hlo.errors import HloError
from hlo.eval import interpret, interpret_devices
from hlo.ir import Module
from hlo.passes.manager import PassRun, run_pass
from hlo.passes.pipeline import Step
from hlo.passes.rewrites import Rewrites
from hlo.spmd.contract import contract_of
from hlo.testing.compare import compare
from hlo.testing.sampling import random_value
from hlo.values.arrays import TOKEN_VALUE, actual

# Runs a module on one value for each parameter.
Execute = Callable[[Module, Sequence[Any]], Any]

# A module that is for more devices than this runs on one, on which its collectives fail.
_MOST_DEVICES = 16


class Validate:
    """An observer that raises HloError (`pass-changed-result`) for a pass that changes a result.

    seeds: each stands for two sets of inputs, one of moderate numbers and one with special values
    (NaN, infinities, -0, denormals, the ends of integer types) among them. execute: runs the module
    after a pass on them, if not the reference interpreter; it may differ from it by rounding, and
    on `module` itself where special values overflow on the way. Raises HloError
    (`backends-disagree`) at once if it differs on moderate numbers.
    """

    def __init__(
        self, module: Module, seeds: Sequence[int] = (0,), execute: Execute | None = None
    ) -> None:
        self._counts = (1, 1) if execute is not None else _device_counts(module)
        self._execute = execute or self._interpret
        self._is_other = execute is not None
        self._takes_whole_arrays = takes_whole_arrays(module, self._counts)
        self._before: Module | None = None
        self._inputs = [
            self._arguments(module, seed, edges) for seed in seeds for edges in (False, True)
        ]
        self._want: list[list[Any] | HloError] | None = None
        if self._is_other:
            self._keep_agreeing(module)

    def _arguments(self, module: Module, seed: int, edges: bool) -> list[Any]:
        """Return the arguments of the devices, one after the other."""
        found = []
        for device in range(prod(self._counts)):
            rng = np.random.default_rng([seed, edges, device] if device else [seed, edges])
            found += [random_value(rng, p.shape, edges=edges) for p in module.entry.parameters]
        return found

    def _interpret(self, module: Module, values: Sequence[Any]) -> Any:
        return interpret_as(
            module, values, self._counts, takes_whole_arrays=self._takes_whole_arrays
        )

    def _keep_agreeing(self, module: Module) -> None:
        """Keep the inputs on which the other way to run a module gives the same from the outset."""
        kept, self._want = [], []
        for n, values in enumerate(self._inputs):
            want = _results(interpret, module, values)
            found = difference(_results(self._execute, module, values), want, True)
            if found is None:
                kept.append(values)
                self._want.append(want)
            elif n == 0:
                raise HloError.at(
                    "backends-disagree", f"before any pass, compiled and reference differ: {found}"
                )
        self._inputs = kept

    def before(self, module: Module, step: Step) -> None:
        self._before = module.clone()

    def after(self, module: Module, run: PassRun) -> None:
        """Run what a pass has changed. Raises HloError naming the rule that changed a result."""
        assert self._before is not None
        if not run.changed and str(module) == str(self._before):
            return
        approximate = self._is_other or any(r.approximate for r in run.rewrites)
        if self._want is None:
            self._want = [
                _results(self._interpret, self._before, values) for values in self._inputs
            ]
        found = self._difference(module, approximate)
        if found is not None:
            raise self._report(run, found, approximate)
        if approximate and not self._is_other:
            self._want = None

    def _difference(self, module: Module, approximate: bool) -> str | None:
        """Return how the results of a module differ from those wanted, None if they do not."""
        assert self._want is not None
        assert self._before is not None
        pairs = list(zip(self._inputs, self._want, strict=True))
        if contract_of(module) is not None and contract_of(self._before) is None:
            # Partial sums of the largest numbers overflow where the sum of all does not.
            pairs = pairs[::2]
        for values, want in pairs:
            found = difference(_results(self._execute, module, values), want, approximate)
            if found is not None:
                return found
        return None

    def _report(self, run: PassRun, found: str, approximate: bool) -> HloError:
        """Find the first rewrite after which results differ, by bisection over their number."""
        if not run.rewrites:
            return HloError.at(
                "pass-changed-result", f"{run.name} changes a result: {found}",
                hint="it records no rewrites: ask rewrites.allow(rule, instruction) before each",
            )  # fmt: skip
        same, differs = 0, len(run.rewrites)
        while differs - same > 1:
            middle = (same + differs) // 2
            if (difference_there := self._after(run.step, middle, approximate)) is None:
                same = middle
            else:
                differs, found = middle, difference_there
        guilty = run.rewrites[differs - 1]
        return HloError.at(
            "pass-changed-result",
            f"{run.name}: rule {guilty.rule} at {guilty.instruction} (rewrite {differs} of "
            f"{len(run.rewrites)}) changes a result: {found}",
        )

    def _after(self, step: Step, limit: int, approximate: bool) -> str | None:
        assert self._before is not None
        module = self._before.clone()
        run_pass(step, module, Rewrites(limit, is_exact=has_strict_math(module)))
        return self._difference(module, approximate)


def takes_whole_arrays(module: Module, counts: tuple[int, int]) -> bool:
    """Return whether the partitioner can make a module one that takes shards of its arguments."""
    return contract_of(module) is None and counts == (1, 1) and module.device_counts[0] == 1


def interpret_as(
    module: Module, values: Sequence[Any], counts: tuple[int, int], *, takes_whole_arrays: bool
) -> Any:
    """Return what a module after a pass gives for values of the module before it.

    values: those of each device, one device after the other. counts: the replicas and partitions
    that the module before it runs on; results of several are a tuple. takes_whole_arrays: the
    module before it did. Raises HloError.
    """
    contract = contract_of(module)
    if contract is not None and takes_whole_arrays:
        devices = range(prod(module.device_counts))
        shards = [contract.split(values, d) for d in devices]
        results = interpret_devices(module, shards, module.device_counts)
        return contract.join(dict(enumerate(results)))
    if counts == (1, 1):
        return interpret(module, values)
    each = len(module.entry.parameters)
    args = [values[n * each : (n + 1) * each] for n in range(prod(counts))]
    return tuple(interpret_devices(module, args, counts))


def _device_counts(module: Module) -> tuple[int, int]:
    counts = devices_of(module)
    return counts if prod(counts) <= _MOST_DEVICES else (1, 1)


def _results(execute: Execute, module: Module, values: Sequence[Any]) -> list[Any] | HloError:
    """Return the leaves of the result, or the error that running ends in."""
    try:
        return list(_leaves(execute(module, values)))
    except HloError as e:
        return e


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for element in value:
            yield from _leaves(element)
    elif value is not TOKEN_VALUE:
        yield actual(value)


def difference(
    got: list[Any] | HloError, want: list[Any] | HloError, approximate: bool
) -> str | None:
    """Return how results differ, None if they do not.

    approximate: floats may differ by rounding. Otherwise only NaNs may differ, in their bits.
    """
    if isinstance(want, HloError):
        return None  # whatever an optimized module does instead of failing is as good
    if isinstance(got, HloError):
        return f"it fails: {got.diagnostics[0].message}"
    for n, (g, w) in enumerate(zip(got, want, strict=True)):
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"result {n} is {g.dtype}{list(g.shape)}, not {w.dtype}{list(w.shape)}"
        found = compare(g, w) if approximate else compare(g, w, 0.0, 0.0)
        if not found.same:
            return f"result {n}: {found}"
        if not approximate and (at := _other_zero(g, w)) is not None:
            return f"result {n}: zeros of different sign at {list(at)}"
    return None


def _other_zero(got: np.ndarray, want: np.ndarray) -> tuple[int, ...] | None:
    """Return where one is 0 and the other is -0; None if nowhere, and for types without -0."""
    if want.dtype.kind not in "fV" or not want.size:
        return None
    wrong = (want == 0) & (np.signbit(got) != np.signbit(want))
    if not wrong.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
