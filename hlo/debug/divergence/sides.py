"""What runs on one side: a machine, passes before it, and a module."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from hlo.analysis.devices import devices_of
from hlo.compiler.backends import NATIVE, REFERENCE, names
from hlo.errors import HloError, InstructionSpan, Source, did_you_mean
from hlo.host import Host, run_together
from hlo.ir import Module
from hlo.lenient import verified
from hlo.passes import run_pipeline
from hlo.passes.default import pipeline_of

XLA = "xla"
_SPEC = re.compile(r"([\w.+-]+)(?:\{passes=(.*)\})?", re.DOTALL)


@dataclass(frozen=True)
class Side:
    """A run of a module.

    name: as it was asked for. backend: `reference`, `compiled`, `xla`, or a machine of a package.
    passes: the pipeline in front of it, empty for none. given: the module before passes, with a
    span for each instruction; made: the one after them.
    """

    name: str
    backend: str
    passes: str
    given: Module
    made: Module

    def execute(self, threads: int | None, host: Host | None) -> Callable[..., Any]:
        """Return what runs a module on values, as this side does, without passes.

        Modules are compiled once for all their runs.
        """
        if self.backend == XLA:
            from hlo.debug.divergence.xla import runner

            return runner(host)
        return _runner(self.backend, threads, host)

    def on_devices(self, values: Sequence[Any]) -> Any:
        """Return what the side gives for values, the same ones for each of its devices.

        Of several devices it is a tuple. Raises HloError.
        """
        counts = devices_of(self.given)
        if counts == (1, 1):
            return self.execute(1, None)(self.made, values)
        if self.backend == XLA:
            raise HloError.at("unsupported-devices", f"{XLA} runs modules of one device here")
        hosts = [Host() for _ in range(prod(counts))]
        start = _loaded(self.made, self.backend, 1, hosts[0])
        return tuple(run_together(hosts, counts, [partial(start(h), values) for h in hosts]))


def native(threads: int | None, host: Host | None) -> Callable[..., Any]:
    """Return what compiles a module and runs it on values."""
    return _runner(NATIVE, threads, host)


def _runner(backend: str, threads: int | None, host: Host | None) -> Callable[..., Any]:
    ready: dict[Module, Callable[..., Any]] = {}

    def run(module: Module, values: Sequence[Any]) -> Any:
        program = ready.get(module)
        if program is None:
            start = _loaded(module, backend, threads, host)
            program = ready[module] = start(host)
        return program(values)

    return run


def _loaded(
    module: Module, backend: str, threads: int | None, host: Host | None
) -> Callable[[Host | None], Callable[..., Any]]:
    """Return what gives the function that runs a module on values, for the host of each device.

    host: that of the first one.
    """
    if backend == REFERENCE:
        from hlo.eval import run_values

        return lambda own: lambda values: run_values(module, values, own)
    if backend == NATIVE:
        from hlo.compiler.pipeline import compile as compile_module
        from hlo.compiler.pipeline import on_host

        program = compile_module(
            module, cache=False, threads=threads, host=host, passes="", verify="lenient"
        )
        return lambda own: (program if own is None else on_host(program, own)).run_values
    from hlo.compiler.backends import load

    loaded = load(module, backend, passes="", verify="lenient")

    def start(own: Host | None) -> Callable[..., Any]:
        run = loaded.on(own or Host())
        return lambda values: run(values, None)

    return start


def left_side(backend: str, passes: str, module: Module, verify: str) -> Side:
    """Return the side of a module: a machine with passes before it, or one that a text names."""
    if "{" in backend:
        return side_of(backend, module, verify)
    return make_side(backend, backend, "" if backend == REFERENCE else passes, module, verify)


def beside(left: Side, against: str | Module, verify: str) -> Side:
    """Return the other side: one that a text names, or another module that runs as `left` does."""
    if isinstance(against, Module):
        return make_side(against.name, left.backend, left.passes, against, verify)
    return side_of(against, left.given, verify)


def side_of(spec: str, module: Module, verify: str = "strict") -> Side:
    """Return the side that a text names: `reference`, `compiled{passes=...}`, `xla`, a machine.

    Raises HloError for a text that names none.
    """
    return make_side(spec, *way_of(spec), module, verify)


def way_of(spec: str) -> tuple[str, str]:
    """Return the machine that a text names, and the passes in front of it, as `side_of` does."""
    found = _SPEC.fullmatch(spec.strip())
    backend = found[1] if found is not None else spec
    _need_backend(spec, backend)
    if found is None or found[2] is None:
        return backend, "default" if backend == NATIVE else ""
    pipeline_of(found[2], fuses=False)
    return backend, found[2]


def _need_backend(name: str, backend: str) -> None:
    known = [NATIVE, REFERENCE, XLA, *names()]
    if backend not in known:
        raise HloError.at(
            "bad-backend", f"{name!r} names nothing to run on or to compare with: a module, a "
            f"trace, or one of {', '.join(dict.fromkeys(known))}",
            hint=did_you_mean(backend, known) or "compiled{passes=A,B} has passes before it",
        )  # fmt: skip


def make_side(name: str, backend: str, passes: str, module: Module, verify: str) -> Side:
    """Return a side, its passes run. Raises HloError."""
    _need_backend(name, backend)
    made = module = with_own_spans(verified(module, verify))
    if passes:
        made = module.clone()
        run_pipeline(made, pipeline_of(passes, fuses=False))
    return Side(name, backend, passes, module, made)


class Listing(Source):
    """The text of a module that has none: its instructions, one a line."""


def with_own_spans(module: Module) -> Module:
    """Return a module whose instructions have a span each, by which passes' copies are told.

    That is a copy if some have none, or share one: in modules of a builder, of a protocol buffer,
    or that passes made.
    """
    spans = [i.span for i in module.instructions()]
    if len({id(s.original) for s in spans if s is not None}) == len(spans):
        return module
    module = module.clone()
    insts = list(module.instructions())
    lines = [f"{i.name} = {i.shape} {i.opcode}" for i in insts]
    listing, at = Listing(module.name, "\n".join(lines)), 0
    for inst, line in zip(insts, lines, strict=True):
        span = inst.span
        if span is None:
            inst.span = InstructionSpan(listing, at, at + len(line))
        else:
            starts = span.operand_starts, span.attr_starts
            inst.span = InstructionSpan(span.source, span.start, span.end, *starts)
        at += len(line) + 1
    return module
