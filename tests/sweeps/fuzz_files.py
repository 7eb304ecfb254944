"""Mutates files of values and reads what comes out: npy, npz, safetensors, literals, raw elements.

    python -m tests.sweeps.fuzz_files --count 5000 [--seed 0] [--keep DIR]

A file is taken or refused by an error of ours, soon, and without more memory than it is large.
Prints the first input of every kind of failure, and exits 1 when there was one.
"""

from __future__ import annotations

import argparse
import io
import json
import operator
import random
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hlo
from hlo.frontends.sources import read_snapshot
from hlo.io.arguments import Parameter
from hlo.io.inputs import Sampler, read_inputs
from hlo.values.arrays import DynamicArray
from hlo.values.types import ELEMENT_TYPES, ArrayShape
from tests.sweeps.fuzz import keeper, numbers, tally, tokens, unusual, watched

# What the files are inputs of: arrays of several types, one of dynamic size, a tuple.
_MODULE = hlo.parse("""HloModule m
ENTRY e {
  a = f32[2,3] parameter(0)
  b = bf16[4] parameter(1)
  c = pred[2,2] parameter(2)
  d = (s32[], c64[3]) parameter(3)
  f = f32[<=5] parameter(4)
  g = s4[7] parameter(5)
  h = f32[0,3] parameter(6)
  ROOT t = () tuple()
}
""")
_PARAMETERS = [Parameter(n, p.name, p.shape) for n, p in enumerate(_MODULE.entry.parameters)]
_ARRAYS: dict[str, np.ndarray] = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.arange(4).astype(ELEMENT_TYPES["bf16"].dtype),
    "c": np.eye(2, dtype=bool),
    "d.0": np.int32(7).reshape(()),
    "d.1": np.array([1, 2j, 3], np.complex64),
    "f": np.arange(4, dtype=np.float32),
    "g": np.arange(-3, 4, dtype=np.int8),
    "h": np.empty((0, 3), np.float32),
}
# The field of an npy's header, or of a safetensors file's, in place of what is there.
_SHAPES = (
    "(True, 3)", "(2, True)", "(2, 3.0)", "(-1, 3)", "(2,)", "()", "[2, 3]", "(2, 3", "2, 3",
    "(999999999999, 999999999999)", "(9223372036854775807, 2)", "(10**30,)", "(2**63, 0)",
    "(None,)", "('2', 3)", "(" * 300 + ")" * 300, "{}", "(2, 3),) and (", "(1,) * 10**9",
    "(" + "1, " * 100 + ")", "(" + "1, " * 5000 + ")", "(0, 1000000000000)", "(__import__('os'),)",
)  # fmt: skip
_DTYPES = (
    "'|O'", "'O8'", "'<U999999999'", "'<f4,<i8'", "[('a', '<f4')]", "'<f2'", "'>f4'", "'|b1'",
    "'|V2'", "'|V0'", "'|V99999999999'", "'<M8[ns]'", "'x'", "''", "None", "True", "3", "'<c16'",
    "[('a', '|O')]", "('<f4', (2, 3))", "'(1000000000,1000000000)<f4'", "'<f16'", "{}", "'|S5'",
)  # fmt: skip
_JSON = (
    "true", "null", "-1", "1e99", "[true, 3]", "[2.0, 3]", "{}", '"F32"', "[]", "NaN",
    "[0, 24, 48]", "[24, 0]", "[18446744073709551616, 0]", "[" * 3000 + "]" * 3000,
)  # fmt: skip


