"""What `hlo-run` does with one file: everything between its flags and what it shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..command_line.common import note, progress
from .backends import Runnable, compiled, loaded
from .devices import for_devices, inputs_by_device, named_results
from .outcome import Outcome, assumed_text, made_up_text, nan_counts
from .ranks import all_of, collected, is_first, settled
from .whole import WholeArrays, whole_arrays

if TYPE_CHECKING:
    from hlo.compiler.constants import Constants
    from hlo.gpu.simt import SimtReport
    from hlo.host import Host
    from hlo.ir import Module
    from hlo.mpi.world import World
    from hlo.profiler.compilation import StageClock
    from hlo.testing.compare import Comparison
    from hlo.values.literal import Literal

    from ..command_line.debug_options import DebugOptions
    from .divergence_options import DivergenceFlags
    from .profile_options import ProfileFlags
    from .trace_options import TraceFlags

# What results are compared with, as verdicts say it.
WHOSE = {"reference": "the interpreter", "compiled": "native code", "gpu": "the GPU"}


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
    strict_math: bool
    replicas: int | None
    partitions: int | None
    vary: bool
    form: str | None
    # What the kernels did is to be shown, where the machine counts it.
    simt_report: bool
    many: bool = False
    loaded: Host | None = None
    # The backend that `check` compares with, and what optimizes the module there.
    against: str = "reference"
    reference_passes: str = "default"
    # Arguments from a file, for each device alike; else what is not given is zero, or random.
    arguments: Sequence[Literal] | None = None
    zeros: bool = False
    compile_only: bool = False
    # Arguments and results are wanted as they were passed, to be printed or kept in a file.
    keeps_arguments: bool = False
    prints_literals: bool = False
    # Only errors and failures are shown.
    quiet: bool = False
    # XLA's debug options, for dumps, and the number of the module in their names.
    debug_options: DebugOptions | None = None
    number: int = 0
    # Arguments and results are shards, those of each device; else whole arrays, where the module
    # has shardings or these say how to distribute it.
    per_device: bool = False
    partition: str | None = None
    shards: tuple[str, ...] = ()
    # What is looked for inside of the run, instead of results.
    inspects: TraceFlags | DivergenceFlags | None = None
    # The ranks that it runs with; None where it runs in this process alone.
    world: World | None = None
    # What is to be profiled, and where that goes.
    profiles: ProfileFlags | None = None

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

    def facts(self, source: bytes) -> dict[str, object]:
        """Return what has to be the same on all ranks that run a module."""
        from hlo.runtime.cache import digest
        from hlo.version import __version__

        return {
            "module": digest([source]),
            "backend": (self.backend, self.passes, self.verify, self.form, self.strict_math),
            "numbers_of_devices": (self.replicas, self.partitions),
            "shardings": (self.per_device, self.partition, self.shards),
            "what_is_run": (self.repeat, self.check, self.against, self.compile_only),
            "random_inputs": (self.seed, self.random, self.vary, self.zeros),
            "version": __version__,
        }

    def filler(self) -> Constants | None:
        """Return what gives elided constants values."""
        if self.constants is None:
            return None
        from hlo.compiler.constants import Constants

        return Constants(self.constants, self.seed, self.random)


def run(file: str, source: bytes, name: str, job: Job) -> Outcome:
    """Run the module in a file as the flags say. Raises HloError.

    source: what is in the file. name: stands for it in errors.
    """
    from hlo.io.arguments import bind_arguments
    from hlo.io.inputs import Sampler
    from hlo.io.random import Distributions

    outcome = Outcome(file)
    world = job.world
    if world is not None:
        world.need_same(**job.facts(source))
    with progress(f"preparing {file}"), settled(world):
        if job.form is not None:
            source, name = _as_text(source, name, job.form)
        source, given = for_devices(source, name, job.replicas, job.partitions, job.verify)
        if given is not None:
            name += " (printed for other devices)"
        if job.debug_options is not None and job.debug_options.dumps and is_first(world):
            _dump_passes(source, name, job)
        whole = None
        if not job.per_device:
            whole = whole_arrays(source, name, job.partition, job.shards, job.verify)
        if whole is not None:
            source, given, name = whole.text, whole.counts, f"{name} (partitioned)"
        clock = job.profiles.clock() if job.profiles is not None else None
        module = _prepared(source, name, job, given, clock)
        if job.profiles is not None and clock is not None:
            outcome.compilation = [clock.profile(Path(file).stem)]
        outcome.prepare_s, outcome.cost = dict(module.seconds), module.cost
        if job.compile_only:
            return outcome
        counts = module.device_counts
        outcome.devices = prod(counts)
        devices = range(prod(counts)) if world is None else world.devices
        # Arguments are of devices, or of replicas that have whole arrays.
        parameters = module.parameters if whole is None else whole.parameters
        count, takers = prod(counts), devices
        if whole is not None:
            count, takers = counts[0], range(counts[0])
        distributions = Distributions(job.random)
        if job.constants != "random":  # else names may be those of constants
            distributions.need_names([name for p in parameters for _, name, _ in p.leaves()])
        sampler = Sampler(
            job.seed, distributions, module.domains if whole is None else whole.domains,
            working_bytes=module.working_bytes, devices=len(takers), zeros=job.zeros,
        )  # fmt: skip
        if job.arguments is not None:
            values = [bind_arguments(parameters, job.arguments)] * len(takers)
        else:
            values, outcome.made_up = inputs_by_device(
                parameters, count, takers, job.inputs, job.archives, sampler, vary=job.vary
            )
        arguments = values
        if whole is not None:
            values = whole.shards(values, devices)
        outcome.assumed = sampler.assumed
    leaves = len(named_results(module.result, [None] * count, counts if whole is None else (1, 1)))
    if job.output is not None and job.output.endswith(".npy") and leaves != 1:
        raise click.UsageError(
            f"--output: {file} has {leaves} results, which need an .npz, not an .npy."
        )
    outcome.elided = module.elided
    if counts == (1, 1):
        outcome.unused_devices = module.unused_devices
    if not job.quiet:
        _note_what_is_made_up(outcome, job)
    with settled(world):
        queue = _queue(job)
    if job.inspects is not None:
        with progress(f"running {file}"):
            outcome.inspection = job.inspects.inspect(
                file, _module(source, name, job), values, job, queue
            )
        return outcome
    with progress(f"running {file}"):
        if job.profiles is not None:
            _feed(module, queue)
            job.profiles.begin(module, partial(module.run, values))
        report = _emptied_report() if job.simt_report else None
        for _ in range(job.repeat):
            _feed(module, queue)
            start = time.perf_counter()
            results = module.run(values)
            outcome.runs_s.append(time.perf_counter() - start)
    if job.profiles is not None:
        outcome.profiles = job.profiles.profiles(module, job)
    if report is not None:
        outcome.simt_report, outcome.simt_counts = str(report), report.to_json()
    outcome.results = named_results(module.result, results, counts, devices.start)
    outcome.outfeed = _fed_out(module, devices.start)
    if job.keeps_arguments:
        outcome.arguments, outcome.whole = values, results
    if job.fail_on_nan and whole is None:
        outcome.rejected = nan_counts(outcome.results)
    if job.check and whole is None:
        with progress(f"checking {file}"):
            outcome.checks[WHOSE[job.against]] = _compared(
                outcome, source, name, job, values, given, queue
            )
    if world is not None:
        outcome = collected(outcome, world)
        if world.rank:
            return outcome
    if whole is not None:
        outcome.results = whole.joined(outcome.results)
        # Of the whole arrays: what is behind their ends is no result.
        if job.fail_on_nan:
            outcome.rejected = nan_counts(outcome.results)
        if job.check:
            with progress(f"checking {file}"):
                checks = _compared_whole(outcome, whole, name, job, arguments)
            outcome.checks[WHOSE[job.against]] = checks
    if job.expect is not None:
        outcome.checks[job.expect] = _expected(outcome.results, job)
    return outcome


def _module(source: bytes, name: str, job: Job) -> Module:
    """Return the module itself, with its constants."""
    from hlo.analysis.strict_math import ask_for_strict_math
    from hlo.frontends.sources import read_module

    module, filler = read_module(source, name), job.filler()
    if job.strict_math:
        ask_for_strict_math(module)
    if filler is not None:
        filler.fill(module)
    return module


def _emptied_report() -> SimtReport:
    """Return the report of the SIMT machine, in which nothing is yet."""
    from hlo.compiler.gpu import emulated
    from hlo.gpu.simt import SimtDevice

    device = emulated().device
    assert isinstance(device, SimtDevice)
    device.report.clear()
    return device.report


def _note_what_is_made_up(outcome: Outcome, job: Job) -> None:
    if outcome.elided:
        from hlo.compiler.constants import elided_text

        note(
            f"{outcome.file}: warning: {elided_text(outcome.elided)}; placeholders are used, "
            "--constants FILE or --constants random sets them"
        )
    if outcome.made_up:
        note(made_up_text(outcome, job.seed, vary=job.vary))
    if outcome.assumed:
        note(assumed_text(outcome))
    if outcome.unused_devices:
        devices = outcome.unused_devices
        note(f"{outcome.file}: note: it runs on one device, on whole arrays: {devices}")


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


def _fed_out(module: Runnable, first: int) -> dict[str, Any]:
    """Return what the last run fed out: `outfeed0`, ..; of several devices `device0.outfeed0`.

    first: the device of the first host.
    """
    if not any(host.outfeed for host in module.hosts):
        return {}
    from .expected import queue_arrays

    found: dict[str, Any] = {}
    for device, host in enumerate(module.hosts, first):
        of = f"device{device}." if prod(module.device_counts) > 1 else ""
        found |= queue_arrays(host.outfeed, f"{of}outfeed")
    return found


def _expected(results: Mapping[str, Any], job: Job) -> dict[str, Comparison]:
    """Compare results with those in a file."""
    from hlo.testing.compare import compare

    from .expected import read_expected

    assert job.expect is not None
    want = read_expected(job.expect, results)
    return {name: compare(results[name], w, *job.tolerances()) for name, w in want.items()}


def _dump_passes(source: bytes, name: str, job: Job) -> None:
    """Write the module before and after the passes, as the debug options say."""
    from hlo.frontends.sources import read_module
    from hlo.lenient import verify_in_place
    from hlo.passes import run_pipeline
    from hlo.passes.default import pipeline_of

    module = read_module(source, name)
    verify_in_place(module, job.verify)
    assert job.debug_options is not None
    dump = job.debug_options.dump(module, job.number)
    assert dump is not None
    passes = job.passes if job.backend != "reference" else ""
    run_pipeline(module, pipeline_of(passes, fuses=True), dump.observers())
    dump.done()


def _as_text(source: bytes, name: str, form: str) -> tuple[bytes, str]:
    """Return a module, in the form that was said, as HLO text, and what errors are to call it."""
    from hlo.frontends.sources import read_module

    return str(read_module(source, name, form)).encode(), f"{name} (printed)"


def _prepared(
    source: bytes, name: str, job: Job, counts: tuple[int, int] | None,
    clock: StageClock | None = None,
) -> Runnable:  # fmt: skip
    if job.inspects is not None:
        # It runs with probes: all that is needed is what the module takes.
        job = replace(job, backend="reference")
    if job.backend != "compiled":
        return loaded(
            source, name, job.backend, job.host, job.passes, job.verify, counts, job.filler(),
            job.world, profiled=job.profiles is not None, cache=job.cache, strict=job.strict_math,
        )  # fmt: skip
    return compiled(
        source, name, cache=job.cache, threads=job.threads, host=job.host, passes=job.passes,
        verify=job.verify, device_counts=counts, constants=job.filler(), others=job.world,
        profiled=job.profiles is not None and job.profiles.runs is not None, clock=clock,
        strict=job.strict_math,
    )  # fmt: skip


def _compared_whole(
    outcome: Outcome, whole: WholeArrays, name: str, job: Job, arguments: list[list[Any]]
) -> dict[str, Comparison]:
    """Compare whole results with those of the other backend.

    That runs the module as it was before the partitioner, on one device, if it is one for that.
    """
    from hlo.analysis.devices import devices_of, has_manual_computation

    other = replace(job, backend=job.against, passes=job.reference_passes, world=None)
    alone = devices_of(whole.module) == (1, 1) and not has_manual_computation(whole.module)
    text = str(whole.module).encode() if alone else whole.text
    counts = (1, 1) if alone else whole.counts

    def wanted(arguments: list[list[Any]]) -> dict[str, Any]:
        module = _prepared(text, name, other, counts)
        if not alone:
            found = module.run(whole.shards(arguments, range(prod(counts))))
            return whole.joined(named_results(module.result, found, counts))
        results: dict[str, Any] = {}
        for replica, own in enumerate(arguments):
            of = f"replica{replica}." if len(arguments) > 1 else ""
            (found,) = module.run([own])
            named = named_results(module.result, [found], (1, 1))
            results |= {of + n: v for n, v in named.items()}
        return results

    # Only the first rank comes here.
    return _judged(outcome.results, wanted, arguments, lambda: whole.module, other)


def _compared(
    outcome: Outcome, source: bytes, name: str, job: Job, values: list[list[Any]],
    counts: tuple[int, int] | None, queue: list[Any],
) -> dict[str, Comparison]:  # fmt: skip
    """Compare results with those of the other backend."""
    from hlo.frontends.sources import read_module

    other = replace(job, backend=job.against, passes=job.reference_passes)
    results = outcome.results | outcome.outfeed
    first = job.world.devices.start if job.world is not None else 0

    def wanted(values: list[list[Any]]) -> dict[str, Any]:
        with settled(job.world):
            module = _prepared(source, name, other, counts)
        _feed(module, queue)
        found = module.run(values)
        if job.keeps_arguments and not outcome.whole_reference:
            outcome.whole_reference = found
        named = named_results(module.result, found, module.device_counts, first)
        return named | _fed_out(module, first)

    return _judged(results, wanted, values, lambda: read_module(source, name), job)


def _judged(
    results: Mapping[str, Any], wanted: Callable[[list[list[Any]]], dict[str, Any]],
    values: list[list[Any]], module: Callable[[], Module], job: Job,
) -> dict[str, Comparison]:  # fmt: skip
    """Compare results with those that are wanted for some inputs.

    Where they differ it runs again, on inputs that differ in their last places: results may be off
    by a few times what that changes, unless it was said what they may be off by. On the ranks of
    the job's world it does so on all, or on none.
    """
    from hlo.analysis.rounding import rounded_digits
    from hlo.testing.compare import judged, nudged

    def nearby() -> dict[str, Any]:
        digits = rounded_digits(module())
        return wanted([[nudged(v, digits) for v in own] for own in values])

    return judged(
        results, wanted(values), nearby, *job.tolerances(),
        agree=lambda same: all(all_of(job.world, same)),
    )  # fmt: skip
