"""Profiles as folded stacks: `outer;inner;name nanoseconds`, which tools for flame graphs read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlo.errors import HloError, did_you_mean
from hlo.profiler.records import ProfileData


def folded_stacks(profiles: Sequence[ProfileData], by: str) -> str:
    """Return the stacks of a program on some devices; `by` as of `Profile.folded_stacks`.

    Raises HloError for another order.
    """
    if by not in _PATHS:
        raise HloError.at(
            "bad-value", f"folded stacks: no order {by!r}; there are: {', '.join(_PATHS)}",
            hint=did_you_mean(by, _PATHS),
        )  # fmt: skip
    sums: dict[str, int] = {}
    for profile in profiles:
        for number, entry in enumerate(profile.entries):
            frames = [profile.module, *_PATHS[by](profile, number)]
            if len(profiles) > 1:
                frames.insert(0, f"device {profile.device}")
            stack = ";".join(map(_frame, frames))
            sums[stack] = sums.get(stack, 0) + round(entry.self_s * 1e9)
    return "".join(f"{stack} {time}\n" for stack, time in sums.items() if time)


def _by_computation(profile: ProfileData, number: int) -> list[str]:
    return [e.label for e in profile.path(number)]


def _by_op_name(profile: ProfileData, number: int) -> list[str]:
    entry = profile.entries[number]
    operation = entry.location.op_name
    # What the framework does not name stands beside its operations.
    return [*operation.split("/"), entry.label] if operation else [entry.label]


_PATHS: dict[str, Callable[[ProfileData, int], list[str]]] = {
    "computation": _by_computation, "op_name": _by_op_name,
}  # fmt: skip


def _frame(text: str) -> str:
    """Return a frame without what separates frames and lines."""
    return " ".join(text.replace(";", ",").split())
