"""Compare partitioned modules, on all of their devices, with the same modules on one device.

python -m tests.sweeps.compare_partitioned [--kind KIND] [--first SEED] [--count N] [--native N]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import numpy as np

import hlo
from hlo.compiler.partition import Partition, partition
from hlo.eval import interpret
from hlo.eval.interpreter import interpret_devices
from hlo.frontends.text import parse
from hlo.spmd.assignment import Choices
from hlo.values.arrays import actual
from hlo.values.sharding import Sharding
from hlo.values.sharding.shards import shard_dims, shard_of, tile_slices
from hlo.values.types import Shape, TupleShape, element_type_of, integer_range
from hlo.verifier import verify
from tests.generators.shardings import KINDS, generate_sharded
from tests.harness.oracle import leaves
from tests.sweeps.compare_generated import compare_results

# Sums in another order, of numbers that are no whole ones.
_REORDERED = 1e-3


def compare_partitioned(kind: str, seed: int, *, native: bool = False) -> Partition:
    """Fail unless a partitioned module computes on its devices what it does as a whole on one.

    native: compiled too. Returns the partitioned module.
    """
    case, sharded, _ = generate_sharded(kind, seed)
    want = [actual(leaf) for leaf in leaves(interpret(case.module, case.args))]
    with any_choice(kind, seed) if seed % 2 else nullcontext():
        found = partition(sharded.module)
    verify(found.module)
    if seed % 3 == 0:
        text = str(found.module)
        assert str(parse(text)) == text
    # What is partitioned is simplified: quotients by constants become products by reciprocals.
    is_exact = case.rtol == 0 and kind != "divide"
    rtol = 0.0 if is_exact else max(case.rtol or 0.0, _REORDERED)
    for compiled in (False, True) if native else (False,):
        got = run(found, sharded.args, native=compiled)
        compare_results([actual(leaf) for leaf in got], want, rtol)
    return found


@contextmanager
def any_choice(kind: str, seed: int) -> Iterator[None]:
    """Let operations be cut in any of the ways that are right, in place of the cheapest.

    That of arrays as small as these is often to gather them first.
    """
    rng = random.Random(f"choices {kind} {seed}")
    with mock.patch.object(Choices, "best", lambda self: rng.choice(list(self.candidates()))):
        yield


def run(found: Partition, args: list[Any], *, native: bool = False) -> list[Any]:
    """Return the leaves of the global result of a partitioned module.

    The padding of parameters is of values that no result should show.
    """
    contract, (replicas, count) = found.contract, found.module.device_counts
    per_device = []
    for device in range(count):
        shardings = iter(contract.parameter_shardings)
        per_device.append(
            [
                _shards(s, a, shardings, device)
                for s, a in zip(contract.parameters, args, strict=True)
            ]
        )
    per_device *= replicas
    if native:
        client = hlo.Client(replicas * count, cache=False)
        results = client.execute_replicated(found.module, per_device)
        values = [client.transfer(r).value for r in results]
    else:
        values = interpret_devices(found.module, per_device, (replicas, count))
    last = values[-count:]  # of a replica, which are alike
    return leaves(contract.join(dict(enumerate(last))))


def _shards(shape: Shape, value: Any, shardings: Iterator[Sharding], device: int) -> Any:
    if isinstance(shape, TupleShape):
        parts = zip(shape.elements, value, strict=True)
        return tuple(_shards(s, v, shardings, device) for s, v in parts)
    sharding = next(shardings)
    return _shard(value, sharding, device) if isinstance(value, np.ndarray) else value


def _shard(array: np.ndarray, sharding: Sharding, device: int) -> np.ndarray:
    shard = shard_of(array, sharding, device)
    part = array[tile_slices(sharding, array.shape, device)].shape
    if part == shard_dims(sharding, array.shape):
        return shard
    kept, shard = shard, np.full(shard.shape, _poison(array.dtype), array.dtype)
    inside = tuple(slice(0, n) for n in part)
    shard[inside] = kept[inside]
    return shard


def _poison(dtype: np.dtype) -> Any:
    et = element_type_of(dtype)
    if et.is_pred:
        return True
    return integer_range(et)[1] if et.is_integer else np.array(np.nan).astype(dtype)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare partitioned random modules.")
    parser.add_argument("--kind", choices=KINDS, action="append", help="kinds of modules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many of each kind")
    parser.add_argument("--native", type=int, default=0, help="every how many are compiled, too")
    options = parser.parse_args()
    failed, notes, start = 0, 0, time.perf_counter()
    reasons: Counter[str] = Counter()
    kinds = options.kind or list(KINDS)
    for kind in kinds:
        for seed in range(options.first, options.first + options.count):
            try:
                native = options.native and seed % options.native == 0
                found = compare_partitioned(kind, seed, native=native)
                notes += len(found.notes)
                reasons.update(n.reason for n in found.notes)
            except Exception as e:  # whatever goes wrong is a result
                failed += 1
                first = (str(e) or "no message").splitlines()[0][:150]
                print(f"{kind} {seed}: {type(e).__name__}: {first}", flush=True)
    for reason, count in reasons.most_common():
        print(f"{count} replicated: {reason}")
    seconds = time.perf_counter() - start
    print(f"{options.count * len(kinds)} modules: {failed} failed, {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
