"""Versions of StableHLO that portable artifacts are written for.

Source: the version log of VHLO.
"""

from __future__ import annotations

import re

from hlo.errors import HloError, InferError

Version = tuple[int, int, int]

# From 1.0.0 on, StableHLO promises that five years of later versions read an artifact.
OLDEST: Version = (1, 0, 0)
NEWEST: Version = (1, 20, 0)
_FORM = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})", re.A)


def shown(version: Version) -> str:
    """Return a version as text: `1.9.0`."""
    return ".".join(map(str, version))


def version_of(text: str) -> Version:
    """Return the version of a text such as `1.9.0`. Raises HloError for one that is not known."""
    m = _FORM.fullmatch(text)
    found = tuple(map(int, m.groups())) if m else ()
    # All that counts for what artifacts have is the minor version.
    if len(found) == 3 and OLDEST <= found and found[:2] <= NEWEST[:2]:
        return found
    raise HloError.at(
        "bad-version", f"StableHLO version {text!r} is not known",
        hint=f"portable artifacts are written for the versions {shown(OLDEST)} to {shown(NEWEST)}",
    )  # fmt: skip


class TooOldError(InferError):
    """What is to be written needs a newer version of StableHLO. needed: the oldest that has it."""

    def __init__(self, needed: Version, target: Version, what: str) -> None:
        super().__init__(
            f"{what} needs StableHLO {shown(needed)}, which is newer than {shown(target)}",
            code="no-counterpart", hint=f"write the artifact for version {shown(needed)} or later",
        )  # fmt: skip
        self.needed = needed
