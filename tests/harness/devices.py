"""Programs for several devices, as text, and what they give on both of our backends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import hlo
from hlo.values.types import element_type_of
from tests.harness.oracle import leaves
from tests.harness.replicas import Program

BACKENDS = ("reference", "compiled")

_OPS = {"add": "add", "multiply": "multiply", "maximum": "maximum", "or": "or", "and": "and"}


def program(
    line: str, counts: tuple[int, int], values: Sequence[Any], *, before: str = "", more: str = ""
) -> Program:
    """Return a program whose result is that of one instruction.

    line: may use parameters x0, x1, ... and computations add, multiply, ... on elements of x0.
    values: an array for each parameter, whose first dimension is the devices'. before, more:
    instructions and computations besides. Where there are partitions, everything is marked as for
    one partition alone: XLA's partitioner then leaves it as it is.
    """
    arrays = [np.asarray(v) for v in values]
    types = [element_type_of(a.dtype).name for a in arrays]
    manual = ", sharding={manual}" if counts[1] > 1 else ""
    functions = [
        f"{name} {{ a = {types[0]}[] parameter(0)  b = {types[0]}[] parameter(1)\n"
        f"  ROOT r = {types[0]}[] {op}(a, b) }}"
        for name, op in _OPS.items() if f"to_apply={name}" in line
    ]  # fmt: skip
    body = [
        f"x{n} = {et}[{','.join(map(str, a.shape[1:]))}] parameter({n})"
        for n, (et, a) in enumerate(zip(types, arrays, strict=True))
    ]
    body += [b.strip() for b in before.splitlines() if b.strip()]
    whole = ""
    if manual and line.startswith("("):
        count = line[: line.index(") ")].count("[")
        whole = f", sharding={{{', '.join(['{manual}'] * count)}}}"
    text = "\n".join(
        [
            f"HloModule m, replica_count={counts[0]}, num_partitions={counts[1]}", *functions, more,
            "ENTRY e {", *(f"  {b}{manual}" for b in body), f"  ROOT r = {line}{whole or manual}",
            "}",
        ]
    )  # fmt: skip
    return text, counts, arrays


def run_here(program: Program, backend: str) -> list[list[np.ndarray]]:
    """Return the leaves of the result on each device."""
    text, (replicas, partitions), arrays = program
    client = hlo.Client(replicas * partitions, backend=backend, cache=False)
    args = [[a[n] for a in arrays] for n in range(client.device_count)]
    results = client.execute_replicated(hlo.parse(text), args)
    return [[np.asarray(v) for v in leaves(client.transfer(r).value)] for r in results]


def assert_equal(got: Sequence[Sequence[Any]], want: Sequence[Sequence[Any]]) -> None:
    """Fail unless the devices' results are equal."""
    assert len(got) == len(want)
    for device, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        for g, w in zip(mine, theirs, strict=True):
            g = np.asarray(g)
            np.testing.assert_array_equal(g, np.asarray(w, g.dtype), f"device {device}")
