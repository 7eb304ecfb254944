"""Portable artifacts of StableHLO read here beside the text of the same module: they are equal.

    python -m tests.sweeps.compare_bytecode [--count N] [--first N]

Modules are those of `tests/stablehlo`, JAX's functions, and generated ones; each is written by
jaxlib at several versions.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator

import jax

import hlo
from hlo.errors import HloError
from hlo.ops import OPS
from tests.generators.modules import generate
from tests.generators.nested import generate_nested
from tests.harness.bytecode import artifact, deserialized
from tests.harness.jax_programs import PROGRAMS
from tests.sweeps.fuzz_stablehlo import corpus


def texts(count: int, first: int) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of modules, `count` generated ones among them."""
    for number, text in enumerate(corpus()):
        yield f"case {number}", text
    for name, (function, argument) in PROGRAMS.items():
        lowered = jax.jit(function, keep_unused=True).lower(argument)
        yield name, lowered.as_text(debug_info=True)
    for opcode, spec in sorted(OPS.items()):
        for number, example in enumerate(spec.examples):
            yield from _written(f"{opcode} {number}", hlo.parse(example))
    for seed in range(first, first + count):
        yield from _written(f"seed {seed}", generate(seed))
        yield from _written(f"nested {seed}", generate_nested(seed))


def _written(name: str, module: hlo.Module) -> Iterator[tuple[str, str]]:
    try:
        yield name, hlo.to_stablehlo(module)
    except HloError:
        return  # an instruction without a counterpart in StableHLO


def read(form: str | bytes) -> str:
    """Return the module in one form as text, or "error".

    Arguments are numbered anew in each computation: MLIR's generic form numbers some throughout.
    """
    try:
        text = str(hlo.from_stablehlo(form, "m"))
    except HloError:
        return "error"
    return "\n\n".join(map(_numbered, text.split("\n\n")))


def _numbered(computation: str) -> str:
    numbers: dict[str, str] = {}
    return re.sub(
        r"\barg\d+\b", lambda m: numbers.setdefault(m[0], f"arg{len(numbers)}"), computation
    )


def check(text: str) -> tuple[int, str]:
    """Return how many artifacts of a text were compared, and what is wrong with one, or nothing."""
    made = artifact(text)
    if made is None:
        return 0, ""
    want = read(made.text)
    for version, data in made.bytecode.items():
        if "sdy." in made.text:
            # jaxlib rewrites these before it writes them.
            want = read(deserialized(data))
        if read(data) != want:
            return len(made.bytecode), f"at version {version} another module than the text"
    return len(made.bytecode), ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="generated modules")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    options = parser.parse_args()
    modules = compared = failed = 0
    for name, text in texts(options.count, options.first):
        count, problem = check(text)
        modules += count > 0
        compared += count
        if problem:
            failed += 1
            print(f"{name}: {problem}")
    print(f"{compared} artifacts of {modules} modules: {failed} modules differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
