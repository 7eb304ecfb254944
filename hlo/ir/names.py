"""Names as HLO text can write them."""

from __future__ import annotations

import re

from hlo.types import TYPE_NAMES


def legal_name(name: str, prefix: str = "_") -> str:
    """Return a name of letters, digits, `_`, `.` and `-` that is no type's.

    prefix: what goes before one that begins with anything but a letter or `_`.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    if name in TYPE_NAMES:
        name += "_"  # as XLA does to the names in protos
    return name if re.match(r"[A-Za-z_]", name) else prefix + name
