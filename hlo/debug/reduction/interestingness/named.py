"""Tests as Python's users give them: functions, and names of what is built in."""

from __future__ import annotations

from collections.abc import Callable

from hlo.debug.reduction.interestingness.base import Predicate, Test
from hlo.errors import HloError, did_you_mean
from hlo.ir import Module


def test_of(test: Callable[[Module], bool] | str) -> Test:
    """Return the test that a function is, or a text.

    Texts are `check`, `crash`, `find-nan`, `diverges:A,B` and `pass:NAME`.

    Raises HloError for another text.
    """
    if not isinstance(test, str):
        return Predicate(test)
    kind, _, rest = test.partition(":")
    if kind == "pass":
        from hlo.debug.reduction.interestingness.passes import PassBreaks

        return PassBreaks(rest)
    if test == "check" or kind == "diverges":
        from hlo.debug.reduction.interestingness.divergence import Differs, two_ways

        return Differs() if test == "check" else Differs(*two_ways(rest))
    if test == "crash":
        from hlo.debug.reduction.interestingness.crash import Crashes

        return Crashes()
    if test == "find-nan":
        from hlo.debug.reduction.interestingness.nonfinite import MakesNonfinite

        return MakesNonfinite()
    known = "the tests are check, crash, find-nan, diverges:A,B and pass:NAME"
    hint = did_you_mean(test, ["check", "crash", "find-nan"]) or known
    raise HloError.at("bad-value", f"{test!r} is not a test", None, hint)
