"""From a module, or its text, to a function that computes it: the pipeline, and its cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from hlo.compiler.keys import sources, versions, without_numbers
from hlo.compiler.lowering import Clock, collectives_of, emit, imports_of, parameters_of
from hlo.errors import HloError
from hlo.runtime.cache import Cache, digest
from hlo.runtime.executable import Executable
from hlo.runtime.jit import Machine, host_machine
from hlo.runtime.kept import KeptFunctions
from hlo.runtime.meeting import meeting_code
from hlo.runtime.pool import default_threads
from hlo.runtime.program import NativeProgram, constant_data
from hlo.runtime.support import support_code
from hlo.support.imports import first_import
from hlo.support.memory import collector_paused
from hlo.support.signature import need_each
from hlo.version import __version__

# What reads, checks and translates modules is imported where it is used: running what is in the
# cache needs none of it, and starts in half the time.
if TYPE_CHECKING:
    from hlo.codegen.choices import Choices
    from hlo.codegen.entry.instrumentation import Instrumentation
    from hlo.compiler.backends import LoadedModule, Run
    from hlo.compiler.constants import Constants
    from hlo.compiler.sharded import ShardedExecutable
    from hlo.compiler.tuning import Tuning
    from hlo.compiler.tuning.timing import KernelTimes
    from hlo.host import Host
    from hlo.ir import Module
    from hlo.runtime.outside import Outside

_ENTRY = "hlo_entry"


@overload
def compile(
    module: Any,
    *args: Any,
    devices: int,
    backend: str | None = None,
    target: str | None = None,
    cache: bool | Cache = True,
    threads: int | None = None,
    features: str = "",
    host: Host | None = None,
    passes: str | Sequence[object] = "default",
    verify: str = "strict",
    strict: bool = False,
) -> ShardedExecutable: ...
@overload
def compile(
    module: Any,
    *args: Any,
    backend: Literal["compiled"] | None = None,
    target: Literal["cpu"] | None = None,
    cache: bool | Cache = True,
    threads: int | None = None,
    features: str = "",
    host: Host | None = None,
    passes: str | Sequence[object] = "default",
    verify: str = "strict",
    weights: Mapping[str, Any] | str | Path | None = None,
    tune: float | str | Path | None = None,
    strict: bool = False,
) -> Executable: ...
@overload
def compile(
    module: Any,
    *args: Any,
    backend: str | None = None,
    target: str | None = None,
    host: Host | None = None,
    passes: str | Sequence[object] = "default",
    verify: str = "strict",
    weights: Mapping[str, Any] | str | Path | None = None,
    device_results: bool = False,
    strict: bool = False,
) -> Executable | LoadedModule: ...
def compile(
    module: Any,
    *args: Any,
    backend: str | None = None,
    target: str | None = None,
    cache: bool | Cache = True,
    threads: int | None = None,
    features: str = "",
    host: Host | None = None,
    passes: str | Sequence[object] = "default",
    verify: str = "strict",
    weights: Mapping[str, Any] | str | Path | None = None,
    tune: float | str | Path | None = None,
    devices: int | None = None,
    device_results: bool = False,
    strict: bool = False,
) -> Executable | LoadedModule | ShardedExecutable:
    """Return a function that runs a module, as native code for this processor by default.

    Args:
        module: a module, which stays as it is; the name of a file, as of `hlo.load`; or a program
            of JAX, as of `hlo.from_jax`.
        args: what a function of JAX is called with, as for `hlo.from_jax`; none for others.
        backend: what runs it: `compiled`, native code, the default; `reference`, the interpreter;
            `gpu`, the NVIDIA GPU of this machine; `gpu-emulated`, a SIMT machine that runs the
            kernels for it and checks what they do; or the name of a machine that a package
            registers (see `hlo.compiler.backends`). What is said of native code does not apply to
            the others.
        target: the same by the machine: `cpu` for native code, else as for `backend`.
        cache: keep native code on disk and look there first; a `Cache` says where.
        threads: how many may work on a call, by default one a processor; results are the same for
            any number.
        features: instructions to do without, as in `-avx512f`.
        host: custom calls, queues and random state that the module uses; by default a fresh one.
        passes: the pipeline that runs first, as for `hlo.optimize`, none if empty; with passes of
            users nothing is kept on disk, and `default` is without its fusions, which code
            generation chooses.
        verify: as for `hlo.verify`.
        weights: parameters that become constants, as for `hlo.bake_weights`; the function is one of
            the others.
        tune: seconds to measure which of equivalent ways to compute products is the fastest here,
            what `Executable.tuning` has then, or a file with what was measured before. Results are
            the same. What was found is kept beside the cache, and not measured again.
        devices: partition the module by its shardings, and run it on so many devices, threads of
            this process; without it shardings are ignored.
        device_results: leave results of a GPU in its memory, as `hlo.gpu.arrays.DeviceArray`; they
            are left there anyway where an argument is there.
        strict: strict arithmetic, as if the module asked for it by
            `frontend_attributes={hlo.strict_math="true"}`: nothing is contracted or reassociated,
            functions and sums of f32 and narrower types are computed in f64 and rounded once, as
            the interpreter does; slower.

    Returns:
        An `hlo.runtime.executable.Executable`, for another backend an
        `hlo.compiler.backends.LoadedModule`, with `devices` an
        `hlo.compiler.sharded.ShardedExecutable`: it takes an array for each parameter and returns
        the module's results as numpy arrays.

    Raises:
        HloError: if the module is not valid, or there is no such backend.

    Warns (`ElidedConstantsWarning`) where results depend on constants whose values are elided.

    >>> run = hlo.compile(hlo.parse('''HloModule m ENTRY e {
    ...   x = f32[2,3] parameter(0)  y = f32[3] parameter(1)
    ...   ROOT z = f32[2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }'''))
    >>> run([[1, 2, 3], [4, 5, 6]], np.ones(3, np.float32))
    array([ 6., 15.], dtype=float32)
    """
    from hlo.analysis.strict_math import ask_for_strict_math
    from hlo.frontends.programs import module_of
    from hlo.frontends.text import print_module
    from hlo.host import Host
    from hlo.ir import need_module

    if args and (isinstance(module, str | Path) or not callable(module)):
        raise TypeError("compile: only a function of JAX is compiled for arguments")
    module = module_of(module, args, calls=True)
    need_module(module)
    need_each(
        "compile", backend=(backend, str | None), target=(target, str | None),
        cache=(cache, bool | Cache),
        threads=(threads, int | None), features=(features, str), host=(host, Host | None),
        passes=(passes, str | Sequence[object]),
        verify=(verify, str), weights=(weights, Mapping | str | Path | None),
        tune=(tune, float | int | str | Path | None), devices=(devices, int | None),
        device_results=(device_results, bool), strict=(strict, bool),
    )  # fmt: skip
    if strict:
        module = module.clone()
        ask_for_strict_math(module)
    if not isinstance(passes, str):
        from hlo.passes.default import pipeline_text

        passes = pipeline_text(passes)  # type: ignore[arg-type]
    if weights is not None:
        from hlo.compiler.weights import bake_given

        module = module.clone()
        bake_given(module, weights)

    if target is not None:
        from hlo.compiler.backends import backend_of

        backend = backend_of(target, backend)
    backend = "compiled" if backend is None else backend
    if tune is not None and (devices is not None or backend != "compiled"):
        raise HloError.at("bad-value", "hlo.compile: tune is for native code of one device")
    if devices is not None:
        options: dict[str, Any] = {"passes": passes, "verify": verify}
        if backend == "compiled":
            options |= {"cache": cache, "threads": threads, "features": features}
        return _sharded(module, devices, backend, options, host)

    if backend != "compiled":
        from hlo.compiler.backends import load

        for name, given in (("threads", threads is not None), ("features", features != "")):
            if given:
                raise HloError.at(
                    "bad-value", f"hlo.compile: {name} is for native code, not for {backend!r}"
                )
        loaded = load(
            module.clone(), backend, host=host, passes=passes, verify=verify,
            device_results=device_results, store=_store(cache),
        )  # fmt: skip
        loaded.trees = module.usable_trees
        _warn_of_elided(loaded.elided)
        return loaded

    def text() -> bytes:
        # Weights are a lot of numbers: they are not spelled.
        return print_module(module).encode() if weights is None else without_numbers(module)

    tuning = None
    if tune is not None:
        from hlo.compiler.tuning import read_tuning

        if isinstance(tune, str | Path):
            tuning = read_tuning(tune)
        else:
            tuning = measured(
                module, tune, cache=cache, threads=threads, features=features, host=host,
                passes=passes, verify=verify,
            )  # fmt: skip
    exe = _compile(
        text, lambda _: module, _store(cache), threads, features, host, passes, verify, tuning,
        module.custom_calls,
    )  # fmt: skip
    exe.trees = module.usable_trees
    _warn_of_elided(exe.elided)
    return exe


def _sharded(
    module: Module, devices: int, backend: str, options: dict[str, Any], host: Host | None
) -> ShardedExecutable:
    """Return a module that is partitioned by its shardings, as one function on whole arrays."""
    from hlo.compiler.backends import LoadedModule
    from hlo.compiler.partition import partition
    from hlo.compiler.sharded import ShardedExecutable
    from hlo.host import Host, need_devices

    parted = partition(module, devices)
    counts = parted.module.device_counts
    need_devices(counts)
    shared = host or Host()
    hosts = [Host(shared.custom_calls, shared.libraries) for _ in range(math.prod(counts))]
    program = compile(parted.module, backend=backend, host=hosts[0], **options)
    if isinstance(program, LoadedModule):
        runs: list[Run] = [program.on(h) for h in hosts]
    else:
        assert isinstance(program, Executable)
        runs = [on_host(program, h).run_values for h in hosts]

    return ShardedExecutable(parted, runs, hosts, module.usable_trees)


def _warn_of_elided(names: Sequence[str]) -> None:
    """Warn who calls `compile` if results depend on constants whose values are elided."""
    if names:
        from hlo.compiler.constants import warn_of_elided

        warn_of_elided(names)


def compile_text(
    text: bytes,
    name: str,
    *,
    cache: bool | Cache = True,
    threads: int | None = None,
    features: str = "",
    host: Host | None = None,
    passes: str = "default",
    constants: Constants | None = None,
    verify: str = "strict",
    strict: bool = False,
) -> Executable:
    """Return a function that runs the module in the content of a file, text or proto.

    name: stands for it in errors. constants: gives elided ones values. What is in the cache needs
    no parsing. See `compile`.
    """

    def module(clock: Clock) -> Module:
        from hlo.analysis.strict_math import ask_for_strict_math
        from hlo.frontends.sources import read_module

        with clock("parse"):
            read = read_module(text, name)
        if strict:
            ask_for_strict_math(read)
        if constants is not None:
            with clock("fill constants"):
                constants.fill(read)
        return read

    def key() -> bytes:
        added = [b"strict math"] * strict
        if constants is not None:
            added.append(constants.key())
        return b"\0".join([text, *added])

    return _compile(key, module, _store(cache), threads, features, host, passes, verify, None)


@collector_paused()
def _compile(
    text: Callable[[], bytes],
    module: Callable[[Clock], Module],
    store: Cache | None,
    threads: int | None,
    features: str,
    host: Host | None,
    passes: str,
    verify: str,
    tuning: Tuning | None,
    custom_calls: Mapping[str, Any] = {},
) -> Executable:
    """Return a program from the cache, or built and put there.

    custom_calls: the module's own functions, which are no part of what is kept.
    The key has names of passes only, not what they do: with passes of users nothing is kept.
    """
    if store is not None and passes not in ("", "default"):
        from hlo.passes.default import is_of_users

        store = None if is_of_users(passes) else store
    if host is not None and host.custom_calls:
        from hlo.compiler.binding import need_no_replacement

        need_no_replacement(host)
    clock, machine = Clock(), host_machine(features)
    key, program, source = "", None, None
    if store is not None:
        with clock("look up"):
            key = _key(text() + _functions(host), machine, passes, verify, tuning)
            program = store.get(key)
    if program is None:
        source = _as_run(module(clock), verify, host)
        _check_targets(source, host)
        program = build(
            source,
            machine,
            clock,
            passes,
            verify,
            choices=tuning.taken() if tuning is not None else None,
            store=store,
        )
        if store is not None:
            with clock("store"):
                store.put(key, program)
    with clock("load"):
        try:
            outside = _outside(program, host, custom_calls) if program.uses_host else None
        except HloError:
            # A program from the cache knows no places in the text: look there for the error.
            if source is None:
                _check_targets(module(clock), host)
            raise
        try:
            executable = Executable(program, threads=threads, outside=outside)
        except (HloError, RuntimeError):
            if source is not None:
                raise
            executable = None
    if executable is None:
        # What is in the cache is sound, but does not load: it is made again.
        assert store is not None
        store.discard(key)
        return _compile(
            text, module, store, threads, features, host, passes, verify, tuning, custom_calls
        )
    executable.compile_seconds, executable.tuning = clock.seconds, tuning
    executable.custom_calls, executable.key = custom_calls, key

    def saver(path: str, **options: Any) -> None:
        given = {"features": features, "passes": passes, "verify": verify, "tuning": tuning}
        from hlo.compiler.translation import save

        save(lambda: module(Clock()), path, **{**given, **options})

    executable.saver = saver
    return executable


def compile_instrumented(
    module: Module, instrumentation: Instrumentation, *,
    kind: Callable[..., Executable] = Executable,
    threads: int | None = None, features: str = "", host: Host | None = None,
    passes: str = "default", verify: str = "strict", clock: Clock | None = None,
) -> Executable:  # fmt: skip
    """Return a module as native code with code of an instrumentation, which is kept nowhere.

    Raises HloError. kind: makes the result, as the class does. clock: where the duration of each
    stage is added up. Else as `compile`.
    """
    if host is not None and host.custom_calls:
        from hlo.compiler.binding import need_no_replacement

        need_no_replacement(host)
    clock = clock or Clock()
    module = _as_run(module, verify, host)
    _check_targets(module, host)
    program = build(module, host_machine(features), clock, passes, verify, instrumentation)
    with clock("load"):
        outside = _outside(program, host, module.custom_calls) if program.uses_host else None
        executable = kind(program, threads=threads, outside=outside, called=instrumentation.called)
    executable.trees, executable.custom_calls = module.usable_trees, module.custom_calls
    executable.compile_seconds = clock.seconds
    return executable


def measured(
    module: Module, seconds: float, *, cache: bool | Cache = True, threads: int | None = None,
    features: str = "", host: Host | None = None, passes: str = "default", verify: str = "strict",
) -> Tuning:  # fmt: skip
    """Return which of equivalent ways to compute a module are the fastest, here and together.

    Random inputs are measured for about so many seconds. What was found is kept in the folder of
    the cache, if any, and not measured again. Raises HloError.
    """
    from hlo.compiler.lowering import optimized
    from hlo.compiler.tuning import Tuning, tune
    from hlo.compiler.tuning.record import keep, kept
    from hlo.io.inputs import Sampler

    if not 0 < seconds < math.inf:
        raise HloError.at("bad-value", f"{seconds} is not a positive number of seconds")
    module = _as_run(module, verify, host)
    _check_targets(module, host)
    machine, clock, store = host_machine(features), Clock(), _store(cache)
    source = optimized(module, clock, passes=passes, verify=verify)

    def compiled(choices: Choices, times: KernelTimes | None) -> Executable:
        program = build(source, machine, clock, "", verify, times, choices)
        outside = _outside(program, host, module.custom_calls) if program.uses_host else None
        called = {} if times is None else times.called
        return Executable(program, threads=threads, outside=outside, called=called)

    def inputs(executable: Executable) -> list[Any]:
        return Sampler(domains=executable.domains).values(list(executable.parameters))

    name = f"tuning-{digest([machine.cpu.encode(), machine.features.encode()])}.json"
    known = Tuning(machine.cpu) if store is None else kept(store.folder / name, machine.cpu)
    found = tune(compiled, inputs, machine.triple, machine.cpu, seconds, known)
    if store is not None and found != known:
        keep(store.folder / name, found)
    return found


def _functions(host: Host | None) -> bytes:
    """Return what programs differ by for which a host has functions of vendors' libraries."""
    if host is None or not host.custom_calls:
        return b""
    from hlo.compiler.binding import replaced_targets

    return "".join(f"\0{name}" for name in replaced_targets(host)).encode()


