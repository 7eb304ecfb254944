"""Values in files: numpy's npy and npz, HLO literals, and the ways to name an input.

Nothing is ever unpickled. An element type that numpy does not know is written as bytes of its width
(`|V2` for bf16, `|V1` for f8), which plain numpy opens, `.view(ml_dtypes.bfloat16)` gives back, and
`read_input` takes as the parameter's type. Sub-byte integers are written as int8 or uint8.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from hlo.arguments import (
    Parameter,
    as_leaf,
    assemble,
    need_size,
    random_array,
    zero_array,
)
from hlo.errors import HloError, Source, Span, TextError, did_you_mean
from hlo.literal import Literal, read_literal, write_literal
from hlo.scan import Scanner
from hlo.shape_text import read_shape
from hlo.types import ELEMENT_TYPES, ArrayShape, Shape, array, compatible, element_type_of

# --- reading ------------------------------------------------------------------------------------


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file. Raises HloError."""
    try:
        return Path(path).read_text("utf-8")
    except OSError as e:
        raise HloError.at("bad-file", f"{path}: {_reason(e)}") from None
    except UnicodeDecodeError as e:
        raise HloError.at(
            "bad-file", f"{path}: byte {e.start} is not UTF-8 text; is this HLO text?"
        ) from None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


# What reading a broken or foreign file comes to; RuntimeError is an encrypted archive.
_FILE_ERRORS = (
    OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, RuntimeError,
)  # fmt: skip


@contextlib.contextmanager
def _reading(path: str | Path, what: str) -> Iterator[None]:
    """Turn whatever goes wrong in reading a file into one HloError."""
    try:
        yield
    except MemoryError:
        raise HloError.at("out-of-memory", f"{path}: no memory for what it says to hold") from None
    except _FILE_ERRORS as e:
        if isinstance(e, OSError) and e.errno is not None:
            message = _reason(e)
        elif "pickle" in str(e):
            message = f"not a file of numbers: {what} would have to be unpickled, which is not safe"
        else:
            message = f"broken, or not {what}: {str(e) or type(e).__name__}"
        raise HloError.at("bad-file", f"{path}: {message}") from None


