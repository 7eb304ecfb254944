"""Files: HLO text, numpy's npy and npz, and values as text.

Nothing is ever unpickled, and a file is written whole or not at all. An element type that numpy
does not know is written as bytes of its width (`|V2` for bf16, `|V1` for f8), which plain numpy
opens, `.view(ml_dtypes.bfloat16)` restores, and any parameter of that width accepts. Sub-byte
integers are written as int8 or uint8.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import lzma
import math
import os
import struct
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO
from typing import Literal as OneOf

import numpy as np

from hlo.errors import HloError
from hlo.support.memory import check_available
from hlo.values.literal import Literal, brace_pairs, write_literal
from hlo.values.scan import to_bytes
from hlo.values.types import ArrayShape, element_type_of

# --- reading ------------------------------------------------------------------------------------


def named_file(path: str | Path) -> Path:
    """Return a path that the system accepts; every open() goes through here.

    Raises HloError for invalid names.
    """
    name = str(path)
    if not name or "\0" in name:
        raise HloError.at("bad-file", f"{name!r} is not a valid file name")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise HloError.at(
            "bad-file", f"{name!r} is not a valid file name: it is not Unicode text"
        ) from None
    return Path(path)


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file. Raises HloError."""
    try:
        return named_file(path).read_bytes()
    except OSError as e:
        raise HloError.at("bad-file", f"{path}: {reason_of(e)}") from None


def decode(data: bytes, name: str) -> str:
    """Decode UTF-8, without the byte order mark that Windows editors put first.

    Raises HloError; `name` names the bytes in it.
    """
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        guess = "this seems to be UTF-16" if is_utf16 else "is this HLO text?"
        raise HloError.at(
            "bad-file", f"{name}: byte {e.start} is not UTF-8 text; {guess}"
        ) from None


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file. Raises HloError."""
    return decode(read_bytes(path), str(path))


def reason_of(error: OSError) -> str:
    """Return the system's reason of an OSError, for error messages."""
    return (error.strerror or str(error)).lower()


# What numpy raises for broken or foreign files. RuntimeError is an encrypted archive; the header of
# an npy is a Python expression, with syntax errors and others.
_FILE_ERRORS = (
    OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error,
    RuntimeError, SyntaxError, tokenize.TokenError, TypeError, OverflowError,
)  # fmt: skip


@contextlib.contextmanager
def _reading(path: str | Path, what: str) -> Iterator[IO[bytes]]:
    """Open a file, and turn any error while reading it into an HloError."""
    place = named_file(path)
    try:
        # numpy warns of overflowing sizes before it rejects them.
        with open(place, "rb") as file, np.errstate(all="ignore"):
            yield file
    except MemoryError:
        raise HloError.at(
            "out-of-memory", f"{path}: not enough memory for its declared size"
        ) from None
    except _FILE_ERRORS as e:
        if isinstance(e, OSError) and e.errno is not None:
            message = reason_of(e)
        elif "allow_pickle" in str(e):
            message = "it holds Python objects, which are never unpickled"
        else:
            message = f"broken, or not {what}: {str(e) or type(e).__name__}"
        raise HloError.at("bad-file", f"{path}: {message}") from None


def _is_archive(file: IO[bytes]) -> bool:
    """Tell an npz from an npy by its first bytes; anything else fails later."""
    start = file.read(2)
    file.seek(0)
    return start == b"PK"


# Larger arrays are memory-mapped, so that pages are loaded on access.
_MAPPED_BYTES = 1 << 20


def read_npy(path: str | Path) -> np.ndarray:
    """Return the array in an npy file; a large one is a read-only view. Raises HloError."""
    with _reading(path, "an npy file") as file:
        if not _is_archive(file):
            return _stored_array(file, 0)
    raise HloError.at(
        "bad-file", f"{path}: an npz of several arrays, not an npy", hint="--inputs takes it"
    )


def read_npz(path: str | Path) -> dict[str, np.ndarray]:
    """Return the arrays in an npz file by name; large uncompressed ones are views.

    Raises HloError.
    """
    with _reading(path, "an npz file") as file, zipfile.ZipFile(file) as archive:
        arrays = {}
        members = archive.infolist()
        packed = [m.file_size for m in members if m.compress_type != zipfile.ZIP_STORED]
        check_available(f"{path}, unpacked,", {"arrays": sum(packed)})
        for member in members:
            key = member.filename.removesuffix(".npy")
            if member.compress_type == zipfile.ZIP_STORED and member.file_size >= _MAPPED_BYTES:
                arrays[key] = _stored_array(file, _start_of(file, member), member.file_size)
                continue
            with archive.open(member) as content:
                arrays[key] = np.lib.format.read_array(content, allow_pickle=False)
        return arrays


def _start_of(file: IO[bytes], member: zipfile.ZipInfo) -> int:
    """Return the offset of the content of an uncompressed member of an archive."""
    file.seek(member.header_offset)
    header = file.read(30)
    if not header.startswith(b"PK\3\4") or member.flag_bits & 1:
        raise zipfile.BadZipFile(f"{member.filename} has no header, or is encrypted")
    lengths = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    return member.header_offset + len(header) + sum(lengths)


