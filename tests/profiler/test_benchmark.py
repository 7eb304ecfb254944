"""Measurements: their intervals, verdicts, and what is said of sides that do not run."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import pytest
from click.testing import CliRunner
from hlo_tools.bench import main

import hlo
from hlo.profiler.benchmark import Comparison, Measured, Side, is_difference
from hlo.profiler.intervals import Estimate, estimate
from tests.harness.schemas import check_schema

FAST = "HloModule m ENTRY e { x = f32[64] parameter(0) ROOT y = f32[64] negate(x) }"
SLOW = """HloModule m ENTRY e { x = f32[256,256] parameter(0)
  ROOT y = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fast.hlo").write_text(FAST)
    Path("slow.hlo").write_text(SLOW)
    Path("bad.hlo").write_text(FAST.replace("negate", "nugate"))


def test_intervals_hold_the_median_as_often_as_they_say() -> None:
    rng, held, tries = random.Random(1), 0, 1000
    for _ in range(tries):
        e = estimate([rng.lognormvariate(0, 0.5) for _ in range(25)])
        assert e.low <= e.value <= e.high
        held += e.low <= 1 <= e.high  # the median of that distribution
    assert 0.94 * tries <= held <= 0.99 * tries


def test_ranks_of_intervals() -> None:
    # The known ones: the 2nd and 9th of 10 values, none of five.
    assert estimate(range(1, 11)) == Estimate(5.5, 2, 9, 10)
    assert estimate([1, 2, 3, 4, 5]) == Estimate(3, 0.0, math.inf, 5)


@pytest.mark.parametrize("count", [1029, 1030, 1031, 2048, 5000])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_ranks_of_many_values_are_those_of_exact_integers(count: int, confidence: float) -> None:
    limit = Fraction(1 - confidence) / 2 * (1 << count)
    outside, rank = 0, -1
    while outside + math.comb(count, rank + 1) <= limit:
        rank += 1
        outside += math.comb(count, rank)
    e = estimate(range(count), confidence)
    assert (e.low, e.high) == (rank, count - 1 - rank)


def test_the_rank_of_a_million_values_is_that_of_the_normal_distribution() -> None:
    e = estimate(range(10**6))
    reach = NormalDist().inv_cdf(0.975) * 1000 / 2
    assert abs(e.low - (5e5 - reach)) < 2 and e.low + e.high == 10**6 - 1


def _compared(low: float, value: float, high: float, *, different: bool) -> str:
    seconds = Estimate(1.0, 0.9, 1.1, 20)
    sides = (Measured(Side("a"), seconds, "", 0, 1), Measured(Side("b"), seconds, "", 0, 1))
    return Comparison(sides, Estimate(value, low, high, 20), (), (), different).verdict


def test_verdicts() -> None:
    slower = _compared(1.29, 1.32, 1.35, different=True)
    assert slower == "a is 1.32x faster (1.29 to 1.35, 95%)"
    assert _compared(0.4, 0.5, 0.8, different=True) == "b is 2x faster (1.25 to 2.5, 95%)"
    same = _compared(0.99, 1.0, 1.01, different=False)
    assert same == "no difference found: 0.99 to 1.01 (95%)"
    assert _compared(1.02, 1.03, 1.04, different=False).endswith("of one program may differ")


def test_equal_sides_are_not_different() -> None:
    rng = random.Random(2)
    for center, expected in ((1.0, 0), (1.03, 0), (1.2, 200), (0.5, 200)):
        runs = [[rng.lognormvariate(math.log(center), 0.05) for _ in range(60)] for _ in range(200)]
        assert sum(map(is_difference, runs)) == expected


def test_the_faster_of_two() -> None:
    result = CliRunner().invoke(
        main, ["slow.hlo", "fast.hlo", "--precision=0.5", "--max-time=60", "--json"]
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    check_schema("hlo-bench", found)
    assert all(s["warm_compile_s"] > 0 and s["compile_s"] > 0 for s in found["sides"])
    assert (
        found["different"]
        and found["verdict"].startswith("fast.hlo is ")
        and found["ratio"]["high"] < 1
    )
    assert [s["version"] for s in found["sides"]] == [f"hlo {hlo.__version__}"] * 2


def test_sides_that_do_not_run() -> None:
    with pytest.raises(hlo.HloError, match="unknown opcode 'nugate'") as caught:
        hlo.bench("bad.hlo", max_time=1.0)
    assert str(caught.value).count("error:") == 1 and caught.value.code == "unknown-opcode"
    with pytest.raises(hlo.HloError, match="no such file"):
        hlo.bench("fast.hlo", baseline_python="/nowhere/python", max_time=1.0)
    with pytest.raises(hlo.HloError, match="give only one"):
        hlo.bench("fast.hlo", "slow.hlo", vs="xla")
    for vs in ("passe=dce", "threads=0", "threads=x", ""):
        with pytest.raises(hlo.HloError, match="--vs"):
            hlo.bench("fast.hlo", vs=vs)
    result = CliRunner().invoke(main, ["bad.hlo", "--json"])
    assert result.exit_code == 1 and json.loads(result.stdout)["errors"]
    check_schema("hlo-bench", json.loads(result.stdout))
    assert CliRunner().invoke(main, ["fast.hlo", "--threads=0"]).exit_code == 2
