"""What `hlo-run` does with one file: everything between its flags and what it shows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import click

from .backends import Runnable, compiled, reference
from .common import note, progress, read_source
from .devices import for_devices, inputs_by_device, named_results
from .outcome import Outcome, assumed_text, made_up_text, nan_counts

if TYPE_CHECKING:
    from hlo.compare import Comparison
    from hlo.constants import Constants
    from hlo.host import Host

# Whose results are compared, as verdicts say it.
INTERPRETER = "the interpreter's"


@dataclass
class Job:
    """What the flags ask for, for every file alike."""

    inputs: tuple[str, ...]
    archives: tuple[str, ...]
    output: str | None
    seed: int
    random: tuple[str, ...]
    constants: str | None
    backend: str
    check: bool
    fail_on_nan: bool
    expect: str | None
    rtol: float | None
    atol: float | None
    infeed: tuple[str, ...]
    outfeed: str | None
    repeat: int
    threads: int | None
    cache: bool
    passes: str
    verify: str
    replicas: int | None
    partitions: int | None
    vary: bool
    many: bool = False
    loaded: Host | None = None

    def host(self) -> Host | None:
        """Return a fresh host with the functions that were loaded: runs leave state behind."""
        if self.loaded is None:
            return None
        from hlo.host import Host

        return Host(self.loaded.custom_calls, self.loaded.libraries)

    def tolerances(self) -> tuple[float | None, float | None]:
        """Return what floats may be off by, relative and absolute; None by their types."""
        if self.rtol is None and self.atol is None:
            return None, None
        return self.rtol or 0.0, self.atol or 0.0

    def filler(self) -> Constants | None:
        """Return what gives elided constants values."""
        if self.constants is None:
            return None
        from hlo.constants import Constants

        return Constants(self.constants, self.seed, self.random)


def run(file: str, job: Job) -> Outcome:
    """Run the module in a file as the flags say. Raises HloError."""
    from hlo.distribution import Distributions
    from hlo.inputs import Sampler

    outcome = Outcome(file)
    source, name = read_source(file)
    with progress(f"preparing {file}"):
        source, counts = for_devices(source, name, job.replicas, job.partitions, job.verify)
        if counts is not None:
            name += " (printed for other devices)"
        module = _prepared(source, name, job, counts)
        distributions = Distributions(job.random)
        if job.constants != "random":  # else names may be those of constants
            names = [name for p in module.parameters for _, name, _ in p.leaves()]
            distributions.need_names(names)
        sampler = Sampler(
            job.seed, distributions, module.domains, working_bytes=module.working_bytes,
            devices=prod(module.device_counts),
        )  # fmt: skip
        values, outcome.made_up = inputs_by_device(
            module.parameters, prod(module.device_counts), job.inputs, job.archives, sampler,
            vary=job.vary,
        )  # fmt: skip
        outcome.assumed = sampler.assumed
    outcome.devices = len(values)
    leaves = len(named_results(module.result, [None] * len(values)))
    if job.output is not None and job.output.endswith(".npy") and leaves != 1:
        raise click.UsageError(f"--output: {file} has {leaves} results, an npy holds one")
    outcome.prepare_s, outcome.cost = dict(module.seconds), module.cost
    outcome.elided = module.elided
    if outcome.elided:
        from hlo.constants import elided_text

        note(
            f"{file}: warning: {elided_text(outcome.elided)}; results are made up, "
            "--constants FILE or --constants random fills them"
        )
    if outcome.made_up:
        note(made_up_text(outcome, job.seed, vary=job.vary))
    if outcome.assumed:
        note(assumed_text(outcome))
    if module.device_counts == (1, 1):
        outcome.unused_devices = module.unused_devices
    if outcome.unused_devices:
        note(f"{file}: note: it runs on one device, on whole arrays: {outcome.unused_devices}")
    queue = _queue(job)
    with progress(f"running {file}"):
        for _ in range(job.repeat):
            _feed(module, queue)
            start = time.perf_counter()
            results = module.run(values)
            outcome.runs_s.append(time.perf_counter() - start)
    outcome.results = named_results(module.result, results)
    outcome.outfeed = _fed_out(module)
    if job.fail_on_nan:
        outcome.rejected = nan_counts(outcome.results)
    if job.check:
        with progress(f"checking {file}"):
            outcome.checks[INTERPRETER] = _compared(
                outcome.results | outcome.outfeed, source, name, job, values, counts, queue
            )
    if job.expect is not None:
        outcome.checks[f"those of {job.expect}"] = _expected(outcome.results, job)
    return outcome


def _queue(job: Job) -> list[Any]:
    """Return the values of the infeed."""
    if not job.infeed:
        return []
    from .expected import read_queue

    return read_queue(job.infeed)


def _feed(module: Runnable, queue: list[Any]) -> None:
    for host in module.hosts:
        host.infeed.clear()
        host.infeed.extend(queue)
        host.outfeed.clear()


def _fed_out(module: Runnable) -> dict[str, Any]:
    """Return what the last run fed out: `outfeed0`, ..; of several devices `device0.outfeed0`."""
    if not any(host.outfeed for host in module.hosts):
        return {}
    from .expected import queue_arrays

    found: dict[str, Any] = {}
    for device, host in enumerate(module.hosts):
        of = f"device{device}." if len(module.hosts) > 1 else ""
        found |= queue_arrays(host.outfeed, f"{of}outfeed")
    return found


def _expected(results: Mapping[str, Any], job: Job) -> dict[str, Comparison]:
    """Compare results with those in a file."""
    from hlo.compare import compare

    from .expected import read_expected

    assert job.expect is not None
    want = read_expected(job.expect, results)
    return {name: compare(results[name], w, *job.tolerances()) for name, w in want.items()}


def _prepared(source: bytes, name: str, job: Job, counts: tuple[int, int] | None) -> Runnable:
    if job.backend == "reference":
        return reference(source, name, job.host, counts, job.filler(), job.verify)
    return compiled(
        source, name, cache=job.cache, threads=job.threads, host=job.host, passes=job.passes,
        verify=job.verify, device_counts=counts, constants=job.filler(),
    )  # fmt: skip


def _compared(
    results: Mapping[str, Any], source: bytes, name: str, job: Job, values: list[list[Any]],
    counts: tuple[int, int] | None, queue: list[Any],
) -> dict[str, Comparison]:  # fmt: skip
    """Compare results with the interpreter's.

    Where they differ it runs again, on inputs that differ in their last places: results may be off
    by a few times what that changes, unless it was said what they may be off by.
    """
    from hlo.compare import compare, nudged, spread

    def wanted(values: list[list[Any]]) -> dict[str, Any]:
        module = reference(source, name, job.host, counts, job.filler(), job.verify)
        _feed(module, queue)
        return named_results(module.result, module.run(values)) | _fed_out(module)

    want = wanted(values)
    found = {n: compare(results[n], w, *job.tolerances()) for n, w in want.items()}
    if all(c.same for c in found.values()) or job.tolerances() != (None, None):
        return found
    near = wanted([[nudged(v) for v in own] for own in values])
    for n, c in found.items():
        if not c.same:
            found[n] = compare(results[n], want[n], sensitivity=spread(want[n], near[n]))
    return found
