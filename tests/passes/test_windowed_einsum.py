"""Random products of gathered operands and scattered results: as loops they are the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.ir import Module
from hlo.passes import parse_pipeline, run_pipeline
from hlo.verifier import verify

_PASS = "windowed-einsum-handler{flops=1e6,network-bandwidth=1e6,network-latency=0}"


def _product(seed: int) -> str:
    """Return a product with a collective: of either operand or of the result, along any factor."""
    draw = random.Random(seed)
    members = draw.choice((2, 3, 4))
    groups = draw.choice((1, 2))
    devices = list(range(members * groups))
    draw.shuffle(devices)
    listed = [devices[n * members : (n + 1) * members] for n in range(groups)]
    et = draw.choice(("f32", "s32", "bf16"))
    batch, left, right, summed = "b", "m", "n", "k"
    size = {letter: draw.choice((1, 2, 3)) for letter in "bmnk"}
    if draw.random() < 0.4:
        batch = ""
    arrays = [list(batch + left + summed), list(batch + right + summed)]
    for letters in arrays:
        draw.shuffle(letters)
    result = batch + left + right
    scatters = draw.random() < 0.4
    which = draw.randrange(2)
    letter = draw.choice(result if scatters else arrays[which])
    size[letter] *= members
    shapes = [[size[c] for c in letters] for letters in arrays]
    given = [list(s) for s in shapes]
    if not scatters:
        given[which][arrays[which].index(letter)] //= members

    def text(dims: list[int]) -> str:
        return f"{et}[{','.join(map(str, dims))}]"

    def at(n: int, letters: str) -> str:
        return "{" + ",".join(str(arrays[n].index(c)) for c in letters) + "}"

    names = "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in listed) + "}"
    replicas = draw.random() < 0.4
    head = f"{'replica_count' if replicas else 'num_partitions'}={len(devices)}"
    who = f"replica_groups={names}"
    if not replicas:
        who += ", channel_id=1, use_global_device_ids=true"
    lines = [f"  p{n} = {text(given[n])} parameter({n})" for n in range(2)]
    operands = ["p0", "p1"]
    if not scatters:
        dim = arrays[which].index(letter)
        lines.append(
            f"  g = {text(shapes[which])} all-gather(p{which}), {who}, dimensions={{{dim}}}"
        )
        operands[which] = "g"
    dims = f"lhs_contracting_dims={at(0, summed)}, rhs_contracting_dims={at(1, summed)}"
    if batch:
        dims += f", lhs_batch_dims={at(0, batch)}, rhs_batch_dims={at(1, batch)}"
    whole = [size[c] for c in result]
    root = "  ROOT " if not scatters else "  "
    lines.append(f"{root}d = {text(whole)} dot({', '.join(operands)}), {dims}")
    if scatters:
        dim = result.index(letter)
        whole[dim] //= members
        lines.append(
            f"  ROOT r = {text(whole)} reduce-scatter(d), {who}, dimensions={{{dim}}}, to_apply=add"
        )
    add = f"add {{ a = {et}[] parameter(0)  b = {et}[] parameter(1)  ROOT c = {et}[] add(a, b) }}"
    body = "\n".join(lines)
    return f"HloModule m, {head}\n{add}\nENTRY e {{\n{body}\n}}\n"


def _run(module: Module, arguments: list[list[Any]], backend: str) -> list[np.ndarray]:
    client = hlo.Client(device_count=len(arguments), backend=backend, passes="", threads=1)
    return [np.asarray(x).astype(float) for x in client.execute_replicated(module, arguments)]


@pytest.mark.parametrize("seed", range(24))
def test_loops_compute_the_same(seed: int) -> None:
    module = hlo.parse(_product(seed))
    verify(module)
    looped = hlo.parse(_product(seed))
    runs = run_pipeline(looped, parse_pipeline(_PASS))
    verify(looped)
    assert runs[0].changed and any(i.opcode == "while" for i in looped.instructions())
    rng = np.random.default_rng(seed)
    replicas, partitions = module.device_counts
    arguments = [
        [rng.integers(-4, 5, p.array_shape.dims).astype(p.array_shape.element_type.dtype)
         for p in module.entry.parameters]
        for _ in range(replicas * partitions)
    ]  # fmt: skip
    # Small whole numbers, whose sums are exact in any order and type.
    want = _run(module, arguments, "reference")
    backend = ("reference", "compiled")[seed % 2]
    for got, expected in zip(_run(looped, arguments, backend), want, strict=True):
        np.testing.assert_array_equal(got, expected)
