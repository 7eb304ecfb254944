"""Calls that say themselves how they are partitioned: JAX's `custom_partitioning`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest

import hlo
from hlo.errors import HloError
from hlo.ir import Instruction
from hlo.spmd.partitioners import PARTITIONERS, Partitioned
from hlo.values.sharding import Sharding, TupleSharding

if TYPE_CHECKING:
    from hlo.spmd.partitioners import Arrays

TARGET = "CustomSPMDPartitioning"
X = np.arange(32, dtype=np.float32).reshape(8, 4)
ROWS = "devices=[4,1]<=[4]"
RULE = "#sdy.op_sharding_rule<([i, j])->([i, j], [i]) {i=8, j=4} need_replication={j}>, custom>"


def program(sharding: str, rule: str = RULE) -> str:
    """Return a module whose call returns x / sum(x along rows), and that sum."""
    return f"""HloModule m, num_partitions=4, allow_spmd_sharding_propagation_to_output={{true}}
      ENTRY e {{
        x = f32[8,4] parameter(0), sharding={{{sharding}}}
        y = f32[8,4] negate(x)
        c = (f32[8,4], f32[8]) custom-call(y), custom_call_target="{TARGET}", backend_config="1",
          frontend_attributes={{xla.sdy.sharding_rule="{rule}"}}
        a = f32[8,4] get-tuple-element(c), index=0
        b = f32[8] get-tuple-element(c), index=1
        ROOT r = (f32[8,4], f32[8]) tuple(a, b)
      }}"""


ON_SHARDS = """HloModule part
  add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
  ENTRY e {
    x = f32[2,4] parameter(0)
    zero = f32[] constant(0)
    s = f32[2] reduce(x, zero), dimensions={1}, to_apply=add
    all = f32[2] all-reduce(s), channel_id=1, replica_groups={{0},{1},{2},{3}},
      use_global_device_ids=true, to_apply=add
    t = f32[2,4] broadcast(all), dimensions={0}
    d = f32[2,4] divide(x, t)
    ROOT r = (f32[2,4], f32[2]) tuple(d, all)
  }"""


def sharding(text: str) -> Sharding:
    module = hlo.parse(
        f"HloModule m, num_partitions=4 ENTRY e {{ ROOT p = f32[8,4] parameter(0), "
        f"sharding={{{text}}} }}"
    )
    found = module.entry.root.annotations["sharding"]
    assert isinstance(found, Sharding)
    return found


def vector(text: str) -> Sharding:
    module = hlo.parse(
        f"HloModule m, num_partitions=4 ENTRY e {{ ROOT p = f32[8] parameter(0), "
        f"sharding={{{text}}} }}"
    )
    found = module.entry.root.annotations["sharding"]
    assert isinstance(found, Sharding)
    return found


@pytest.fixture
def asked() -> Iterator[list[Sequence[str]]]:
    """Register a partitioner by rows; what it is asked, as the shardings of both sides."""
    seen: list[Sequence[str]] = []

    def by_rows(call: Instruction, operands: Arrays, results: Arrays) -> Partitioned:
        assert [s.dims for s, _ in (*operands, *results)] == [(8, 4), (8, 4), (8,)]
        seen.append([str(sharding) for _, sharding in (*operands, *results)])
        by = sharding(ROWS)
        return Partitioned(hlo.parse(ON_SHARDS), [by], [by, vector("devices=[4]<=[4]")])

    PARTITIONERS[TARGET] = by_rows
    yield seen
    del PARTITIONERS[TARGET]


@pytest.mark.parametrize("cut", [ROWS, "devices=[2,2]<=[4]", "devices=[1,4]<=[4]", "replicated"])
def test_shards_are_computed_as_the_partitioner_says(cut: str, asked: list[Sequence[str]]) -> None:
    normalized, sums = hlo.compile(hlo.parse(program(cut)), devices=4)(X)
    np.testing.assert_allclose(normalized, X / X.sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(sums, -X.sum(1))
    assert len(asked) == 1


def test_shardings_are_propagated_by_the_rule_of_the_call(asked: list[Sequence[str]]) -> None:
    made = hlo.partition(hlo.parse(program("devices=[2,2]<=[4]")))
    (shardings,) = asked
    assert shardings == [
        "{devices=[2,2]<=[4]}",
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
        "{devices=[2,2]<=[4] last_tile_dim_replicate}",
    ]
    assert isinstance(made.module.entry.root.annotations.get("sharding"), TupleSharding | None)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("anything", "is none"),
        ("#sdy.op_sharding_rule<([i])->([i], [i]) {i=8}>", "other arrays, or ranks"),
        ("#sdy.op_sharding_rule<([i, j])->([i, j], [k]) {i=8, j=4}>", "factor k has no size"),
    ],
)
def test_rules_that_do_not_fit_are_refused(rule: str, words: str) -> None:
    with pytest.raises(HloError, match=words) as e:
        hlo.verify(hlo.parse(program(ROWS, rule)))
    assert e.value.code == "bad-sharding"
