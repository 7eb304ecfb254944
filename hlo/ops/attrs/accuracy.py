"""`result_accuracy`: the error that a transcendental function may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hlo.errors import TextError
from hlo.ops.attrs.codec import FLOAT, Codec, enum
from hlo.values.scan import Scanner


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """What error a transcendental function may have: `highest`, or any of three tolerances.

    atol: absolute; rtol: relative; ulps: units in the last place. The reference is within one
    unit of any type up to f32, so it meets every request.
    """

    highest: bool
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


_ULPS_MAX = 2**63 - 1


def _read_accuracy(s: Scanner) -> ResultAccuracy | None:
    s.expect("{")
    at = s.pos
    key = s.ident("mode or tolerance")
    s.expect("=")
    accuracy: ResultAccuracy | None
    if key == "mode":
        accuracy = ResultAccuracy(True) if _MODE.read(s) == "highest" else None
    elif key == "tolerance":
        accuracy = _read_tolerance(s)
    else:
        raise TextError(f"expected mode or tolerance, found {key!r}", at, code="bad-value")
    s.expect("}")
    return accuracy


def _read_tolerance(s: Scanner) -> ResultAccuracy:
    fields: dict[str, Any] = {}
    for _ in s.items():
        at = s.pos
        key = _TOLERANCE.read(s)
        s.expect("=")
        value = s.number()
        # The comparison is false for NaN too.
        if not value >= 0:
            raise TextError(f"a tolerance is at least 0, {key} is {value}", at, code="bad-value")
        if key in fields:
            raise TextError(f"{key} is given twice", at, code="duplicate-attribute")
        if key == "ulps":
            if value > _ULPS_MAX:
                raise TextError(f"{value:g} is not a number of units", at, code="bad-value")
            value = int(value)  # as XLA does with a fraction
        fields[key] = value
    return ResultAccuracy(False, **fields)


def _write_accuracy(value: ResultAccuracy) -> str:
    if value.highest:
        return "{mode=highest}"
    atol, rtol = map(FLOAT.write, (value.atol, value.rtol))
    return f"{{tolerance={{atol={atol},rtol={rtol},ulps={value.ulps}}}}}"


_MODE, _TOLERANCE = enum("default", "highest", any_case=True), enum("atol", "rtol", "ulps")
ACCURACY = Codec("{mode=..} or {tolerance={..}}", _read_accuracy, _write_accuracy)
