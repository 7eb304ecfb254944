"""A module with shardings as one function on whole arrays, run by several devices."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from hlo.compiler.backends import Run
from hlo.compiler.partition import Partition
from hlo.host import Host, run_together
from hlo.io.arguments import bind_call
from hlo.io.notebook import program_html
from hlo.support.deadline import check_timeout
from hlo.support.trees import given_by
from hlo.values.types import Shape


class ShardedExecutable:
    """A partitioned module, ready to run on the arrays of the module that was partitioned.

    Each call cuts the arguments into shards, runs all devices, each a thread of this process, and
    assembles the results. Calls from several threads take turns.

    Attributes:
        partition: the program of each device, and what the partitioner did.
        parameters: of the whole module.
        result_shape: its result.

    >>> run = hlo.compile(hlo.parse('''HloModule m ENTRY e {
    ...   x = f32[4] parameter(0), sharding={devices=[2]<=[2]}  ROOT y = f32[4] sqrt(x) }'''),
    ...   devices=2)
    >>> run([1, 4, 9, 16]), run.partition.module.entry.parameters[0].shape
    (array([1., 2., 3., 4.], dtype=float32), <ArrayShape f32[2]{0}>)
    """

    def __init__(
        self, partition: Partition, runs: Sequence[Run], hosts: Sequence[Host], trees: Any = None
    ) -> None:
        """runs: the function that runs the program on each device, beside its host."""
        self.partition = partition
        self.parameters = tuple(partition.parameters)
        self.result_shape: Shape = partition.contract.result
        self._hosts = hosts
        self._runs = runs
        self._trees = trees
        self._busy = threading.Lock()

    def __call__(self, *args: Any, timeout: float | None = None, **named: Any) -> Any:
        """Run on whole arrays; returns the whole result. See `hlo.interpret` for arguments.

        Raises HloError for arguments that do not fit, and where a device fails.
        """
        if timeout is not None:
            check_timeout(timeout)
        values = bind_call(self.parameters, args, named, self._trees)
        counts = self.partition.module.device_counts
        with self._busy:
            runs = [
                partial(run, self.partition.contract.split(values, n % counts[1]), timeout)
                for n, run in enumerate(self._runs)
            ]
            results = run_together(self._hosts, counts, runs)
        whole = self.partition.contract.join(dict(enumerate(results[: counts[1]])))
        return given_by(self._trees, whole)

    def _repr_html_(self) -> str:
        return program_html(repr(self).strip("<>"), self.parameters, self.result_shape)

    def __repr__(self) -> str:
        counts = self.partition.module.device_counts
        return f"<ShardedExecutable {self.partition.module.name} on {prod(counts)} devices>"