def _as_run(module: Module, verify: str, host: Host | None) -> Module:
    """Return a lenient module without the calls that are not needed, whose targets may be unknown.

    A strict one is verified later. Functions of the host stand for calls of vendors' libraries.
    Raises HloError.
    """
    if host is not None and host.custom_calls:
        from hlo.compiler.binding import with_functions_of

        module = with_functions_of(host, module)
    if verify == "strict":
        return module
    from hlo.lenient import verified

    return verified(module, verify)


def _check_targets(module: Module, host: Host | None) -> None:
    """Raise HloError if there is a custom call of which the host knows nothing."""
    if any(inst.opcode == "custom-call" for inst in module.instructions()):
        from hlo.compiler.binding import check_targets
        from hlo.host import Host

        check_targets(module, host or Host())


def _outside(
    program: NativeProgram | Executable, host: Host | None, custom_calls: Mapping[str, Any]
) -> Outside:
    """Return what a program calls outside: functions of the host, or of the program's module."""
    from hlo.compiler.binding import bind
    from hlo.host import Host

    return bind(program.imports, host or Host(), program.collectives, custom_calls)


def load_program(
    program: NativeProgram, *, threads: int | None = None, host: Host | None = None,
    custom_calls: Mapping[str, Any] = {},
) -> Executable:  # fmt: skip
    """Return a function that runs a compiled program.

    custom_calls: the functions of the module that it was made from. Raises HloError, or
    RuntimeError for code that does not load.
    """
    outside = _outside(program, host, custom_calls) if program.uses_host else None
    executable = Executable(program, threads=threads, outside=outside)
    executable.custom_calls = custom_calls
    return executable