def read_npy(path: str | Path) -> np.ndarray:
    """Return the array in an npy file. Raises HloError."""
    with _reading(path, "an npy file"):
        loaded = np.load(path, allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise HloError.at(
            "bad-file", f"{path}: an npz of several arrays, not an npy", hint="pass it as --inputs"
        )
    return loaded


def read_npz(path: str | Path) -> dict[str, np.ndarray]:
    """Return the arrays in an npz file by name. Raises HloError."""
    with _reading(path, "an npz file"):
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise HloError.at(
                "bad-file", f"{path}: one array, not an npz", hint="pass it as --input"
            )
        with loaded:
            return {name: loaded[name] for name in loaded.files}


# --- writing ------------------------------------------------------------------------------------


def storable(value: np.ndarray) -> np.ndarray:
    """Return an array in a dtype that numpy's files keep, as the module's docstring says."""
    et = element_type_of(value.dtype)
    if et.dtype.isbuiltin == 1:
        return value
    if et.is_integer:
        return value.astype(np.int8 if et.is_signed else np.uint8)
    return np.array(value, order="C").view(f"V{et.byte_width}")


def write_npz(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name. The file is there in whole or not at all. Raises HloError."""
    with _replacing(path) as file:
        # savez takes names as keywords, which clash with its own; the format is just a zip of npys.
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, value in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, storable(value), allow_pickle=False)


def write_npy(path: str | Path, value: np.ndarray) -> None:
    """Write one array. The file is there in whole or not at all. Raises HloError."""
    with _replacing(path) as file:
        np.lib.format.write_array(file, storable(value), allow_pickle=False)


@contextlib.contextmanager
def _replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its place only when all went well."""
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            # A device or a pipe has no place to take; a directory is refused by open().
            with open(path, "wb") as direct:
                yield direct
            return
        target = Path(os.path.realpath(path))
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            os.chmod(name, _mode(target))
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as e:
        raise HloError.at("bad-file", f"cannot write {path}: {_reason(e)}") from None


def _mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those of a new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def literal_text(value: Any, limit: int | None = None) -> str:
    """Return a result as text that `--input` reads back: shape and HLO literal."""
    literal = Literal.of(value)
    return f"{literal.shape.to_string(False)} {write_literal(literal, limit)}"


# --- naming inputs ------------------------------------------------------------------------------

_TARGET = re.compile(r"%?([A-Za-z_][A-Za-z0-9_.-]*|\d+)=(.*)", re.S)
# `i32` and the like are what some tools call `s32`.
_ALIASES = {f"i{n}": f"s{n}" for n in (2, 4, 8, 16, 32, 64)} | {"i1": "pred"}
_TYPES = "|".join(sorted({*ELEMENT_TYPES, *_ALIASES}, key=len, reverse=True))
_FLAT = re.compile(rf"((?:\d+x)*)({_TYPES})(?:=(.*))?", re.S)
_NUMBER = re.compile(r"\([^()]*\)|[^\s,]+")
_STARTS_WITH_SHAPE = re.compile(r"[(\s]*[a-z][a-z0-9]*\[")


def read_inputs(
    parameters: Sequence[Parameter], specs: Sequence[str], archive: str | None, seed: int
) -> tuple[list[Any], list[str]]:
    """Return a value for each parameter, and the names of what had to be made up at random.

    specs: `[name=]SOURCE`; one without a name is for the first parameter that has no value yet.
    SOURCE is `random`, `zeros`, a path ending in `.npy`, an HLO literal with or without its shape,
    `@FILE` holding one, or `2x3xf32=1 2 3 4 5 6` (one number fills; `=@FILE` reads raw bytes).
    archive: an npz whose keys are `arg0, arg1, ..` or parameter names; the leaves of a tuple have
    keys such as `arg0.1`. Everything is checked against the parameters. Raises HloError.
    """
    inputs = _Inputs(parameters, seed)
    if archive is not None:
        inputs.take_archive(archive)
    # Named inputs first: the others fill the gaps.
    targets = [(spec, *_split_target(spec)) for spec in specs]
    for spec, target, source in sorted(targets, key=lambda t: t[1] is None):
        inputs.take_spec(spec, target, source)
    return inputs.finish()


def _split_target(spec: str) -> tuple[str | None, str]:
    m = _TARGET.fullmatch(spec)
    if m is None or _FLAT.fullmatch(m[1]):
        return None, spec
    return m[1], m[2]


class _Inputs:
    """The values given so far, by parameter number and index path."""

    def __init__(self, parameters: Sequence[Parameter], seed: int) -> None:
        self._parameters = parameters
        self._seed = seed
        self._leaves: dict[int, dict[tuple[int, ...], Any]] = {p.number: {} for p in parameters}
        self._made_up: list[str] = []

    def take_archive(self, path: str) -> None:
        keys: dict[str, tuple[Parameter, tuple[int, ...], Shape]] = {}
        for p in self._parameters:
            for index, name, shape in p.leaves():
                number = ".".join([f"arg{p.number}", *map(str, index)])
                # A parameter may be called arg1 and not be number 1: its name wins.
                keys.setdefault(number, (p, index, shape))
                keys[name] = (p, index, shape)
        for key, value in read_npz(path).items():
            if key not in keys:
                raise HloError.at(
                    "unknown-input", f"{path}: {key!r} is not a parameter",
                    hint=did_you_mean(key, keys) or self._names(),
                )  # fmt: skip
            p, index, shape = keys[key]
            if index in self._leaves[p.number]:
                raise HloError.at("unknown-input", f"{path}: parameter {p.name} is there twice")
            self._leaves[p.number][index] = as_leaf(value, shape, f"{path}: {key}")

    def take_spec(self, spec: str, target: str | None, source: str) -> None:
        parameter = self._next(spec) if target is None else self._named(target)
        if target is not None and self._leaves[parameter.number]:
            raise HloError.at("unknown-input", f"input {parameter.name} is given twice")
        what = f"input {parameter.name}"
        if source in ("random", "zeros"):
            for index, name, shape in parameter.leaves():
                make = self._random if source == "random" else self._zeros
                self._leaves[parameter.number][index] = make(parameter, index, name, shape)
            return
        value = _read_source(source, parameter.shape, what)
        for index, _, _ in parameter.leaves():
            leaf = value
            for i in index:
                leaf = leaf[i]
            self._leaves[parameter.number][index] = leaf

    def finish(self) -> tuple[list[Any], list[str]]:
        values = []
        for p in self._parameters:
            leaves = self._leaves[p.number]
            for index, name, shape in p.leaves():
                if index not in leaves:
                    leaves[index] = self._random(p, index, name, shape)
                    self._made_up.append(name)
            values.append(assemble(p.shape, leaves))
        return values, self._made_up

    def _random(self, p: Parameter, index: tuple[int, ...], name: str, shape: Shape) -> np.ndarray:
        # The seed of each leaf is its own, so that giving one input does not change the others.
        return random_array(need_size(shape, f"input {name}"), [self._seed, p.number, *index])

    def _zeros(self, p: Parameter, index: tuple[int, ...], name: str, shape: Shape) -> np.ndarray:
        return zero_array(need_size(shape, f"input {name}"))

    def _next(self, spec: str) -> Parameter:
        for p in self._parameters:
            if not self._leaves[p.number] and any(True for _ in p.leaves()):
                return p
        shown = spec if len(spec) <= 40 else spec[:37] + "..."
        raise HloError.at("argument-count", f"input {shown!r} is one too many: {self._names()}")

    def _named(self, target: str) -> Parameter:
        for p in self._parameters:
            if p.name == target:
                return p
        for p in self._parameters:
            if target in (str(p.number), f"arg{p.number}"):
                return p
        raise HloError.at(
            "unknown-input", f"{target!r} is not a parameter",
            hint=did_you_mean(target, [p.name for p in self._parameters]) or self._names(),
        )  # fmt: skip

    def _names(self) -> str:
        names = [p.name for p in self._parameters]
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        return f"the parameters are {shown}" if names else "there are no parameters"


def _read_source(source: str, shape: Shape, what: str) -> Any:
    if source.startswith("@"):
        return _literal_value(read_text(source[1:]), shape, source[1:])
    if not source.endswith(".npy") and not _FLAT.fullmatch(source):
        return _literal_value(source, shape, what)
    if not isinstance(shape, ArrayShape):
        raise HloError.at(
            "type-mismatch", f"{what}: {source} is one array, {shape.to_string(False)} is needed",
            hint="give a literal, or an npz with a key for each leaf, such as arg0.1",
        )  # fmt: skip
    if source.endswith(".npy"):
        return as_leaf(read_npy(source), shape, f"{what}: {source}")
    return _flat_value(source, shape, what)


def _literal_value(text: str, shape: Shape, where: str) -> Any:
    """Return the value of an HLO literal, which may have its shape in front."""
    source, at = Source(where, text), 0
    try:
        if _STARTS_WITH_SHAPE.match(text):
            scanner = Scanner(text)
            given = read_shape(scanner)
            at = scanner.pos
            if not compatible(given, shape):
                raise HloError.at(
                    "shape-mismatch",
                    f"it is {given.to_string(False)}, {shape.to_string(False)} is needed",
                    Span(source, 0, at),
                )
        literal = read_literal(text, shape, at)
    except TextError as e:
        start = at + e.offset
        raise HloError.at(e.code, e.message, Span(source, start, start + 1), e.hint) from None
    if _has_elided(literal):
        raise HloError.at("syntax", "an input cannot be elided", Span(source, 0, len(text)))
    return literal.value


def _has_elided(literal: Literal) -> bool:
    todo = [literal]
    while todo:
        item = todo.pop()
        if item.elided:
            return True
        if item.shape.is_tuple:
            todo.extend(item.elements)
    return False


def _flat_value(source: str, shape: ArrayShape, what: str) -> np.ndarray:
    """Return the value of `2x3xf32=1 2 3 4 5 6`; no numbers are zeros, one fills the array."""
    m = _FLAT.fullmatch(source)
    assert m
    dims = tuple(int(d) for d in m[1].split("x")[:-1])
    given = array(_ALIASES.get(m[2], m[2]), dims)
    if not compatible(given, shape):
        raise HloError.at(
            "shape-mismatch",
            f"{what} is {given.to_string(False)}, {shape.to_string(False)} is needed",
        )
    given = need_size(given, what)
    if m[3] is None:
        return zero_array(given)
    if m[3].startswith("@"):
        return _raw_value(m[3][1:], given)
    numbers = re.sub(r"[\[\]]", " ", m[3])
    count = len(_NUMBER.findall(numbers))
    of = array(given.element_type, (1 if count == 1 else math.prod(dims),))
    values = _literal_value(f"{{{numbers}}}", of, what)
    return np.array(np.broadcast_to(values, given.dims)) if count == 1 else values.reshape(dims)


def _raw_value(path: str, shape: ArrayShape) -> np.ndarray:
    with _reading(path, "raw elements"):
        size = os.path.getsize(path)
        if size != shape.byte_size:
            raise HloError.at(
                "shape-mismatch",
                f"{path} has {size} bytes, {shape.to_string(False)} has {shape.byte_size}",
            )
        flat = np.fromfile(path, f"V{shape.element_type.byte_width}")
    return as_leaf(flat.reshape(shape.dims), shape, path)  # type: ignore[return-value]
