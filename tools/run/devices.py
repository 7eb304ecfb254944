"""What `hlo-run` does for modules that run on several devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np

    from hlo.io.arguments import Parameter
    from hlo.io.inputs import Sampler
    from hlo.values.types import Shape


def for_devices(
    source: bytes, name: str, replicas: int | None, partitions: int | None, verify: str
) -> tuple[bytes, tuple[int, int] | None]:
    """Return a module with other numbers of devices in its header, and these; None for its own.

    Raises HloError for a module that is not valid for as many.
    """
    if replicas is None and partitions is None:
        return source, None
    from hlo.frontends.sources import read_module
    from hlo.lenient import verify_as

    module = read_module(source, name)
    for key, count in (("replica_count", replicas), ("num_partitions", partitions)):
        if count is not None:
            module.attrs[key] = count
    verify_as(module, verify)
    return str(module).encode(), module.device_counts


def _snapshot(path: str) -> Mapping[str, np.ndarray]:
    """Read a snapshot's arguments. A run from the cache needs none of what reads protos."""
    from hlo.frontends.sources import read_snapshot

    return read_snapshot(path)


def inputs_by_device(
    parameters: Sequence[Parameter], count: int, devices: range, specs: Sequence[str],
    archives: Sequence[str], sampler: Sampler, *, vary: bool,
) -> tuple[list[list[Any]], list[str]]:  # fmt: skip
    """Return the values of the parameters for some devices, and the names of those made up.

    count: how many devices the run has.
    """
    from hlo.io.inputs import read_inputs

    if len(archives) not in (0, 1, count):
        raise click.UsageError(
            f"--inputs is given {len(archives)} times for {count} device"
            f"{'s; give it once, or once per device' if count > 1 else ''}."
        )
    values: list[list[Any]] = []
    made_up: list[str] = []
    for device in devices:
        archive = archives[device if len(archives) > 1 else 0] if archives else None
        own, names = read_inputs(
            parameters, specs, archive, sampler, device, vary=vary, read_snapshot=_snapshot
        )
        values.append(own)
        # A file for one device may lack what that for another one has.
        made_up += [n for n in names if n not in made_up]
    return values, made_up


def named_results(
    shape: Shape, results: Sequence[Any], counts: tuple[int, int], first: int = 0
) -> dict[str, Any]:
    """Return the arrays of results: `out0`, `out1`, ..; of several devices `device0.out0`, ..

    counts: the numbers of replicas and of partitions of the run. first: the device whose result is
    the first one.
    """
    from hlo.io.arguments import named_leaves

    return {
        name if prod(counts) == 1 else f"device{device}.{name}": leaf
        for device, result in enumerate(results, first)
        for name, _, leaf in named_leaves(shape, result)
    }
