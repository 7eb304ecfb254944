"""What `hlo-run` does for modules with shardings: whole arrays in, whole arrays out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..command_line.partition_report import tell

if TYPE_CHECKING:
    from hlo.io.arguments import Parameter, Path
    from hlo.io.random import Domain
    from hlo.ir import Module
    from hlo.spmd.contract import Contract

_NAME = re.compile(r"device(\d+)\.(out.*)")


@dataclass
class WholeArrays:
    """A module that was partitioned, as its user sees it.

    Attributes:
        module: before the partitioner.
        text: of the program of each device.
        counts: the numbers of replicas and of partitions.
        contract: how its shards make up the whole arrays.
        parameters: the whole ones.
        domains: the values of parameters that make sense.
    """

    module: Module
    text: bytes
    counts: tuple[int, int]
    contract: Contract
    parameters: Sequence[Parameter]
    domains: Mapping[tuple[int, Path], Domain]

    def shards(self, values: Sequence[Sequence[Any]], devices: range) -> list[list[Any]]:
        """Return what each of some devices has of the arguments of each replica."""
        _, partitions = self.counts
        return [self.contract.split(values[d // partitions], d % partitions) for d in devices]

    def joined(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Return the whole results: `out0`, ..; of several replicas `replica0.out0`, ..

        results: those of all devices, `device0.out0`, ...
        """
        from hlo.spmd.contract import join_shards

        replicas, partitions = self.counts
        by_name: dict[tuple[int, str], dict[int, Any]] = {}
        for name, value in results.items():
            found = _NAME.fullmatch(name)
            device, leaf = (int(found[1]), found[2]) if found else (0, name)
            by_name.setdefault((device // partitions, leaf), {})[device % partitions] = value
        leaves = self.contract.named_results()
        whole = {}
        for (replica, leaf), shards in by_name.items():
            shape, sharding = leaves[leaf]
            name = leaf if replicas == 1 else f"replica{replica}.{leaf}"
            whole[name] = join_shards(shape, sharding, shards)
        return whole


def whole_arrays(
    source: bytes, name: str, devices: str | None, shards: Sequence[str], verify: str
) -> WholeArrays | None:
    """Return a module partitioned by its shardings; None for one that has none.

    devices, shards: shardings for a module without, as the flags have them. Raises HloError.
    """
    if devices is None:
        if shards:
            raise click.UsageError("--shard requires --partition.")
        if b"partition" not in source and b"sharding" not in source:
            return None
    from hlo.analysis.devices import needs_partitioning
    from hlo.analysis.domains import domains_of
    from hlo.api import parameters_of
    from hlo.compiler.partition import partition
    from hlo.frontends.sources import read_module
    from hlo.io.arguments import Parameter
    from hlo.lenient import verified
    from hlo.spmd.contract import contract_of

    module = verified(read_module(source, name), verify)
    if devices is not None:
        from hlo.spmd.annotate import annotate

        annotate(module, _grid(devices), _named_shards(shards))
    elif (contract := contract_of(module)) is not None:
        parameters = [
            Parameter(p.parameter_number, p.name, shape)
            for p, shape in zip(module.entry.parameters, contract.parameters, strict=True)
        ]
        return WholeArrays(
            module, source, module.device_counts, contract, parameters, domains_of(module)
        )
    elif not needs_partitioning(module):
        return None
    done = partition(module)
    tell(name, [str(n) for n in done.notes])
    text = str(done.module).encode()
    counts = done.module.device_counts
    return WholeArrays(
        module, text, counts, done.contract, parameters_of(module), domains_of(module)
    )


def _grid(text: str) -> list[int]:
    sizes = text.removeprefix("devices=").split(",")
    if not text.startswith("devices=") or not all(s.isdecimal() and int(s) for s in sizes):
        raise click.UsageError(
            f"--partition {text} is not of the form devices=N or devices=N,M,..."
        )
    return [int(s) for s in sizes]


def _named_shards(specs: Sequence[str]) -> dict[str, list[list[int]]]:
    """Return the axes of each dimension by name, from flags and JSON files. Raises HloError."""
    from hlo.spmd.annotate import read_dims

    found: dict[str, list[list[int]]] = {}
    for spec in specs:
        if spec.endswith(".json") and "=" not in spec:
            found |= _from_json(spec)
            continue
        name, _, dims = spec.rpartition("=")
        if not name:
            raise click.UsageError(f"--shard {spec} is neither NAME=AXIS,... nor a FILE.json")
        found[name] = read_dims(dims)
    return found


def _from_json(path: str) -> dict[str, list[list[int]]]:
    from hlo.errors import HloError
    from hlo.io.files import read_bytes

    try:
        content = json.loads(read_bytes(path))
    except ValueError as e:
        raise HloError.at("bad-value", f"{path} is not JSON: {e}") from None
    found: dict[str, list[list[int]]] = {}
    for name, dims in content.items() if isinstance(content, dict) else [("", None)]:
        axes = [[] if d is None else d if isinstance(d, list) else [d] for d in dims or ()]
        if dims is None or not isinstance(dims, list) or not all(
            isinstance(a, int) for d in axes for a in d
        ):  # fmt: skip
            raise HloError.at(
                "bad-value", f"{path}: an object is needed of a list for each name",
                hint='as in {"x": [0, null], "w": [null, [1, 2]]}: for each dimension an axis, '
                "several, or null",
            )  # fmt: skip
        found[name] = axes
    return found
