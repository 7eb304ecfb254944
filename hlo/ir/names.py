"""Names that HLO text can express."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hlo.ir.computation import Computation
from hlo.ir.instruction import Instruction
from hlo.values.types import TYPE_NAMES

_NUMBER = re.compile(r"-?[0-9]{1,18}")


def legal_name(name: str, prefix: str = "_") -> str:
    """Return a name of letters, digits, `_`, `.` and `-` that is not a type.

    prefix: put before a name that does not begin with a letter or `_`.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    if name in TYPE_NAMES:
        name += "_"  # as XLA does to the names in protos
    return name if re.match(r"[A-Za-z_]", name) else prefix + name


def unique_names(computations: Iterable[Computation]) -> dict[Instruction, str]:
    """Return a name for each instruction that is unique in the module.

    XLA requires that, unlike HLO text, and renames instructions of a text in this way. Source:
    `NameUniquer::GetUniqueName`.
    """
    used: dict[str, set[int]] = {}
    # All numbers below this one are taken.
    least: dict[str, int] = {}
    names: dict[Instruction, str] = {}
    for comp in computations:
        for inst in comp.in_order():
            base, _, digits = inst.name.rpartition(".")
            is_numbered = bool(base) and _NUMBER.fullmatch(digits) is not None
            number = int(digits) if is_numbered else 0
            base = base if is_numbered else inst.name
            taken = used.setdefault(base, set())
            if number in taken:
                number = least.get(base, 0)
                while number in taken:
                    number += 1
                least[base] = number + 1
            taken.add(number)
            names[inst] = f"{base}.{number}" if number or is_numbered else base
    return names
