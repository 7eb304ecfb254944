"""The default pipeline keeps results, validity and ends, on random modules and on the op table."""

from __future__ import annotations

import pytest

from hlo.frontends.text import parse
from hlo.ops import OPS
from tests.generators.collectives import generate_collectives
from tests.sweeps.compare_generated import GENERATORS, compare_compiled
from tests.sweeps.compare_passes import compare_pipeline


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", GENERATORS)
def test_random_modules(kind: str, seed: int) -> None:
    case = GENERATORS[kind](seed)
    compare_pipeline(case.module, "default")
    compare_compiled(case)  # fused as it is now


_COLLECTIVES = (
    "fix(all-gather-cse,schedule-aware-collective-cse,all-gather-bcast-reorder,all-reduce-folder,"
    "all-reduce-simp,"
    "all-reduce-reassociate{reassociate-converted-ar=true},reduce-scatter-reassociate,"
    "reduce-scatter-creator,all-gather-dynamic-slice-simplifier,collective-quantizer,"
    "collective-transformation-reorderer,ar-crs-combiner),all-gather-combiner{combine-by-dim=false},"
    "all-reduce-combiner,reduce-scatter-combiner{combine-by-dim=false},collective-permute-combiner,"
    "all-reduce-contiguous,collectives-schedule-linearizer,async-collective-creator,"
    "latency-hiding-scheduler{memory-ratio=2}"
)


@pytest.mark.parametrize("seed", range(12))
def test_random_collectives(seed: int) -> None:
    compare_pipeline(generate_collectives(seed), _COLLECTIVES)
    compare_pipeline(generate_collectives(seed), "default")


@pytest.mark.parametrize(
    "text", [pytest.param(t, id=f"{o}-{n}") for o in OPS for n, t in enumerate(OPS[o].examples)]
)
def test_examples_of_the_op_table(text: str) -> None:
    compare_pipeline(parse(text), "default")
