"""Mutates valid modules and reads what comes out: only our own errors, each with a place, and soon.

    python -m tests.sweeps.fuzz --count 20000 [--seed 0] [--keep DIR] [--corpus DIR]...

What is accepted has to survive its own print and its own proto. Prints the first input of every
kind of failure, and exits 1 when there was one.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TypeVar

from hlo.errors import HloError
from hlo.frontends.proto import from_pbtxt, from_proto, to_pbtxt, to_proto
from hlo.frontends.text import PrintOptions, parse, print_module
from hlo.ir import Module
from hlo.ops import OPS
from hlo.support.memory import collector_paused
from hlo.verifier import verify
from tests.harness.paths import TESTS

# Seconds of this process's own time, far above what any of these small inputs takes: reaching it
# is a hang.
LIMIT_S = 10
# What all inputs of a run together may take of memory.
LIMIT_BYTES = 2 << 30
# Longer modules are no seeds: of their mutants few would be tried.
_LONGEST_SEED = 40_000
NESTING = 30_000
_TOKEN = re.compile(r"[A-Za-z_][\w.-]*|-?\d+(?:\.\d+)?|\s+|.", re.S)
_WORDS = (
    "{", "}", "(", ")", "[", "]", ",", "=", ":", "->", "%", "#", "*", "?", "<=", "...", "\0", "é",
    "-1", "0", "1", "2", "5", "999999999999999999999", "9223372036854775807", "1e999", "nan", "inf",
    "true", "f32", "s32", "pred", "bf16", "c64", "s4", "token", "opaque", "f32[2]", "f32[0,3]",
    "s32[]", "(f32[2], s32[])", "token[]", "b(f32[2])", "f32[<=4]", "f32[?]",
    "f32[1000000000000,1000000000000]", "ENTRY", "ROOT", "HloModule", "parameter(0)", "/*", "*/",
    "//", '"', "'", "{...}", "T(8,128)", "S(1)", "dimensions={0}", "to_apply=", "x", "metadata={}",
    "sharding={devices=[2]<=[2]}", "replica_groups={{0,1}}", "is_scheduled=true", "index=7",
)  # fmt: skip
_EXTREMES = (2**31, 2**31 - 1, -(2**31), 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30)
_ATTRIBUTE = re.compile(r""", [a-z_]+=(?:\{(?:[^{}]|\{[^{}]*\})*\}|"[^"]*"|[^\s,{}]+)+""")
_SHAPE = re.compile(r"\b[a-z]+\d*\w*\[[\d,<=?]*\](?:\{[\d,]*(?::[^{}]*)?\})?")
_ODD = ("é", "\u2028", "\u00a0", "\u200b", "\U0001f600", "\ud800", "\x1b", "\x0b", "\x85")


class Hang(Exception):
    """An input took longer than LIMIT_S."""


def corpus(folders: Sequence[Path] = ()) -> list[str]:
    """Return the modules that mutation starts from: op-table examples, text tests, folders."""
    texts = [text for spec in OPS.values() for text in spec.examples]
    for path in sorted(TESTS.glob("filetests/**/*.hlo")):
        texts += re.split(r"^//\s*-{5,}\s*$", path.read_text(), flags=re.M)
    return [t for t in texts if len(t) < _LONGEST_SEED] + texts_in(folders)


def texts_in(folders: Sequence[Path], suffix: str = "hlo") -> list[str]:
    """Return the texts of the files in folders, but for very long ones."""
    paths = [path for folder in folders for path in sorted(folder.glob(f"**/*.{suffix}"))]
    return [path.read_text() for path in paths if path.stat().st_size < _LONGEST_SEED]


# --- mutations ----------------------------------------------------------------------------------


def _bytes(rng: random.Random, text: str, _: Sequence[str]) -> str:
    chars = list(text)
    for _i in range(rng.randint(1, 4)):
        at = rng.randrange(len(chars) + 1)
        kind = rng.randrange(3)
        if kind == 0 and at < len(chars):
            chars[at] = chr(rng.choice((rng.randrange(128), rng.randrange(0x250))))
        elif kind == 1 and at < len(chars):
            del chars[at]
        else:
            chars.insert(at, chr(rng.randrange(1, 128)))
    return "".join(chars)


