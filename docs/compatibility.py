"""Prints docs/compatibility.md: what each version of XLA accepts, compared with this project.

    python -m docs.compatibility > docs/compatibility.md

What XLA accepts is in docs/compatibility/, written by `python -m tests.sweeps.drift --record`; the
reasons for differences are in docs/compatibility.txt.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.sweeps.drift import Difference, explained, forms, records, verdict

HERE = Path(__file__).resolve().parent

_HEAD = """# Compatibility

What the XLA in jaxlib accepts, and what this project accepts. `python -m tests.sweeps.drift` asks
the parsers of the installed jaxlib (`--python PYTHON` for another one) for opcodes, types,
attributes, keywords, forms of text and StableHLO operations, and fails for each difference that
`docs/compatibility.txt` does not explain. `make compatibility` writes this page, from that file and
from the answers of {versions}.

Where the verifier is deliberately stricter than XLA, its error says what XLA does, and
[`--verify=lenient`](lenient.md) accepts it.

`operand_precision={{packed_nibble,packed_nibble}}` (3 in protos) is gone from XLA, which rejects it
in text and protos. It is accepted here, since older dumps have it, and it is not a hint: a product
of s8 and u8 operands is the sum of the product of the low halves of their bytes and that of the
high halves. On one operand alone, or on other types, it has no effect.
"""
_CHANGES = """## Changes between versions

Names that not every version accepts. All of them are accepted here, unless the table of differences
says otherwise.
"""
_DIFFERENCES = """## Differences

| accepted by | what | jaxlib | reason |
|---|---|---|---|
"""
_FORMS = """## Forms of text

Each is a small module of `tests/harness/xla_forms.txt`, given to XLA's parser, which does not
verify."""


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _code(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def _flat(facts: dict[str, Any]) -> dict[str, set[str]]:
    """Return the names that a version accepts, by kind."""
    found = {
        "opcodes": set(facts["opcodes"]),
        "types": set(facts["types"]),
        "operations of StableHLO": set(facts["operations"]),
        "attributes of operations of StableHLO": set(facts["operation_attributes"]),
    }
    for owner, names in facts["attributes"].items():
        found[f"attributes of {owner}"] = set(names)
    for place, words in facts["words"].items():
        found[f"words for {place}"] = set(words)
    return found


def _changes(versions: list[dict[str, Any]]) -> str:
    tables = [_flat(facts) for facts in versions]
    rows = []
    for key in dict.fromkeys(key for table in tables for key in table):
        # If a version lacks the operation itself, its attributes are not listed as changes.
        have = [table[key] for table in tables if key in table]
        changing = set.union(*have) - set.intersection(*have)
        if changing:
            cells = [_code(sorted(changing & t[key])) if key in t else "" for t in tables]
            rows.append([key, *(cell or "-" for cell in cells)])
    return _table(["", *(facts["version"] for facts in versions)], rows)


def _differences(versions: list[dict[str, Any]]) -> str:
    """Return a row for each reason: the differences that it explains, and in which versions."""
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for facts in versions:
        for difference, why in explained(facts).items():
            said = rows.setdefault((difference.taken_by, why), {})
            said.setdefault(_what(difference), []).append(facts["version"])
    lines = []
    for (who, why), said in sorted(rows.items()):
        by_versions: dict[str, list[str]] = {}
        for what, have in said.items():
            by_versions.setdefault(", ".join(have), []).append(what)
        for have, names in by_versions.items():
            lines.append(f"| {who} | {', '.join(sorted(names))} | {have} | {why} |\n")
    return "".join(lines)


def _what(difference: Difference) -> str:
    return f"{difference.kind} {difference.name}"


def _forms(versions: list[dict[str, Any]]) -> str:
    rows = [
        [name, *("yes" if name in facts["texts"] else "no" for facts in versions), verdict(text)]
        for name, text in forms().items()
    ]
    return _table(["text", *(facts["version"] for facts in versions), "here"], rows)


def render() -> str:
    """Return the page."""
    versions = records()
    names = " and ".join(f"jaxlib {facts['version']}" for facts in versions)
    return "\n".join(
        [
            _HEAD.format(versions=names),
            _CHANGES,
            _changes(versions),
            _DIFFERENCES + _differences(versions),
            _FORMS,
            _forms(versions),
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(render())
