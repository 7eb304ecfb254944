"""Some dozens of mutants that are optimized, compiled and run; `make fuzz` does thousands."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from hlo.frontends.text import parse
from tests.sweeps import fuzz, fuzz_run, mutate
from tests.sweeps.fuzz_run import Beginnings, Options, Verdict, Worker, checked, fits
from tests.sweeps.mutate import mutant, plain, valid

# Workers are forked, in a process in which other tests may have started JAX.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning"),
]

_QUICK = Options(quick=True)
_PRODUCT = """HloModule m
ENTRY e {
  x = f32[3,4] parameter(0)
  y = f32[4,5] parameter(1)
  d = f32[3,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[3,5] tanh(d)
}
"""


@cache
def _texts() -> Beginnings:
    return Beginnings(random.Random(1).sample(fuzz.corpus(), 40))


@pytest.mark.parametrize("first", range(0, 48, 12))
def test_mutants_mean_the_same_on_both_backends(first: int) -> None:
    run = 0
    for seed in range(first, first + 12):
        text = mutant(random.Random(seed), _texts(), fits)
        if text is not None:
            run += 1
            verdict = checked(text, seed, _QUICK)
            assert not verdict.found, f"{verdict.found}\n{text}"
    assert run >= 8


def test_what_native_code_does_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fuzz_run.native

    def wrong(*args: Any) -> Any:
        return [x + np.float32(0.01) for x in right(*args)]

    assert checked(_PRODUCT, 0, _QUICK) == Verdict("ok")
    monkeypatch.setattr(fuzz_run, "native", wrong)
    assert "15 of 15 elements differ" in checked(_PRODUCT, 0, _QUICK).found


def test_exceptions_and_ends_of_the_process_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise KeyError("lost")

    monkeypatch.setattr(fuzz_run, "native", broken)
    assert checked(_PRODUCT, 0, _QUICK).what == "exception"
    monkeypatch.setattr(fuzz_run, "native", lambda *args: __import__("os").abort())
    texts = [plain(parse(_PRODUCT))]
    worker = Worker(texts, _QUICK)
    seed = next(n for n in range(100) if mutant(random.Random(n), texts, fits) is not None)
    text, verdict = worker.run(seed)
    worker.close()
    assert text is not None and verdict.what == "crash"


def test_mutants_are_the_same_for_the_same_seed() -> None:
    made = [mutant(random.Random(7), _texts(), fits) for _ in range(2)]
    assert made[0] == made[1] is not None


def test_large_modules_are_made_small() -> None:
    text = plain(
        parse(_PRODUCT.replace("[3,", "[300,").replace("4]", "4096]").replace("[4,", "[4096,"))
    )
    small = mutate.smaller(random.Random(0), text)
    module = valid(small)
    assert module is not None and fits(module)
    assert "f32[300" not in small
