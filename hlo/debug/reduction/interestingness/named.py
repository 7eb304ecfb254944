"""Tests as Python's users give them: functions, and names of what is built in."""

from __future__ import annotations

from collections.abc import Callable

from hlo.debug.reduction.interestingness.base import Predicate, Test
from hlo.errors import HloError, did_you_mean
from hlo.ir import Module


def test_of(test: Callable[[Module], bool] | str) -> Test:
    """Return the test that a function is, or that `check`, `crash` or `pass:NAME` names.

    Raises HloError for another text.
    """
    if not isinstance(test, str):
        return Predicate(test)
    kind, _, rest = test.partition(":")
    if kind == "pass":
        from hlo.debug.reduction.interestingness.passes import PassBreaks

        return PassBreaks(rest)
    if test == "check":
        from hlo.debug.reduction.interestingness.divergence import Differs

        return Differs()
    if test == "crash":
        from hlo.debug.reduction.interestingness.crash import Crashes

        return Crashes()
    hint = did_you_mean(test, ["check", "crash"]) or "there are check, crash and pass:NAME"
    raise HloError.at("bad-value", f"{test!r} is no test", None, hint)