def on_host(executable: Executable, host: Host) -> Executable:
    """Return a program as it runs beside another host. Raises HloError."""
    return executable.beside(_outside(executable, host, executable.custom_calls))


def build(
    module: Module, machine: Machine, clock: Clock, passes: str = "default", verify: str = "strict",
    instrumentation: Instrumentation | None = None, choices: Choices | None = None,
    store: Cache | None = None,
) -> NativeProgram:  # fmt: skip
    """Return the native code of a module: the whole pipeline, stage by stage. Raises HloError.

    instrumentation: see `write_program`; loading the program takes the addresses that it names.
    choices: what to do where there are several ways to the same results. store: for the code of
    functions that programs share.
    """
    with first_import("hlo.codegen.targets.cpu"):
        from hlo.analysis.devices import devices_of, unused_devices
        from hlo.analysis.domains import domains_of
        from hlo.analysis.elided import elided_constants
        from hlo.analysis.strict_math import has_strict_math
        from hlo.codegen.targets.cpu import cpu_target

    target = cpu_target(machine.triple, machine.data_layout, machine.features, choices)
    known = None
    if instrumentation is None and choices is None:
        # What is kept beyond this process may be from another version of this package.
        version = sources() if store is not None else ""
        context = (*machine.names, __version__, version, str(has_strict_math(module)))
        known = KeptFunctions("\n".join(context), store)
    emitted = emit(
        module, _ENTRY, target, clock, is_watched=True, passes=passes, verify=verify,
        instrumentation=instrumentation, known=known,
    )  # fmt: skip
    with clock("compile"):
        code = machine.compile(
            emitted.module, default_threads(), clock.part,
            keeps_names=instrumentation is not None and instrumentation.keeps_names, store=store,
            functions=known,
        )  # fmt: skip
        if instrumentation is not None and instrumentation.ir:
            code += (machine.object_code(machine.optimize(instrumentation.ir)),)
        emitted.module.functions.clear()  # see `Builder.finish`
    return NativeProgram(
        module.name,
        emitted.entry,
        code,
        parameters_of(module),
        emitted.result,
        emitted.arena_bytes,
        constant_data(emitted.constant_bytes, emitted.constants),
        aliases=tuple(emitted.aliases),
        cost=asdict(emitted.cost),
        support=support_code(machine),
        is_parallel=emitted.is_parallel,
        checks=tuple((number, *what) for number, what in emitted.checks.items()),
        imports=imports_of(emitted, module),
        collectives=collectives_of(emitted),
        meetings=meeting_code(machine) if emitted.collectives else b"",
        uses_host=emitted.uses_host,
        device_counts=devices_of(module),
        domains=domains_of(module),
        elided=tuple(inst.name for inst in elided_constants(module)),
        unused_devices=unused_devices(module),
    )


# --- the cache's keys ---------------------------------------------------------------------------


def _store(cache: bool | Cache) -> Cache | None:
    if isinstance(cache, Cache):
        return cache
    return Cache() if cache else None


def _key(text: bytes, machine: Machine, passes: str, verify: str, tuning: Tuning | None) -> str:
    """Return the key of the code for a text: whatever could make it another is part of it."""
    target = (*machine.names, tuning.key if tuning else "")
    return digest([text, *(part.encode() for part in (*target, *versions(), passes, verify))])
