"""Protos both ways beside XLA's: the examples of the op table, files, and random modules.

    python -m tests.sweeps.compare_protos [--count N] [FILE...]

What is written here and read by XLA has to print as XLA's reading of the text does, but for the
options of a compilation, which no proto has. What XLA writes has to print here as the text that XLA
prints of it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import hlo
from hlo.frontends.proto import from_proto, to_proto
from hlo.ops import OPS
from tests.generators.dynamic import generate_dynamic
from tests.generators.modules import generate
from tests.generators.nested import generate_nested
from tests.harness.oracle import XlaError, xla_from_proto, xla_parse, xla_to_proto

# What XLA keeps in the options of a compilation.
_OPTIONS = re.compile(
    r", (?:replica_count|num_partitions|alias_passthrough_params|"
    r"allow_spmd_sharding_propagation_to_(?:parameters|output))=(?:\{[^}]*\}|\w+)"
)
GENERATORS = {"flat": generate, "nested": generate_nested, "dynamic": generate_dynamic}
STYLES = ("default", "canonical")


def without_options(text: str) -> str:
    """Return printed text without what no proto has."""
    head, line, rest = text.partition("\n")
    return _OPTIONS.sub("", head) + line + rest


def differences(text: str) -> Iterator[str]:
    """Yield what differs between the protos of a module and its text. Raises XlaError."""
    module = hlo.parse(text)
    # Elided constants are filled in the order of reading.
    for inst in module.instructions():
        if inst.opcode == "constant" and inst.attrs["literal"].elided:
            inst.attrs["literal"] = hlo.Literal.of(inst.attrs["literal"].value)
    # XLA gives an instruction that is a whole module layouts of its own.
    text, ours = str(module), to_proto(module)
    theirs = xla_to_proto(text)
    xla_from_proto(theirs)  # not of all that it writes
    again = str(from_proto(ours))
    for style in STYLES:
        want = without_options(xla_parse(text, style))
        try:
            yield from _lines(f"ours, read by XLA ({style})", xla_from_proto(ours, style), want)
        except XlaError as e:
            yield f"ours is not read by XLA: {str(e)[:500]}"
    if again != without_options(str(hlo.parse(str(from_proto(ours))))):
        yield "ours, read here, prints another text than itself"
    read = from_proto(theirs)
    back = to_proto(read)
    for style in STYLES:
        what = f"XLA's, read here and written again ({style})"
        pair = xla_from_proto(back, style), xla_from_proto(theirs, style)
        yield from _lines(what, *map(_sorted, pair))
    if any(i.opcode == "async-start" for i in read.instructions()):
        return  # the short form that XLA prints has no names for what they run
    want = hlo.parse(xla_from_proto(theirs, "default"))
    yield from _lines("XLA's, read here", _sorted(str(read)), _sorted(str(want)))


def _sorted(text: str) -> str:
    """Return the text of a module with its computations by name.

    XLA prints them in an order that depends on one of instructions which it does not print.
    """
    return "\n\n".join(sorted(text.rstrip().split("\n\n")))


def _lines(what: str, got: str, want: str) -> Iterator[str]:
    if got == want:
        return
    pairs = zip(got.splitlines(), want.splitlines(), strict=False)
    for g, w in pairs:
        if g != w:
            yield f"{what}:\n    {g[:1500]}\n  is, in XLA's text,\n    {w[:1500]}"
            return
    yield f"{what}: {len(got.splitlines())} lines, not {len(want.splitlines())}"


def modules(files: list[Path], count: int) -> Iterator[tuple[str, str]]:
    """Yield names and texts."""
    for opcode, spec in sorted(OPS.items()):
        for number, example in enumerate(spec.examples):
            yield f"{opcode} {number}", example
    for file in files:
        yield file.name, file.read_text()
    for kind, generator in GENERATORS.items():
        for seed in range(count):
            yield f"{kind} {seed}", str(generator(seed))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="random modules of each kind")
    parser.add_argument("files", nargs="*", type=Path)
    args = parser.parse_args()
    same = skipped = 0
    different: list[str] = []
    for name, text in modules(args.files, args.count):
        try:
            found = list(differences(text))
        except XlaError as e:
            skipped += 1
            print(f"{name}: skipped, XLA does not read the text: {str(e)[:120]}")
            continue
        except hlo.HloError as e:
            found = [str(e)]
        if found:
            different.append(name)
            print(f"{name}:\n  " + "\n  ".join(found))
        same += not found
    print(f"{same} the same, {len(different)} differ, {skipped} skipped")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
