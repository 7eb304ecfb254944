"""Prints docs/compatibility.md: what XLA takes, version by version, beside what is taken here.

    python docs/compatibility.py > docs/compatibility.md

What XLA takes is in docs/compatibility/, where `python tests/drift.py --record` puts it; why the
two differ, in docs/compatibility.txt.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from drift import Difference, explained, forms, records, verdict  # noqa: E402

_HEAD = """# Compatibility

What the XLA in jaxlib takes, and what is taken here. `python tests/drift.py` asks the parsers of
the jaxlib that is installed (`--python PYTHON` of another one) for opcodes, types, attributes,
words, forms of text and operations of StableHLO, and fails for each difference that
`docs/compatibility.txt` does not explain. `make compatibility` writes this page, from that file and
from what {versions} answered.

Where the verifier is stricter than XLA on purpose, its error says what XLA does, and
`--verify=lenient` (`verify="lenient"` in Python) takes it. That is so for a channel below 1, but
not on an all-reduce, where XLA's verifier refuses it; and for an id below 0 in the replica groups
of collective-broadcast and collective-reduce, which is no device's: a run in which one would meet
it ends in an error. On other collectives XLA refuses such ids.
"""
_CHANGES = """## What came and went

Names that not every version takes. All of them are taken here, if the table of differences does
not say otherwise.
"""
_DIFFERENCES = """## Differences

| who takes it | what | jaxlib | why |
|---|---|---|---|
"""
_FORMS = """## Forms of text

Each is a small module of `tests/xla_forms.txt`, asked of XLA's parser, which does not verify.
"""


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _code(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def _flat(facts: dict[str, Any]) -> dict[str, set[str]]:
    """Return the names that a version takes by what they are names of."""
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
        # What has attributes is new itself where a version does not have it.
        have = [table[key] for table in tables if key in table]
        changing = set.union(*have) - set.intersection(*have)
        if changing:
            cells = [_code(sorted(changing & t[key])) if key in t else "" for t in tables]
            rows.append([key, *(cell or "-" for cell in cells)])
    return _table(["", *(facts["version"] for facts in versions)], rows)


def _differences(versions: list[dict[str, Any]]) -> str:
    """Return a row for each reason: what it is the reason of, and in which versions."""
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