def tokens(rng: random.Random, text: str, corpus: Sequence[str]) -> str:
    tokens = _TOKEN.findall(text)
    for _i in range(rng.randint(1, 3)):
        at = rng.randrange(len(tokens) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(tokens):
            del tokens[at]
        elif kind == 1 and at < len(tokens):
            tokens[at] = rng.choice(_WORDS)
        elif kind == 2:
            tokens.insert(at, rng.choice(_WORDS))
        elif kind == 3 and tokens:
            tokens.insert(at, rng.choice(tokens))
        else:
            other = _TOKEN.findall(rng.choice(corpus))
            if other and at < len(tokens):
                tokens[at] = rng.choice(other)
    return "".join(tokens)


def numbers(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Change one number, which keeps the text well-formed and makes it mean something else."""
    places = [m for m in re.finditer(r"(?<![\w.])-?\d{1,40}(?!\d)", text)]
    if not places:
        return text
    m = rng.choice(places)
    value = rng.choice((0, 1, 2, 3, 7, -1, int(m[0]) + 1, int(m[0]) - 1, *_EXTREMES))
    return text[: m.start()] + str(value) + text[m.end() :]


def attributes(rng: random.Random, text: str, corpus: Sequence[str]) -> str:
    """Drop an attribute, give it twice, or put one of another operation in its place or behind."""
    places = list(_ATTRIBUTE.finditer(text))
    other = _ATTRIBUTE.findall(rng.choice(corpus))
    if not places or not other:
        return text
    m = rng.choice(places)
    piece = rng.choice(("", m[0] * 2, rng.choice(other), m[0] + rng.choice(other)))
    return text[: m.start()] + piece + text[m.end() :]


def shapes(rng: random.Random, text: str, corpus: Sequence[str]) -> str:
    """Put a shape of this or of another text in the place of one, or deep in tuples."""
    places = list(_SHAPE.finditer(text))
    if not places:
        return text
    m = rng.choice(places)
    others = _SHAPE.findall(rng.choice((text, rng.choice(corpus)))) or [m[0]]
    deep = rng.choice((1, 30, 3000))
    piece = rng.choice((*[rng.choice(others)] * 4, "(" * deep + m[0] + ")" * deep))
    return text[: m.start()] + piece + text[m.end() :]


def callees(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Call another computation, perhaps through many others."""
    names = re.findall(r"^%?([\w.-]+) [({].*", text, re.M)
    places = list(re.finditer(r"(?<==)%?([\w.-]+)(?=[,\n])", text))
    places = [m for m in places if m[1] in names]
    if not places:
        return text
    m = rng.choice(places)
    callee = rng.choice(names)
    if rng.random() < 0.3:
        depth = rng.choice((2, 50, 2000))
        line = "c{} {{\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] call(x), to_apply={}\n}}\n"
        chain = "".join(line.format(i, f"c{i - 1}" if i else callee) for i in range(depth))
        at = text.find("\n", text.find("HloModule")) + 1
        text = text[: m.start()] + f"c{depth - 1}" + text[m.end() :]
        return text[:at] + chain + text[at:]
    return text[: m.start()] + callee + text[m.end() :]


def unusual(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Write the text, or a place of it, as an editor or another system might."""
    at = rng.randrange(len(text) + 1)
    return rng.choice((
        "\ufeff" + text, text.replace("\n", "\r\n"), text.replace("\n", "\r"),
        text.replace("\n", " "), text.replace(" ", "\t"), text.replace(" ", ""),
        text.replace('"', "'"), text[:at] + "\0" + text[at:],
        text[:at] + rng.choice(_ODD) + text[at:],
        text[:at] + " " * 100_000 + text[at:], text[:at] + "x" * 100_000 + text[at:],
        text[:at] + "9" * 5000 + text[at:], text[:at] + "/*" + text[at:], text.upper(),
    ))  # fmt: skip


def names(rng: random.Random, text: str, _: Sequence[str]) -> str:
    """Put one word of the text in the place of another."""
    places = list(re.finditer(r"[A-Za-z_][\w.-]*", text))
    if len(places) < 2:
        return text
    a, b = rng.sample(places, 2)
    return text[: a.start()] + b[0] + text[a.end() :]


def lines(rng: random.Random, text: str, corpus: Sequence[str]) -> str:
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[rng.randrange(len(lines))])
    elif kind == 2:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines.insert(at, rng.choice(rng.choice(corpus).split("\n")))
    return "\n".join(lines)


def _truncate(rng: random.Random, text: str, _: Sequence[str]) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _nest(rng: random.Random, text: str, _: Sequence[str]) -> str:
    opening, closing = rng.choice(
        (("(", ")"), ("{", "}"), ("[", "]"), ("f32[] add(", ")"), ("/*", ""))
    )
    depth = rng.choice((3, 50, 1000, NESTING))
    at = rng.randrange(len(text) + 1)
    end = closing * depth if rng.random() < 0.5 else ""
    return text[:at] + opening * depth + end + text[at:]


# Deep nesting makes long texts, so it comes up less often.
_MUTATIONS: list[Callable[[random.Random, str, Sequence[str]], str]] = [
    _bytes, _bytes, tokens, tokens, tokens, tokens, numbers, numbers, numbers, names,
    names, lines, lines, _truncate, _nest, attributes, attributes, shapes, shapes, callees,
    unusual,
]  # fmt: skip


def mutants(count: int, seed: int, folders: Sequence[Path] = ()) -> Iterator[str]:
    """Yield `count` mutated modules."""
    rng = random.Random(seed)
    texts = corpus(folders)
    for _ in range(count):
        text = rng.choice(texts)
        for _i in range(rng.choice((1, 1, 1, 2, 3))):
            text = rng.choice(_MUTATIONS)(rng, text, texts)
        yield text


# --- judging ------------------------------------------------------------------------------------


def failure(text: str) -> str | None:
    """Return what is wrong with how a text is taken, or None. Valid and rejected are both fine."""

    def check() -> str | None:
        module = parse(text)
        printed = print_module(module)
        verify(module)
        return difference(module, printed)

    return watched(check, _render)


# What a proto keeps: all but names, which become unique, and the options of a compilation.
_OPTIONS = ("replica_count", "num_partitions")
_APPLIED = re.compile(r"( custom-call\(.*, )to_apply=(%[^\s,]+)")
_KEPT = PrintOptions(canonical_names=True, graph_order=True, signatures=False)


def difference(module: Module, printed: str) -> str | None:
    """Return how a valid module comes out of its own print or its own proto as another one."""
    if print_module(parse(printed)) != printed:
        return "the print of the print is another one"
    try:
        data = to_proto(module)
        again = from_proto(data)
        # What is valid depends on the options of a compilation, which no proto has.
        again.attrs |= {k: v for k, v in module.attrs.items() if k in _OPTIONS}
        verify(again)
        # Numbers are new, and so on; from here on nothing changes.
        data = to_proto(again)
        text = to_pbtxt(again)  # it has one NaN only
        same = to_proto(from_proto(data)) == data and to_pbtxt(from_pbtxt(text)) == text
    except HloError as e:
        # The modules of that table are strings, which are read when they are written.
        is_inside = "origin_recovery_table:" in str(e)
        return None if is_inside else f"no proto: {e.code}: {str(e)[:300]}"
    if not same:
        return "the proto of the proto is another one"
    if any(
        i.opcode == "constant" and i.attrs["literal"].is_elided_in_part
        for i in module.instructions()
    ):
        return None  # a proto has values for those
    before, after = (_computations(m) for m in (module, again))
    if before == after:
        return None
    pairs = zip(before.split("\n"), after.split("\n"), strict=False)
    return "the proto changes " + next((f"{a}\n  to {b}" for a, b in pairs if a != b), "the length")


def _computations(module: Module) -> str:
    """Return the text of a module without its header, its computations in order of their names."""
    # Protos call what a custom call applies as they call all that it calls.
    text = _APPLIED.sub(r"\1called_computations={\2}", print_module(module, _KEPT))
    parts = text.split("\n\n")[1:]
    return "\n".join(sorted(p.strip() for p in parts if p.startswith(("%", "ENTRY"))))


def watched(check: Callable[[], str | None], judge: Callable[[HloError], str | None]) -> str | None:
    """Return what a check finds, or what is wrong with how it ends, or None.

    judge: says what is wrong with an error of ours.
    """
    previous = signal.signal(signal.SIGVTALRM, _on_alarm)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        # What is raised in a callback of the collector is lost.
        with collector_paused():
            return check()
    except HloError as e:
        return judge(e)
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        frame = traceback.extract_tb(e.__traceback__)[-1]
        return f"{type(e).__name__} at {Path(frame.filename).name}:{frame.lineno}: {str(e)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def _render(error: HloError) -> str | None:
    """Return what is wrong with the text of an error, which has to be made too."""
    bare = [d for d in error.diagnostics if d.span is None]
    if bare:
        return f"no position: {bare[0].code}: {bare[0].message}"
    try:
        shown = str(error)
    except Exception as e:
        return f"rendering: {type(e).__name__}: {e}"
    return None if re.match(r"\S+:\d+:\d+: error: ", shown) else f"not an error text: {shown[:80]}"


def _on_alarm(signum: int, frame: FrameType | None) -> None:
    raise Hang(f"more than {LIMIT_S} s")


def limit_memory() -> None:
    """Let nothing that this process does take more than LIMIT_BYTES from here on."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


_T = TypeVar("_T", str, bytes)


def tally(
    inputs: Iterable[_T],
    failure: Callable[[_T], str | None],
    keep: Callable[[int, _T], None] = lambda number, data: None,
) -> int:
    """Print the failures of inputs, each kind once, and how many there are; returns the exit code.

    failure: says what is wrong with an input, None if nothing is. keep: gets the number and the
    first input of each kind.
    """
    limit_memory()
    kinds: Counter[str] = Counter()
    start = time.monotonic()
    slowest, count = (0.0, 0), 0
    for number, data in enumerate(inputs):
        began = time.process_time()
        found = failure(data)
        slowest, count = max(slowest, (time.process_time() - began, number)), number + 1
        if found is None:
            continue
        kind = re.sub(r"\d+", "N", found.partition("\n")[0])[:100]
        kinds[kind] += 1
        if kinds[kind] == 1:
            text = data[:1500] if isinstance(data, str) else repr(data[:1500])
            print(f"--- {number}: {found}\n{text}\n", flush=True)
            keep(number, data)
    for kind, times in kinds.most_common():
        print(f"{times:6d}  {kind}")
    print(
        f"{count} inputs in {time.monotonic() - start:.0f} s, "
        f"slowest {slowest[0]:.1f} s (number {slowest[1]}), "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB, "
        f"{sum(kinds.values())} failures"
    )
    return 1 if kinds else 0


def add_folders(arguments: argparse.ArgumentParser) -> None:
    """Add the options that name folders, which are the same for all of these programs."""
    arguments.add_argument("--keep", type=Path, help="folder for the inputs that failed")
    arguments.add_argument(
        "--corpus", type=Path, action="append", default=[], help="folder of more modules to mutate"
    )


def keeper(folder: Path | None, prefix: str) -> Callable[[int, str | bytes], None]:
    """Return what writes an input to a folder, if there is one, by its number."""

    def keep(number: int, data: str | bytes) -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            content = data if isinstance(data, bytes) else data.encode(errors="surrogatepass")
            (folder / f"{prefix}-{number}").write_bytes(content)

    return keep


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=20_000)
    arguments.add_argument("--seed", type=int, default=0)
    add_folders(arguments)
    options = arguments.parse_args()
    inputs = mutants(options.count, options.seed, options.corpus)
    return tally(inputs, failure, keeper(options.keep, f"{options.seed}"))


if __name__ == "__main__":
    sys.exit(main())
