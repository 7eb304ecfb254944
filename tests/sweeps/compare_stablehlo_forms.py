"""Forms of StableHLO operations, right and wrong ones, read here and by MLIR's own parser.

    python -m tests.sweeps.compare_stablehlo_forms [--every N] [--corpus DIR]...

Both have to read a text, or both to refuse it. Files of a corpus are split at `// -----`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import hlo
from hlo.errors import HloError
from tests.generators.stablehlo_forms import forms
from tests.generators.stablehlo_modules import modules
from tests.harness.mlir_parser import refusals

# MLIR's verifiers do not check the sizes of these operations; here, wrong ones are errors.
UNCHECKED = (
    "stablehlo.cross-replica-sum", "stablehlo.dynamic_conv", "stablehlo.einsum", "stablehlo.fft",
    "stablehlo.infeed", "stablehlo.real_dynamic_slice", "stablehlo.torch_index_select",
    "stablehlo.unary_einsum", "chlo.broadcast_",
)  # fmt: skip
# XLA's verifier of HLO refuses it later.
LATER = ("use_global_device_ids needs a channel_id",)
# Types that HLO lacks, recursive functions, and files without a function that has a body.
LACKING = ("[unknown-type]", "[recursive-call]", "[no-entry]")
# The parser of reductions takes a comma without operands behind it.
QUIRKS = ("stablehlo.reduce-1: short, , 5 twice",)


def ours(text: str) -> str:
    """Return the error of a text, empty where it is read."""
    try:
        hlo.verify(hlo.from_stablehlo(text, "form.mlir"))
    except HloError as e:
        return str(e)
    return ""


def disagreement(name: str, text: str, refusal: str) -> str:
    """Return what is wrong with how a text is taken, empty where nothing is.

    refusal: the error of MLIR's parser, empty where it reads the text.
    """
    error = ours(text)
    if bool(error) == bool(refusal) or name in QUIRKS:
        return ""
    if error and (name.startswith(UNCHECKED) or any(words in error for words in LATER + LACKING)):
        return ""
    return f"MLIR reads it, here: {error}" if error else f"read here, MLIR: {refusal}"


def disagreements(texts: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong, by name."""
    answers = refusals(list(texts.values()))
    found = {
        name: disagreement(name, text, refusal)
        for (name, text), refusal in zip(texts.items(), answers, strict=True)
    }
    return {name: problem for name, problem in found.items() if problem}


def _corpus(folders: Iterable[Path]) -> dict[str, str]:
    found = {}
    for path in sorted(p for folder in folders for p in folder.rglob("*.mlir")):
        for i, text in enumerate(re.split(r"^// -----.*\n", path.read_text(), flags=re.M)):
            found[f"{path}#{i}"] = text
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="take one form of so many")
    parser.add_argument("--corpus", type=Path, action="append", default=[])
    options = parser.parse_args()
    texts = dict([*forms(), *modules()][:: options.every]) | _corpus(options.corpus)
    problems = disagreements(texts)
    for name, problem in problems.items():
        print(f"{name}: {problem}\n{texts[name]}")
    print(f"{len(texts) - len(problems)} of {len(texts)} forms agree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
