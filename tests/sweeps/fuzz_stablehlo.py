"""Mutates StableHLO texts and reads what comes out: only our own errors with a place, and soon.

    python -m tests.sweeps.fuzz_stablehlo --count 20000 [--seed 0] [--corpus DIR]... [--keep DIR]

Prints the first input of every kind of failure, and exits 1 when there was one.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import hlo
from hlo.errors import HloError
from hlo.frontends.stablehlo.ops import HANDLERS
from tests.harness.paths import TESTS
from tests.sweeps import fuzz
from tests.sweeps.fuzz import tally, watched

_TYPE = re.compile(r"tensor<[^<>]*(?:<[^<>]*>[^<>]*)*>|!stablehlo\.\w+")
_OPERATION = re.compile(r"\b(?:stablehlo|chlo|sdy)\.[a-z_]+")
_PAIR = re.compile(r'[\w.]+ = (?:#\w+(?:\.\w+)*)?(?:<[^<>]*>|\[[^][]*\]|"[^"]*"|[-\w.@]+)')
_WORDS = (
    "tensor<2x!quant.uniform<i8:f32, 1.0>>", "tensor<?xf32, #stablehlo.bounds<4>>", "tensor<*xf32>",
    "tensor<2xindex>", "tensor<999999999999x999999999999xf32>", "tensor<0x2xf32>", "!t", "none",
    "tuple<tensor<f32>, tuple<>>", "!stablehlo.future<tensor<f32>>", "complex<f32>", "dense<>",
    "vector<2xf32>", "dense<0x>", 'dense<"0x">', "dense_resource<a>", "dense<[[1], [2, 3]]>",
    "array<i64>", "loc(#loc)", 'loc("a"("b":1:2))', 'loc(callsite("a" at "b"))', "#a", "{-#",
    "#-}", "^bb0", "^bb1:", "-> ()", "sdy.mesh @m = <[]>", '#sdy.sharding<@mesh, [{"x"}]>', "{}",
    "unit", "affine_map<() -> ()>",
)  # fmt: skip


def corpus(folders: Sequence[Path] = ()) -> list[str]:
    """Return the cases that the tests have: every operation is in one. And what is in folders."""
    found: list[str] = []
    for path in sorted((TESTS / "stablehlo").glob("*.mlir")):
        found += re.split(r"^// -----\n", path.read_text(), flags=re.M)
    for text in fuzz.texts_in(folders, "mlir"):
        found.append(text)
    for text in fuzz.texts_in(folders):
        try:
            module = hlo.parse(text)
            hlo.verify(module)
            found.append(hlo.to_stablehlo(module))
        except HloError:
            continue  # what is no module, or none that StableHLO can say
    return found


def _replaced(
    rng: random.Random, text: str, pattern: re.Pattern[str], others: Sequence[str]
) -> str:
    places = list(pattern.finditer(text))
    if not places or not others:
        return text
    m = rng.choice(places)
    return text[: m.start()] + rng.choice(others) + text[m.end() :]


def _types(rng: random.Random, text: str, corpus: Sequence[str]) -> str:
    others = _TYPE.findall(rng.choice((text, text, rng.choice(corpus))))
    return _replaced(rng, text, _TYPE, others)


def _operations(rng: random.Random, text: str, _: Sequence[str]) -> str:
    return _replaced(rng, text, _OPERATION, list(HANDLERS))


def _pairs(rng: random.Random, text: str, corpus: Sequence[str]) -> str:
    others = _PAIR.findall(rng.choice((text, rng.choice(corpus))))
    return _replaced(rng, text, _PAIR, [*others, ""])


def _insert(rng: random.Random, text: str, _: Sequence[str]) -> str:
    at = rng.choice([m.start() for m in re.finditer(r"\s|$", text)])
    return f"{text[:at]} {rng.choice(_WORDS)}{text[at:]}"


def _deep(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Put something inside itself, deeper than anything means."""
    depth = rng.choice((40, 1000, 100_000))
    opening, closing = rng.choice(
        (("tuple<", ">"), ("{a = ", "}"), ("[", "]"), ('"stablehlo.if"(%p) ({', "})"),
         ('loc("a"(', "))"), ("loc(fused[", "])"), ("(", ")"), ("#x<", ">"))
    )  # fmt: skip
    at = rng.randrange(len(text) + 1)
    return text[:at] + opening * depth + closing * rng.choice((0, depth)) + text[at:]


def _function_chain(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Call through many functions."""
    depth = rng.choice((2, 50, 2000))
    line = (
        "func.func private @c{}(%x: tensor<f32>) -> tensor<f32> {{\n"
        "  %0 = call @c{}(%x) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}}\n"
    )
    chain = "".join(line.format(i, (i + 1) % depth) for i in range(depth))
    head = "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n"
    body = "  %0 = call @c0(%x) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}\n"
    return rng.choice((head + body + chain, chain + text))


_MUTATIONS: list[Callable[[random.Random, str, Sequence[str]], str]] = [
    *[_types] * 4, *[_operations] * 4, *[_pairs] * 4, *[_insert] * 3, _deep, *[fuzz.numbers] * 3,
    *[fuzz.tokens] * 3, *[fuzz.names] * 2, fuzz._bytes, *[fuzz.lines] * 2, fuzz._truncate,
    fuzz.unusual,
]  # fmt: skip
_RARE = _function_chain


def mutants(count: int, seed: int, folders: Sequence[Path] = ()) -> Iterator[str]:
    """Yield `count` mutated texts."""
    rng = random.Random(seed)
    texts = corpus(folders)
    for number in range(count):
        text = rng.choice(texts)
        for _i in range(rng.choice((1, 1, 1, 2, 3))):
            text = rng.choice(_MUTATIONS)(rng, text, texts)
        yield _RARE(rng, text, texts) if number % 500 == 499 else text


def failure(text: str) -> str | None:
    """Return what is wrong with how a text is taken, or None. Valid and rejected are both fine."""

    def check() -> str | None:
        module = hlo.from_stablehlo(text)
        printed = str(module)
        hlo.verify(module)
        return fuzz.difference(module, printed)

    return watched(check, _judge)


def _judge(error: HloError) -> str | None:
    shown = str(error)
    # The verifier's errors of the header and of parameters have no place in the text.
    is_placed = re.match(r"<string>:\d+:\d+: error: ", shown) is not None
    return None if is_placed else f"no place: {shown.splitlines()[0]}"


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--count", type=int, default=20_000)
    arguments.add_argument("--seed", type=int, default=0)
    fuzz.add_folders(arguments)
    options = arguments.parse_args()
    inputs = mutants(options.count, options.seed, options.corpus)
    return tally(inputs, failure, fuzz.keeper(options.keep, f"{options.seed}"))


if __name__ == "__main__":
    sys.exit(main())
