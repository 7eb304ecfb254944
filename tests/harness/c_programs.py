"""The example program of a module, on this machine and others, beside the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.objects.example import example
from hlo.objects.header import header
from hlo.objects.interface import Interface
from hlo.testing.compare import compare
from hlo.testing.sampling import random_value
from tests.harness.native import STRICT, Machine, logical, physical, run_command
from tests.harness.oracle import leaves


def arguments(text: str) -> list[object]:
    """Return random values for a module's parameters."""
    rng = np.random.default_rng(1)
    return [random_value(rng, s) for s in parse(text).entry.parameter_shapes]


def write_program(folder: Path, machine: Machine, text: str, symbol: str = "m") -> Interface:
    """Write object, header and example of a module."""
    code = machine.code(text, symbol)
    (folder / f"{symbol}.o").write_bytes(code.write(".o", f"{symbol}.o"))
    (folder / f"{symbol}.h").write_text(header(code.interface, "m.hlo", f"{symbol}.h"))
    source = example(code.interface, "m.hlo", f"{symbol}.h", [f"{symbol}.o"], machine.compiler[0])
    (folder / "example.c").write_text(source)
    return code.interface


def run_program(
    folder: Path, machine: Machine, text: str, args: Sequence[object] | None = None
) -> None:
    """Build the example of a module, run it, and compare with the interpreter.

    args: random values by default.
    """
    machine.need()
    interface = write_program(folder, machine, text)
    command = [*machine.compiler, *STRICT, "-O1", "example.c", "m.o", "-o", "example"]
    run_command(command, folder)
    args = arguments(text) if args is None else args
    files = []
    for n, (leaf, value) in enumerate(zip(interface.inputs, leaves(tuple(args)), strict=True)):
        files.append(f"in{n}.bin")
        (folder / files[-1]).write_bytes(physical(value, leaf.shape))
    run_command([*machine.runner, "./example", "-o", "out", *files], folder)
    want = leaves(interpret(parse(text), args))
    for n, leaf in enumerate(interface.outputs):
        got = logical((folder / f"out{n}.bin").read_bytes(), leaf.shape)
        compared = compare(got, np.asarray(want[n]))
        assert compared.same, f"{leaf.ident}: {compared}"