def _npy(value: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    out = io.BytesIO()
    if value.dtype.isbuiltin != 1:
        value = value.view(f"V{value.dtype.itemsize}")
    np.lib.format.write_array(out, value, version)
    return out.getvalue()


def _npz(arrays: dict[str, bytes], compression: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in arrays.items():
            archive.writestr(f"{name}.npy", data)
    return out.getvalue()


def _safetensors(rng: random.Random) -> bytes:
    kinds = {"a": "F32", "b": "BF16", "c": "BOOL", "d.0": "I32", "d.1": "C64", "f": "F32"}
    header: dict[str, Any] = {}
    data = b""
    for name, kind in kinds.items():
        content = np.ascontiguousarray(_ARRAYS[name]).tobytes()
        ends = [len(data), len(data) + len(content)]
        shape = list(_ARRAYS[name].shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": ends}
        data += content
    text = json.dumps(header)
    if rng.random() < 0.7:
        text = _one_of(rng, text, r'(?<=": )(?:\[[^]]*\]|"\w+")', _JSON)
    if rng.random() < 0.3:
        text = tokens(rng, text, [text])
    size = len(text.encode(errors="replace"))
    if rng.random() < 0.2:
        size = rng.choice((0, size - 1, size + 1, 1 << 63, (1 << 64) - 1, 99_999_999))
    return size.to_bytes(8, "little") + text.encode(errors="replace") + data


def _one_of(rng: random.Random, text: str, pattern: str, others: tuple[str, ...]) -> str:
    places = list(re.finditer(pattern, text))
    if not places:
        return text
    m = rng.choice(places)
    return text[: m.start()] + rng.choice(others) + text[m.end() :]


def _with_header(rng: random.Random, value: np.ndarray) -> bytes:
    """Return an npy whose header says something else, padded as it has to be."""
    version = rng.choice(((1, 0), (1, 0), (2, 0), (3, 0)))
    data = _npy(value, version)
    wide = 2 if version[0] == 1 else 4
    size = int.from_bytes(data[8 : 8 + wide], "little")
    text, content = data[8 + wide : 8 + wide + size].decode(), data[8 + wide + size :]
    for _ in range(rng.choice((1, 1, 2))):
        kind = rng.randrange(4)
        if kind == 0:
            text = _one_of(rng, text, r"(?<='shape': )\([^)]*\)", _SHAPES)
        elif kind == 1:
            text = _one_of(rng, text, r"(?<='descr': )'[^']*'", _DTYPES)
        elif kind == 2:
            flags = ("1", "None", "'x'", "True", "")
            text = _one_of(rng, text, r"(?<='fortran_order': )\w+", flags)
        else:
            text = rng.choice((tokens, numbers))(rng, text, [text])
    head = text.encode(errors="replace")
    if rng.random() < 0.2:
        content = content[: rng.randrange(len(content) + 1)]
    if len(head) >= 1 << (8 * wide):
        return data
    return data[:6] + bytes(version) + len(head).to_bytes(wide, "little") + head + content


def _bytes(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(out):
            out[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        elif kind == 1:
            out[at : at + rng.choice((1, 4, 100))] = b""
        elif kind == 2:
            out[at:at] = rng.choice((b"\0", b"\xff" * 4, rng.randbytes(3), bytes(out[at : at + 9])))
        else:
            return bytes(out[:at])
    return bytes(out)


def _bomb(rng: random.Random) -> bytes:
    """Return an archive that unpacks to far more than it is, or says that it does."""
    name = rng.choice(("a", "f", "x"))
    value = np.zeros(rng.choice((10, 30_000_000)), np.float32)
    data = bytearray(_npz({name: _npy(value)}, zipfile.ZIP_DEFLATED))
    if rng.random() < 0.7:
        # The size in the archive's directory, which is what readers go by.
        at = data.rfind(b"PK\1\2") + 24
        data[at : at + 4] = rng.choice((b"\0" * 4, b"\xfe\xff\xff\xff", b"\x10\0\0\0"))
    return bytes(data)


def _literal(rng: random.Random) -> str:
    text = rng.choice(
        ("{{1, 2, 3}, {4, 5, 6}}", "f32[2,3]{1,0} {{1, 2, 3}, {4, nan, -inf}}", "1.5e3",
         "(7, {(1, 2), (3, -4), (0, 0)})", "{1, 0x1p3, 2, 3}", "{{true, false}, {0, 1}}",
         "{...}", "{}", "{" * 1000 + "}" * 1000, "(" * 100 + ")" * 100, "f32[<=5] {1, 2}",
         "2x3xf32=1 2 3 4 5 6", "2x3xf32=5", "4xbf16", "99999999999x9999999999xf32=1")
    )  # fmt: skip
    for _ in range(rng.choice((0, 1, 1, 2))):
        text = rng.choice((tokens, numbers, unusual))(rng, text, [text])
    return text


def mutants(count: int, seed: int) -> Iterator[bytes]:
    """Yield files: name, a line break, content. Of `text` the content is an argument itself."""
    rng = random.Random(seed)
    names = list(_ARRAYS)
    compressions = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    made: list[tuple[str, Callable[[], bytes]]] = [
        ("x.npy", lambda: _with_header(rng, _ARRAYS[rng.choice(names)])),
        ("x.npy", lambda: _bytes(rng, _npy(_ARRAYS[rng.choice(names)]))),
        ("x.npz", lambda: _npz(
            {n: _with_header(rng, _ARRAYS[n]) for n in rng.sample(names, 2)},
            rng.choice(compressions))),
        ("x.npz", lambda: _bytes(rng, _npz(
            {n: _npy(_ARRAYS[n]) for n in rng.sample(names, 3)}, rng.choice(compressions)))),
        ("x.safetensors", lambda: _safetensors(rng)),
        ("x.safetensors", lambda: _bytes(rng, _safetensors(rng))),
        ("x.txt", lambda: _literal(rng).encode(errors="surrogatepass")),
        ("text", lambda: _literal(rng).encode(errors="surrogatepass")),
        ("raw", lambda: rng.randbytes(rng.choice((0, 23, 24, 25)))),
    ]  # fmt: skip
    for number in range(count):
        name, make = (
            ("x.npz", lambda: _bomb(rng)) if number % 100 == 99 else made[number % len(made)]
        )
        yield name.encode() + b"\n" + make()


def failure(data: bytes) -> str | None:
    """Return what is wrong with how a file is taken, or None. Taken and refused are both fine."""
    name, _, content = data.partition(b"\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name.decode())
        path.write_bytes(content)
        sampler = Sampler(zeros=True)

        def check() -> str | None:
            if path.suffix in (".npz", ".safetensors"):
                values, _ = read_inputs(
                    _PARAMETERS, [], str(path), sampler, read_snapshot=read_snapshot
                )
                return _misfit(values)
            given = {
                ".npy": str(path),
                ".txt": f"@{path}",
                "": f"2x3xf32=@{path}" if path.name == "raw" else _argument(content),
            }[path.suffix]
            for p in _PARAMETERS if path.name != "raw" else _PARAMETERS[:1]:
                try:
                    values, _ = read_inputs(
                        _PARAMETERS, [f"{p.name}={given}"], None, sampler,
                        read_snapshot=read_snapshot,
                    )  # fmt: skip
                except hlo.HloError as e:
                    _judge(e)
                    continue
                if (found := _misfit(values)) is not None:
                    return found
            return None

        return watched(check, _judge)


def _argument(content: bytes) -> str:
    # As Python has the arguments of a command.
    return content.decode(errors="surrogateescape")


def _judge(error: hlo.HloError) -> str | None:
    shown = str(error)
    return None if shown and len(shown) < 20_000 else f"an error of {len(shown)} characters"


def _misfit(values: list[Any]) -> str | None:
    """Return what is wrong with values that were taken for the parameters."""
    for p, value in zip(_PARAMETERS, values, strict=True):
        for path, name, shape in p.leaves():
            leaf = value
            for i in path:
                leaf = leaf[i]
            assert isinstance(shape, ArrayShape)
            array = leaf.data if isinstance(leaf, DynamicArray) else leaf
            if array.dtype != shape.element_type.dtype:
                return f"{name} is of type {array.dtype}"
            if array.ndim != shape.rank or any(map(operator.gt, array.shape, shape.dims)):
                return f"{name} is {array.shape}"
            bytes(array.reshape(-1).view(np.uint8))  # what is mapped can be read
    return None


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--count", type=int, default=5000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--keep", type=Path, help="folder for the inputs that failed")
    options = arguments.parse_args()
    keep = keeper(options.keep, f"{options.seed}")
    return tally(mutants(options.count, options.seed), failure, keep)


if __name__ == "__main__":
    sys.exit(main())
