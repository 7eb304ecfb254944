"""Which instructions, and which iterations of loops, are traced."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from hlo.errors import HloError, did_you_mean
from hlo.ir import Instruction

_KINDS = ("name", "opcode", "computation", "op_name", "iteration")
_RANGE = re.compile(r"(\d+)?(?:(:)(\d+)?)?")
# What names values, or orders instructions, and computes nothing.
_SILENT = frozenset(
    ("tuple", "get-tuple-element", "constant", "after-all", "add-dependency", "opt-barrier")
)


@dataclass(frozen=True)
class Selection:
    """What is traced: what matches one pattern of each kind that has any.

    names, opcodes, computations, op_names: patterns, with * and ?, of the instruction's name, its
    opcode, the computation that it is in, and the framework's name for it. iterations: ranges of
    iterations, [begin, end), of the innermost loop that an instruction is in; None has no end.
    """

    names: tuple[str, ...] = ()
    opcodes: tuple[str, ...] = ()
    computations: tuple[str, ...] = ()
    op_names: tuple[str, ...] = ()
    iterations: tuple[tuple[int, int | None], ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """Return the selection of texts such as `dot*`, `opcode=exp*` or `iteration=3:5`.

        A text without kind is a pattern of names. Raises HloError (`bad-selection`).
        """
        found: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        for text in texts:
            kind, equals, pattern = text.partition("=")
            if not equals:
                kind, pattern = "name", text
            if kind not in found:
                raise HloError.at(
                    "bad-selection", f"{text!r}: there is no kind {kind!r} of selection: "
                    f"{', '.join(_KINDS)}", hint=did_you_mean(kind, _KINDS),
                )  # fmt: skip
            found[kind] += [p.strip().removeprefix("%") for p in pattern.split(",")]
        names, opcodes, computations, op_names, iterations = (tuple(found[k]) for k in _KINDS)
        return cls(
            names, opcodes, computations, op_names, tuple(_iterations(text) for text in iterations)
        )

    @property
    def selects_instructions(self) -> bool:
        """True if only some instructions are traced."""
        return bool(self.names or self.opcodes or self.computations or self.op_names)

    def takes(self, inst: Instruction) -> bool:
        """True for an instruction that is traced."""
        metadata = inst.annotations.get("metadata")
        asked = (
            (self.names, inst.name),
            (self.opcodes, inst.opcode),
            (self.computations, inst.parent.name if inst.parent is not None else ""),
            (self.op_names, metadata.op_name if metadata is not None else ""),
        )
        if _is_silent(inst) and not (self.names or self.opcodes):
            return False
        return all(not patterns or _matches(patterns, text) for patterns, text in asked)

    def takes_iteration(self, iteration: int | None) -> bool:
        """True for an iteration that is traced, and for what is in no loop."""
        if iteration is None or not self.iterations:
            return True
        return any(
            begin <= iteration and (end is None or iteration < end)
            for begin, end in self.iterations
        )


def _is_silent(inst: Instruction) -> bool:
    """True for what is traced only if it is asked for: its value is there under another name."""
    if inst.opcode == "parameter":
        comp = inst.parent
        return comp is not None and comp.module is not None and comp is not comp.module.entry
    return inst.opcode in _SILENT


def _matches(patterns: Sequence[str], text: str) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)


def _iterations(text: str) -> tuple[int, int | None]:
    m = _RANGE.fullmatch(text)
    if m is None or not text:
        raise HloError.at(
            "bad-selection", f"iteration={text}: a number, or a range such as 3:5, 3: or :5"
        )
    begin = int(m[1] or 0)
    if not m[2]:
        return begin, begin + 1
    return begin, int(m[3]) if m[3] else None


EVERYTHING = Selection()
