"""What an XLA takes beside what this project takes: every difference needs its line in a table.

    python -m tests.sweeps.drift [--python PYTHON] [--record]

PYTHON is one that has the jaxlib that is asked; without it, the one that runs this. Prints the
differences that `docs/compatibility.txt` does not explain, and exits with 1 if there are any. With
--record, the answers go to `docs/compatibility/VERSION.json`, of which `make compatibility` writes
the page. `tests/harness/xla_facts.py` says how it is asked.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from hlo.errors import HloError
from hlo.frontends.stablehlo import to_stablehlo
from hlo.frontends.stablehlo.ops import HANDLERS, NOT_TAKEN, STRUCTURE
from hlo.frontends.text import parse
from hlo.frontends.text.annotations import ANNOTATIONS, CONTROL_PREDECESSORS, OpMetadata
from hlo.frontends.text.attributes import Schema
from hlo.frontends.text.build import COMPUTATION_ATTRS
from hlo.frontends.text.header import MODULE_ATTRS
from hlo.lenient import verify_as
from hlo.ops import OPS
from hlo.values.types import ELEMENT_TYPES, TYPE_NAMES
from tests.harness.paths import DOCS, ROOT, TESTS

RECORDS = DOCS / "compatibility"
STABLEHLO = ROOT / "hlo" / "frontends" / "stablehlo"
DIALECTS = ("stablehlo", "chlo", "mhlo", "sdy")
# Asked of the parsers: it is no attribute of anything.
_DRIFT = "drift=1"
# What has attributes besides operations.
_PARTS = ("module", "computation", "metadata")


def _entry(line: str, head: str = "HloModule m\n") -> str:
    lines = ("p = f32[2,3] parameter(0)", "i = s32[] parameter(1)", line)
    return head + "ENTRY e {\n" + "".join(f"  {x}\n" for x in lines) + "}\n"


_ADD = """HloModule m
a {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
"""
_NEGATE = "HloModule m\nf {\n  x = f32[2,3] parameter(0)\n  ROOT y = f32[2,3] negate(x)\n}\n"
_DOT = "ROOT r = f32[2,2] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
_STATE = "ROOT r = (u64[2], u32[4]) rng-bit-generator(u64[2] constant({1, 2})), "
_CUSTOM = 'ROOT r = f32[2,3] custom-call(p), custom_call_target="t", '
# Where the text has a word out of several, `@` in its place.
WORDS = {
    "direction of compare": _entry("ROOT r = pred[2,3] compare(p, p), direction=@"),
    "type of compare": _entry("ROOT r = pred[2,3] compare(p, p), direction=EQ, type=@"),
    "order of compare": _entry("ROOT r = pred[2,3] compare(p, p), direction=EQ, order=@"),
    "operand_precision": _entry(_DOT + "operand_precision={@,default}"),
    "algorithm of dot": _entry(_DOT + "algorithm=@"),
    "kind of fusion": _entry("ROOT r = f32[2,3] fusion(p), kind=@, calls=f", _NEGATE),
    "mode of all-reduce": _entry(
        "ROOT r = f32[2,3] all-reduce(p), replica_groups={}, to_apply=a, mode=@", _ADD
    ),
    "mode of shuffle": _entry("ROOT r = f32[2,3] shuffle(p), dimensions={0}, shifts={1}, mode=@"),
    "distribution of rng": _entry("ROOT r = f32[2] rng(p, p), distribution=@"),
    "algorithm of rng-bit-generator": _entry(_STATE + "algorithm=@"),
    "fft_type": _entry("ROOT r = c64[2,3] fft(c64[2,3] convert(p)), fft_type=@, fft_length={3}"),
    "transpose_a": _entry(
        "ROOT r = f32[2,2] triangular-solve(f32[2,2] iota(), f32[2,2] iota()), left_side=true, "
        "lower=true, unit_diagonal=false, transpose_a=@"
    ).replace("iota()", "iota(), iota_dimension=0"),
    "mode of result_accuracy": _entry("ROOT r = f32[2,3] exponential(p), result_accuracy={mode=@}"),
    "tolerance of result_accuracy": _entry(
        "ROOT r = f32[2,3] exponential(p), result_accuracy={tolerance={@=1}}"
    ),
    "schedule of custom-call": _entry(_CUSTOM + "schedule=@"),
    "api_version of custom-call": _entry(_CUSTOM + "api_version=@"),
    "padding_type of custom-call": _entry(_CUSTOM + "padding_type=@"),
    "window": _entry(
        "ROOT r = f32[2,3] reduce-window(p, f32[] constant(0)), to_apply=a, "
        "window={size=1x1 @=1x1}",
        _ADD,
    ),
    "sharding": _entry("ROOT r = f32[2,3] negate(p), sharding={@}"),
    "sharding of subgroups": _entry(
        "ROOT r = f32[2,3] negate(p), sharding={devices=[1,1,1]<=[1] last_tile_dims={@}}"
    ),
    "axes of a sharding by name": _entry(
        "ROOT r = f32[2,3] negate(p), sharding={mesh['x'=1], [{}, {}], @={'x'}}"
    ),
    "kind of an alias": _entry(
        "ROOT r = f32[2,3] negate(p)",
        "HloModule m, input_output_alias={ {}: (0, {}, @-alias) }\n",
    ),
    "letters of a layout": _entry("ROOT r = f32[2,3]{1,0:@(1)} negate(p)"),
}


def forms() -> dict[str, str]:
    """Return the texts of harness/xla_forms.txt by name. One of T is there for each type."""
    parts = re.split(r"^-- (.+)\n", (TESTS / "harness/xla_forms.txt").read_text(), flags=re.M)
    found = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        for t in ELEMENT_TYPES if name.endswith(" T") else ["T"]:
            found[re.sub(r"T$", t, name)] = re.sub(r"\bT(?=\[)", t, text)
    return found


@cache
def examples() -> dict[str, str]:
    """Return the examples of the op table as they are printed, by name."""
    return {
        f"print of {name} {i}": str(parse(text))
        for name, spec in OPS.items() for i, text in enumerate(spec.examples)
    }  # fmt: skip


@cache
def stablehlo_examples() -> dict[str, str]:
    """Return the StableHLO that is written of the examples that StableHLO can say."""
    found = {}
    for name, text in examples().items():
        with suppress(HloError):
            found[name] = to_stablehlo(parse(text))
    return found


# --- the questions ------------------------------------------------------------------------------


def questions(*, words: bool = True) -> dict[str, Any]:
    """Return what is asked, for `xla_facts.py`. Words take minutes, all else seconds."""
    return {
        "known": sorted({*OPS, *TYPE_NAMES, *_enumerated()}),
        "attributes": {name: _with_attribute(name) for name in (*OPS, *_PARTS)},
        "words": WORDS if words else {},
        "texts": dict(sorted((forms() | examples()).items())),
        "mlir": dict(sorted(stablehlo_examples().items())),
    }


def _enumerated() -> set[str]:
    """Return the words that the codecs of the op table name, as they are and in lower case."""
    attrs = (attr for spec in OPS.values() for attr in spec.attrs.values())
    words = {w for attr in attrs for w in attr.codec.words}
    return words | {w.lower() for w in words}


def _with_attribute(name: str, attribute: str = _DRIFT) -> str:
    """Return a text where an operation, the module or a computation has one attribute more."""
    if name == "module":
        return _entry("ROOT r = f32[2,3] negate(p)", f"HloModule m, {attribute}\n")
    if name == "computation":
        return _entry("ROOT r = f32[2,3] negate(p)").rstrip() + f", {attribute}\n"
    if name == "metadata":
        return _entry(f"ROOT r = f32[2,3] negate(p), metadata={{{attribute}}}")
    example = OPS[name].examples[0]
    text, count = re.subn(
        rf"^(.*[ )\]}}]{name}\(.*)$", rf"\1, {attribute}", example, count=1, flags=re.M
    )
    assert count, f"no example of {name}"
    return text


def ask(python: str = sys.executable, *, words: bool = True) -> dict[str, Any]:
    """Return the facts of the jaxlib of a Python; `words` as for `questions`."""
    done = subprocess.run(
        [python, str(TESTS / "harness/xla_facts.py")],
        input=json.dumps(questions(words=words)), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{python} cannot say what its jaxlib takes:\n{done.stderr[-2000:]}")
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


# --- the differences ----------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Difference:
    """What one side takes and the other does not: `here` or `XLA` does."""

    kind: str
    name: str
    taken_by: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: only {self.taken_by} accepts it"


@cache
def _errors(text: str) -> frozenset[str]:
    """Return the codes of the errors that the parser has of a text."""
    try:
        parse(text)
    except HloError as e:
        return frozenset(d.code for d in e.diagnostics)
    return frozenset()


@cache
def verdict(text: str) -> str:
    """Return how a text is taken here: `yes`, `lenient` (by a lenient verifier alone), or `no`."""
    for answer, mode in (("yes", "strict"), ("lenient", "lenient")):
        try:
            verify_as(parse(text), mode)
        except HloError:
            continue
        return answer
    return "no"


def differences(facts: Mapping[str, Any]) -> list[Difference]:
    """Return where what XLA takes is not what is taken here."""
    found: set[Difference] = set()

    def add(kind: str, theirs: Iterable[str], ours: Iterable[str]) -> None:
        theirs, ours = set(theirs), set(ours)
        found.update(Difference(kind, name, "XLA") for name in theirs - ours)
        found.update(Difference(kind, name, "here") for name in ours - theirs)

    names = {*facts["opcodes"], *OPS}
    text = "HloModule m\nENTRY e {{ ROOT r = ((f32[]), f32[], s32[]) {}() }}"
    add("opcode", facts["opcodes"],
        (n for n in names if "unknown-opcode" not in _errors(text.format(n))))  # fmt: skip
    names = {*facts["types"], *TYPE_NAMES}
    text = "HloModule m\nENTRY e {{ ROOT r = {}[] parameter(0) }}"
    add("type", facts["types"], (n for n in names if not _errors(text.format(n))))
    for name, theirs in facts["attributes"].items():
        if name in OPS or name in _PARTS:
            add("attribute", (f"{a} of {name}" for a in theirs), _attributes_here(name, theirs))
    for place, theirs in facts["words"].items():
        ours = (w for w in {*theirs, *_enumerated()} if not _errors(WORDS[place].replace("@", w)))
        add(f"word for {place}:", theirs, ours)
    texts = forms() | examples()
    add("text:", facts["texts"], (n for n, text in texts.items() if verdict(text) != "no"))
    add("StableHLO of", facts["mlir"], stablehlo_examples())
    ours = {n for n in {*HANDLERS, *STRUCTURE} if n.partition(".")[0] in DIALECTS}
    add("operation", facts["operations"], ours)
    names = set(re.findall(r'"(\w+)"', "".join(p.read_text() for p in STABLEHLO.glob("*.py"))))
    add("StableHLO's attribute", facts["operation_attributes"],
        names & set(facts["operation_attributes"]))  # fmt: skip
    return sorted(found)


def _attributes_here(name: str, theirs: Iterable[str]) -> Iterator[str]:
    """Yield the attributes that are taken here, of those that XLA has and that the tables have."""
    for attribute in {*theirs, *_listed_attributes(name)}:
        if "unknown-attribute" not in _errors(_with_attribute(name, f"{attribute}=1")):
            yield f"{attribute} of {name}"


def _listed_attributes(name: str) -> set[str]:
    if name == "module":
        return set(MODULE_ATTRS)
    if name == "computation":
        return set(COMPUTATION_ATTRS)
    if name == "metadata":
        return set(OpMetadata.FIELDS)
    return {*Schema.of(OPS[name]).attrs, *ANNOTATIONS, CONTROL_PREDECESSORS}


# --- the reasons --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reason:
    """Why differences are as they are: those whose text `pattern` matches, from its start on."""

    pattern: str
    text: str

    def explains(self, difference: Difference) -> bool:
        text = f"{difference.taken_by}: {difference.kind} {difference.name}"
        return re.fullmatch(self.pattern, text) is not None


def reasons() -> list[Reason]:
    """Return what docs/compatibility.txt explains, and what the table of StableHLO does."""
    found = [Reason(rf"XLA: operation {re.escape(n)}", why) for n, why in NOT_TAKEN.items()]
    for line in (DOCS / "compatibility.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, _, text = line.partition("; ")
            found.append(Reason(pattern, text))
    return found


def records() -> list[dict[str, Any]]:
    """Return the facts that are on file, oldest version first."""
    facts = [json.loads(path.read_text()) for path in RECORDS.glob("*.json")]
    return sorted(facts, key=lambda f: [int(n) for n in f["version"].split(".")])


def explained(facts: Mapping[str, Any]) -> dict[Difference, str]:
    """Return the differences with their reasons, which are empty where there is none.

    What another version that is on file takes as well is explained by that.
    """
    others = {f["version"]: set(differences(f)) for f in records()}
    others.pop(facts["version"], None)
    known = reasons()
    found = {}
    for difference in differences(facts):
        why = next((r.text for r in known if r.explains(difference)), "")
        have = [version for version, theirs in others.items() if difference not in theirs]
        if not why and have and difference.taken_by == "here":
            why = f"jaxlib {have[-1]} accepts it"
        found[difference] = why
    return found


def record(facts: Mapping[str, Any]) -> None:
    """Put facts on file, a line for each list."""
    text = json.dumps(facts, indent=1)
    text = re.sub(r"\[\s+([^\[\]]*?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)
    RECORDS.mkdir(exist_ok=True)
    (RECORDS / f"{facts['version']}.json").write_text(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    facts = ask(args.python)
    if args.record:
        record(facts)
    found = explained(facts)
    missing = [difference for difference, why in found.items() if not why]
    for difference in missing:
        print(difference)
    print(f"jaxlib {facts['version']}: {len(found)} differences, {len(missing)} not explained")
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