def _stored_array(file: IO[bytes], start: int, size: int | None = None) -> np.ndarray:
    """Return the array of an npy that begins at an offset of a file, mapped if it is large.

    size: the bytes of the npy, by default all that follow.
    """
    size = os.fstat(file.fileno()).st_size - start if size is None else size
    file.seek(start)
    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0
    }  # fmt: skip
    if size >= _MAPPED_BYTES and version in readers:
        shape, is_fortran, dtype = readers[version](file)
        begin, count = file.tell(), math.prod(shape) * dtype.itemsize
        if count >= _MAPPED_BYTES and not dtype.hasobject:
            if begin + count > start + size:
                raise ValueError(f"{count} bytes are needed, {start + size - begin} are there")
            order: OneOf["F", "C"] = "F" if is_fortran else "C"
            return np.asarray(np.memmap(file, dtype, "r", begin, shape, order))
    file.seek(start)
    return np.lib.format.read_array(file, allow_pickle=False)


def read_raw(path: str | Path, shape: ArrayShape) -> np.ndarray:
    """Read an array of a shape from a raw file: little-endian, row-major order."""
    with _reading(path, "raw elements") as file:
        size = os.fstat(file.fileno()).st_size
        if size == shape.byte_size:
            return np.fromfile(file, f"V{shape.element_type.byte_width}").reshape(shape.dims)
    raise HloError.at(
        "shape-mismatch",
        f"{path} has {size} bytes, {shape.to_string(False)} has {shape.byte_size}",
    )


# --- writing ------------------------------------------------------------------------------------


def storable(value: np.ndarray) -> np.ndarray:
    """Return an array in a dtype that numpy's files can store; see the module's docstring."""
    et = element_type_of(value.dtype)
    if et.dtype.isbuiltin == 1:
        return value
    if et.is_integer:
        return value.astype(np.int8 if et.is_signed else np.uint8)
    return np.array(value, order="C").view(f"V{et.byte_width}")


def need_places(outputs: Sequence[str], inputs: Sequence[str] = ()) -> None:
    """Raise HloError unless `outputs` are writable paths, all different, and none is an input.

    Checked before the work starts, not after it.
    """
    read = {os.path.realpath(named_file(path)) for path in inputs}
    written: set[str] = set()
    for path in outputs:
        place = os.path.realpath(named_file(path))
        if place in read:
            raise HloError.at("bad-output", f"{path} is an input and is not overwritten")
        if place in written:
            raise HloError.at("bad-output", f"{path} would be written twice")
        written.add(place)
        folder = os.path.dirname(place)
        if os.path.isdir(place):
            reason = errno.EISDIR
        elif os.path.exists(place) and not os.path.isfile(place):
            continue  # a device or a pipe
        elif not os.path.isdir(folder):
            reason = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
        elif not os.access(folder, os.W_OK):
            reason = errno.EACCES
        else:
            continue
        raise HloError.at("bad-file", f"cannot write {path}: {os.strerror(reason).lower()}")


def write_npz(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name, atomically. Raises HloError."""
    with _replacing(path) as file:
        # savez takes names as keywords, which may clash with its own; an npz is just a zip of npys.
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, value in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, storable(value), allow_pickle=False)


def write_npy(path: str | Path, value: np.ndarray) -> None:
    """Write one array, atomically. Raises HloError."""
    with _replacing(path) as file:
        np.lib.format.write_array(file, storable(value), allow_pickle=False)


@contextlib.contextmanager
def _replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing that replaces the file on success."""
    path = named_file(path)
    try:
        if path.exists() and not path.is_file():
            # Devices and pipes cannot be replaced; open() fails for a directory.
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
        raise HloError.at("bad-file", f"cannot write {path}: {reason_of(e)}") from None


def _mode(target: Path) -> int:
    """Return the permissions of the file to replace, or those of a new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def write_text(path: str | Path, text: str) -> None:
    """Write a text, atomically. Raises HloError."""
    with _replacing(path) as file:
        file.write(to_bytes(text))


def make_folder(path: str | Path) -> None:
    """Create a folder if it does not exist. Raises HloError."""
    try:
        named_file(path).mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise HloError.at("bad-file", f"cannot make {path}: {reason_of(e)}") from None


def write_files(contents: Mapping[str, bytes]) -> None:
    """Write several files. None of them changes unless all could be written. Raises HloError."""
    with contextlib.ExitStack() as stack:
        # Each replaces its target when the stack is closed.
        for path, data in contents.items():
            file = stack.enter_context(_replacing(path))
            file.write(data)
            file.flush()


# Of an array without elements, at most so many brace pairs are written.
_MOST_BRACES = 1 << 24

# --- values as text -----------------------------------------------------------------------------


def literal_text(value: np.ndarray) -> str:
    """Return an array as shape and HLO literal: a form that inputs accept.

    Raises HloError for an array without elements but with too many braces: f32[1000000000,0].
    """
    literal = Literal.of(value)
    if not value.size and brace_pairs(value.shape) > _MOST_BRACES:
        raise HloError.at(
            "too-large",
            f"{literal.shape.to_string(False)} has no elements, but {brace_pairs(value.shape)} "
            f"pairs of braces as text",
            hint="write it to an .npy file",
        )
    return f"{literal.shape.to_string(False)} {write_literal(literal)}"
