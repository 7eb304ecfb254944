"""Measurements: their intervals, verdicts, and what is said of sides that do not run."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from click.testing import CliRunner
from hlo_tools.bench import main

import hlo
from hlo.profiler.benchmark import Comparison, Measured, Side
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


def _compared(low: float, value: float, high: float) -> str:
    seconds = Estimate(1.0, 0.9, 1.1, 20)
    sides = (Measured(Side("a"), seconds, "", 0, 1), Measured(Side("b"), seconds, "", 0, 1))
    return Comparison(sides, Estimate(value, low, high, 20), (), ()).verdict


def test_verdicts() -> None:
    assert _compared(1.29, 1.32, 1.35) == "a is 1.32x faster (1.29 to 1.35, 95%)"
    assert _compared(0.4, 0.5, 0.8) == "b is 2x faster (1.25 to 2.5, 95%)"
    assert _compared(0.99, 1.0, 1.01) == "no difference found: 0.99 to 1.01 (95%)"


def test_the_faster_of_two() -> None:
    result = CliRunner().invoke(main, ["slow.hlo", "fast.hlo", "--max-time=2", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    check_schema("hlo-bench", found)
    assert found["verdict"].startswith("fast.hlo is ") and found["ratio"]["high"] < 1
    assert [s["version"] for s in found["sides"]] == [f"hlo {hlo.__version__}"] * 2


def test_sides_that_do_not_run() -> None:
    with pytest.raises(hlo.HloError, match="unknown opcode 'nugate'"):
        hlo.bench("bad.hlo", max_time=1.0)
    with pytest.raises(hlo.HloError, match="no such file"):
        hlo.bench("fast.hlo", baseline_python="/nowhere/python", max_time=1.0)
    with pytest.raises(hlo.HloError, match="two sides"):
        hlo.bench("fast.hlo", "slow.hlo", vs="xla")
    for vs in ("passe=dce", "threads=0", "threads=x", ""):
        with pytest.raises(hlo.HloError, match="--vs"):
            hlo.bench("fast.hlo", vs=vs)
    result = CliRunner().invoke(main, ["bad.hlo", "--json"])
    assert result.exit_code == 1 and json.loads(result.stdout)["errors"]
    check_schema("hlo-bench", json.loads(result.stdout))
    assert CliRunner().invoke(main, ["fast.hlo", "--threads=0"]).exit_code == 2
