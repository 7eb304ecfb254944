"""Shardings written in another format place the same elements on each device."""

from __future__ import annotations

import itertools
import random

import pytest

import hlo
from hlo.errors import HloError
from hlo.values.sharding.shards import tile_slices

_DIMS = (24, 24)


def _placed(module: hlo.Module) -> list[list[object]]:
    return [
        [tile_slices(p.annotations["sharding"], _DIMS, device) for device in range(24)]
        for p in module.entry.parameters
    ]


def _tiled(rng: random.Random) -> str:
    """Return a random tiled sharding over 24 devices."""
    shape = rng.choice([[24], [2, 12], [4, 6], [2, 3, 4], [3, 2, 2, 2], [8, 3]])
    perm = rng.sample(range(len(shape)), len(shape))
    transposed = f"T({','.join(map(str, perm))})" if len(shape) > 1 else ""
    dims = rng.choice([(4, 6, 1), (2, 3, 4), (1, 8, 3), (12, 2, 1), (1, 1, 24), (6, 2, 2)])
    devices = f"<=[{','.join(map(str, shape))}]{transposed}"
    if rng.random() < 0.3:
        devices = ",".join(map(str, rng.sample(range(24), 24)))
    return f"{{devices=[{','.join(map(str, dims))}]{devices} last_tile_dim_replicate}}"


def _module(shardings: list[str]) -> hlo.Module:
    lines = [f"p{n} = f32[24,24] parameter({n}), sharding={s}" for n, s in enumerate(shardings)]
    return hlo.parse(
        "HloModule m, num_partitions=24\nENTRY e {\n  "
        + "\n  ".join(lines) + "\n  ROOT r = f32[] constant(0)\n}\n"
    )  # fmt: skip


def test_every_device_keeps_its_elements() -> None:
    rng = random.Random(1)
    module = _module([_tiled(rng) for _ in range(60)])
    want = _placed(module)
    for first, second in itertools.product(["v1", "v2", "named"], repeat=2):
        copy = module.clone()
        for form in (first, second):
            hlo.optimize(copy, f"sharding-format-picker{{format={form}}}", inplace=True)
            hlo.verify(hlo.parse(str(copy)))
            assert _placed(copy) == want
    text = str(copy)
    assert text.count("mesh[") == 60


def test_formats_go_back_and_forth() -> None:
    rng = random.Random(2)
    module = _module([_tiled(rng) for _ in range(40)])
    module = hlo.optimize(module, "sharding-format-picker{format=v2}")
    before = str(module)
    module = hlo.optimize(
        module, "sharding-format-picker{format=v1},sharding-format-picker{format=v2}"
    )
    assert str(module) == before


def test_an_unknown_format_is_an_error() -> None:
    with pytest.raises(HloError, match="has no format 'v3'"):
        hlo.optimize(_module(["{replicated}"]), "sharding-format-picker{format=v3}")
