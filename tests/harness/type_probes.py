"""Which element types an operation takes: the programs of `type_probes.txt`, of any type.

module((probes()["abs"][0], c64, c64))    a module of `f32[2] abs(c64[2])`
"""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from hlo.errors import HloError
from hlo.frontends.builder import XlaBuilder
from hlo.frontends.text import parse
from hlo.ir import Module
from hlo.values.types import ELEMENT_TYPES, ElementType, complex_of, complex_part
from hlo.verifier import verify

TYPES = tuple(ELEMENT_TYPES.values())


@dataclass(frozen=True)
class Probe:
    """A program of one operation with letters for element types.

    name: an opcode, or a method of the builder. operand: which one has type T, where an operation
    takes different types in different places.
    """

    name: str
    operand: str
    text: str

    @property
    def is_call(self) -> bool:
        return self.text.startswith(".")

    @property
    def second_types(self) -> tuple[ElementType, ...]:
        """What U may stand for; any one type if the program has no U."""
        return TYPES if re.search(r"\bU\[", self.text) else TYPES[:1]

    def __str__(self) -> str:
        return f"{self.name}, {self.operand}" if self.operand else self.name


# A probe, T and U.
Case = tuple[Probe, ElementType, ElementType]


@functools.cache
def _read() -> tuple[dict[str, str], dict[str, list[Probe]]]:
    """Return the computations by name, and the probes by opcode or method."""
    bodies: dict[str, str] = {}
    found: dict[str, list[Probe]] = {}
    section = ""
    text = (Path(__file__).parent / "type_probes.txt").read_text()
    for entry in re.split(r"\n(?!  )", text):
        if entry.startswith("["):
            section = entry
        elif not entry or entry.startswith("#"):
            continue
        elif section == "[computations]":
            name, _, body = entry.partition(" ")
            bodies[name] = body
        else:
            head, _, program = entry.partition(": ")
            names, _, operand = head.partition(", ")
            for name in names.split():
                probe = Probe(name, operand, program.replace("$", name).replace("\n  ", "\n"))
                found.setdefault(name, []).append(probe)
    return bodies, found


def probes() -> dict[str, list[Probe]]:
    """Return the probes by opcode, and by method where that takes other types than its opcode."""
    return _read()[1]


@functools.cache
def accepted(probe: Probe) -> dict[tuple[ElementType, ElementType], Module]:
    """Return the valid programs of a probe by T and U."""
    found = {}
    for t, u in itertools.product(TYPES, probe.second_types):
        try:
            found[t, u] = module((probe, t, u))
        except HloError:
            continue
    return found


# --- programs -----------------------------------------------------------------------------------

_LETTER = re.compile(r"\b([TURCN])(?=\[)")
_INSTRUCTION = re.compile(r"(?:(%\w+) = )?(.+?) ([\w-]+)\((.*?)\)((?:, .*)?)$")
_OPERAND = re.compile(r"(%\w+)|\w+\[[^]]*\]")


def module(*cases: Case) -> Module:
    """Return the verified module of one case, or of several texts with a tuple of their results.

    Raises HloError where a type is not allowed.
    """
    (probe, t, u), *others = cases
    if probe.is_call and not others:
        return _built(_typed(probe.text, t, u))
    made = parse(module_text(*cases))
    verify(made)
    return made


def _built(call: str) -> Module:
    """Return the module of `.method(shape, ...)`, a call of the builder."""
    name, _, arguments = call[1:].rstrip(")").partition("(")
    b = XlaBuilder("probe")
    values = [
        a[1:] if a.startswith("=") else b.parameter(n, a)
        for n, a in enumerate(arguments.split(", "))
    ]
    getattr(b, name)(*values)
    return b.build().module()


def module_text(*cases: Case) -> str:
    """Return the text of the module of some cases, which may be invalid."""
    computations: list[str] = []
    lines: list[str] = []
    parameters = itertools.count()
    for number, (probe, t, u) in enumerate(cases):
        for line in _typed(probe.text, t, u).split("\n"):
            match = _INSTRUCTION.match(line)
            assert match, line
            name, shape, opcode, operands, rest = match.groups()
            if opcode == "parameter":
                operands = str(next(parameters))
            elif opcode != "constant":
                names = []
                for operand in _OPERAND.finditer(operands):
                    if operand[1]:
                        names.append(f"{operand[1]}_{number}")
                    else:
                        names.append(f"%p{(at := next(parameters))}")
                        lines.append(f"{names[-1]} = {operand[0]} parameter({at})")
                operands = ", ".join(names)
            for body in sorted(set(re.findall(r"@(\w+)", rest))):
                computations.append(f"{body}_{number} {_typed(_read()[0][body], t, u)}\n")
            rest = re.sub(r"@(\w+)", rf"\1_{number}", rest).replace("#", str(number + 1))
            lines.append(f"{name or '%result'}_{number} = {shape} {opcode}({operands}){rest}")
    if len(cases) == 1:
        lines[-1] = "ROOT " + lines[-1]
    else:
        lines.append(
            f"ROOT %results = tuple({', '.join(map('%result_{}'.format, range(number + 1)))})"
        )
    text = "".join(f"  {line}\n" for line in lines)
    return f"HloModule probe\n\n{''.join(computations)}ENTRY main {{\n{text}}}\n"


def _typed(text: str, t: ElementType, u: ElementType) -> str:
    """Put types in place of the letters."""
    ratio = max(t.bits, u.bits) // min(t.bits, u.bits)
    narrow = f"[2,{ratio}]" if ratio > 1 else "[2]"
    text = text.replace("[A]", narrow if t.bits < u.bits else "[2]")
    text = text.replace("[B]", narrow if t.bits > u.bits else "[2]")
    types = {
        "T": t, "U": u, "R": complex_part(t), "C": complex_of(t) if t.name in ("f32", "f64") else t,
        "N": ELEMENT_TYPES.get(f"u{t.bits}", t),
    }  # fmt: skip
    return _LETTER.sub(lambda m: types[m[1]].name, text)
