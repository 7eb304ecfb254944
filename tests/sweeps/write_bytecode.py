"""Modules written here as portable artifacts are read by jaxlib, and are the module of the text.

    python -m tests.sweeps.write_bytecode [--count N] [--first N]

Modules are the examples of operations, those in `examples` and in the tests, and generated ones;
each is written for several versions of StableHLO. A version that cannot have a module is refused by
both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import hlo
from hlo.errors import HloError
from hlo.ops import OPS
from tests.generators.modules import generate
from tests.generators.nested import generate_nested
from tests.harness.bytecode import deserialized, newest, serializes
from tests.harness.paths import ROOT, TESTS
from tests.sweeps.compare_bytecode import read

VERSIONS = ("1.0.0", "1.5.0", "1.9.0", "1.13.0")
# The beginning of errors about what no version has.
_LACKS = "a portable artifact has"


def modules(count: int, first: int) -> Iterator[tuple[str, hlo.Module]]:
    """Yield modules with names, `count` generated ones of each kind among them."""
    for opcode, spec in sorted(OPS.items()):
        for number, example in enumerate(spec.examples):
            yield f"{opcode} {number}", hlo.parse(example)
    for path in sorted([*(ROOT / "examples").glob("**/*.hlo"), *TESTS.glob("**/*.hlo")]):
        try:
            module = hlo.load(path)
            hlo.verify(module)
        except HloError:
            continue  # tests of errors
        yield str(path.relative_to(ROOT)), module
    for seed in range(first, first + count):
        yield f"seed {seed}", generate(seed)
        yield f"nested {seed}", generate_nested(seed)


def check(module: hlo.Module, version: str | None, text: str) -> str:
    """Return what is wrong with the artifact of a module for a version, or nothing.

    text: the module as StableHLO.
    """
    want = str(hlo.from_stablehlo(text))
    try:
        data = hlo.to_portable_artifact(module, version)
    except HloError as e:
        lacks = _LACKS in e.diagnostics[0].message
        taken = version is not None and not lacks and serializes(text, version)
        return f"refused, and jaxlib writes it: {e}" if taken else ""
    if str(hlo.from_stablehlo(data)) != want:
        return "another module than the text"
    if version is not None and not serializes(text, version):
        return "written, and jaxlib refuses to write it"
    try:
        found = deserialized(data)
    except ValueError as e:
        return "" if version is None else f"jaxlib does not read it: {e}"
    # MLIR leaves out a configuration without attributes.
    same = read(found) == read(text.replace(", backend_config = {}", ""))
    return "" if same else "jaxlib reads another module"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="generated modules of each kind")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    options = parser.parse_args()
    written = failed = 0
    for name, module in modules(options.count, options.first):
        try:
            text = hlo.to_stablehlo(module)
        except HloError:
            continue  # an instruction without a counterpart in StableHLO
        for version in (None, *VERSIONS, newest()):
            written += 1
            problem = check(module, version, text)
            if problem:
                failed += 1
                print(f"{name}, version {version}: {problem}")
    print(f"{written} artifacts: {failed} are wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
