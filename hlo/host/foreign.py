"""Calls of functions in libraries, with the interface of `hlo/include/hlo_ffi.h`, on numpy arrays.

The types here are that header's. Compiled code makes such calls itself; this is for the
interpreter.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hlo.errors import HloError, InferError
from hlo.io.files import named_file
from hlo.ops.host.ffi_attributes import API_NUMBERS, TYPE_NUMBERS, FfiAttribute, ffi_attributes
from hlo.ops.rules import need_one_size
from hlo.ops.spec import OpView
from hlo.values.arrays import TOKEN_VALUE
from hlo.values.scan import to_bytes
from hlo.values.types import ArrayShape, Shape, TupleShape

# Denotes the process itself in a list of libraries.
PROCESS = "process"
MESSAGE_BYTES = 4096
# Alignment of memory, for functions that use vectors.
_ALIGNMENT = 64

_POINTER, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64


class FfiShape(ctypes.Structure):
    """`hlo_ffi_shape`"""

    _fields_ = (("type", _I32), ("rank", _I32), ("dims", _POINTER), ("minor_to_major", _POINTER))


class _Value(ctypes.Union):
    _fields_ = (("integer", _I64), ("address", _POINTER))


class FfiAttributeStruct(ctypes.Structure):
    """`hlo_ffi_attribute`"""

    _fields_ = (
        ("name", ctypes.c_char_p), ("kind", _I32), ("type", _I32), ("count", _I64),
        ("value", _Value),
    )  # fmt: skip


class FfiOp(ctypes.Structure):
    """`hlo_ffi_op`"""

    _fields_ = (
        ("target", ctypes.c_char_p), ("config", ctypes.c_char_p), ("config_size", _I64),
        ("api_version", _I32), ("result_is_tuple", _I32),
        ("num_operands", _I64), ("operands", _POINTER),
        ("num_results", _I64), ("results", _POINTER),
        ("num_attributes", _I64), ("attributes", _POINTER),
    )  # fmt: skip


class FfiCall(ctypes.Structure):
    """`hlo_ffi_call`"""

    _fields_ = (
        ("size", _I64), ("state", _POINTER), ("op", _POINTER), ("operands", _POINTER),
        ("results", _POINTER), ("message", _POINTER), ("message_size", _I64),
    )  # fmt: skip


class FfiStatus(ctypes.Structure):
    """`XlaCustomCallStatus`"""

    _fields_ = (("call", _POINTER), ("failed", _I32))


# --- libraries ----------------------------------------------------------------------------------


@functools.cache
def library(path: str) -> ctypes.CDLL:
    """Return a loaded library; it stays for the life of the process. Raises HloError."""
    # Without a slash the loader would search its own path.
    name = None if path == PROCESS else str(named_file(path))
    if name is not None and os.path.exists(name):
        name = os.path.abspath(name)
    try:
        return ctypes.CDLL(name, mode=getattr(os, "RTLD_NOW", 0) | getattr(os, "RTLD_LOCAL", 0))
    except OSError as e:
        hint = None
        if "XlaCustomCallStatus" in str(e):
            hint = "hlo_ffi.h defines it: include that header in place of XLA's"
        raise HloError.at("bad-library", f"{path} cannot be loaded: {e}", hint=hint) from None


def address_of(libraries: Sequence[str], name: str) -> int | None:
    """Return the address of a function in the first library that defines it. Raises HloError.

    The loader also searches the dependencies of a library, such as the C library with its `system`;
    modules must not call those.
    """
    for path in libraries:
        loaded = library(str(path))
        try:
            address = ctypes.cast(loaded[name], _POINTER).value
        except (AttributeError, ValueError):  # no such symbol, or an invalid name
            continue
        if address is not None and _is_own_function(str(path), loaded, address):
            return address
    return None


def _is_own_function(path: str, loaded: ctypes.CDLL, address: int) -> bool:
    """True for the address of a function in the loaded file itself.

    The functions of the main program count too, unless that is Python.
    """
    if os.name != "posix":
        return True  # Windows searches only the library's own exports
    system = ctypes.CDLL(None)
    if not hasattr(system, "dladdr1"):  # not glibc: compare file names
        named = sys.executable if path == PROCESS else path
        return _is_same_file(_file_of(system, address), named)
    entry = _asked(system, address, _SYMBOL_ENTRY)
    # There is no entry for a function chosen by a resolver (IFUNC).
    if entry and ctypes.c_uint8.from_address(entry + _SYMBOL_INFO_AT).value & 0xF not in _FUNCTIONS:
        return False
    python = ctypes.cast(ctypes.pythonapi.Py_GetVersion, _POINTER).value
    here = _asked(system, address, _LINK_MAP)
    if path == PROCESS and here == _asked(system, python, _LINK_MAP):
        return False
    own = _POINTER()
    system.dlinfo(_POINTER(loaded._handle), _HANDLE_LINK_MAP, ctypes.byref(own))
    return here is not None and here == own.value


class _DlInfo(ctypes.Structure):
    """`Dl_info`: the file that an address is in, and the symbol before it."""

    _fields_ = (
        ("file", ctypes.c_char_p), ("base", _POINTER), ("symbol", ctypes.c_char_p),
        ("address", _POINTER),
    )  # fmt: skip


# Requests for `dladdr1` and `dlinfo`: the symbol's entry, and the loaded file.
_SYMBOL_ENTRY, _LINK_MAP, _HANDLE_LINK_MAP = 1, 2, 2
_FUNCTIONS = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
# Offset of the type in an entry of an ELF symbol table: `st_info`.
_SYMBOL_INFO_AT = 4 if ctypes.sizeof(_POINTER) == 8 else 12


def _asked(system: ctypes.CDLL, address: int | None, what: int) -> int | None:
    """Return the answer of a glibc query about an address: itself an address, or None."""
    info, found = _DlInfo(), _POINTER()
    known = system.dladdr1(_POINTER(address), ctypes.byref(info), ctypes.byref(found), what)
    return found.value if known else None


def _file_of(system: ctypes.CDLL, address: int) -> str | None:
    info = _DlInfo()
    known = system.dladdr(_POINTER(address), ctypes.byref(info))
    return os.fsdecode(info.file) if known and info.file else None


def _is_same_file(a: str | None, b: str) -> bool:
    try:
        return a is not None and os.path.samefile(a, b)
    except OSError:
        return False


# --- calls --------------------------------------------------------------------------------------


def need_version(op: OpView) -> None:
    """Raise InferError unless a custom call has an API version for native functions."""
    version = op.api_version
    if API_NUMBERS.get(version, 0) not in (1, 2, 3, 4):
        raise InferError(
            f"custom-call: {op.custom_call_target} is a native function, and {version} "
            "does not say what it takes",
            attr="api_version", code="bad-value",
        )  # fmt: skip


def call(address: int, op: OpView, args: Sequence[Any]) -> Any:
    """Call the function of a custom call; returns its result. Raises InferError."""
    constraints = op.operand_layout_constraints
    shapes = op.operand_shapes if constraints is None else constraints
    operands = [
        physical(a, s) for arg, shape in zip(args, shapes, strict=True)
        for a, s in _leaves(arg, shape)
    ]  # fmt: skip
    declared = {path: s for path, s in op.shape.leaves() if isinstance(s, ArrayShape)}
    results = {path: physical(None, s) for path, s in declared.items()}
    numbers = leaf_numbers(shapes)
    for alias in op.output_to_operand_aliasing:
        need_one_size(op, alias)
        at = numbers[alias.operand, tuple(alias.operand_index)]
        # The operand was copied: its memory becomes the result's.
        results[tuple(alias.output)] = operands[at]
    failed, message = _call(address, op, shapes, operands, list(results.values()))
    if failed:
        raise InferError(
            f"custom-call: {op.custom_call_target}: {message or f'returned {failed}'}",
            attr="custom_call_target", code="custom-call-failed",
        )  # fmt: skip
    values = {path: logical(results[path], s) for path, s in declared.items()}
    return nested(op.shape, (), values)


def _call(
    address: int,
    op: OpView,
    shapes: Sequence[Shape],
    operands: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
) -> tuple[int, str]:
    """Return the function's status, 0 for success, and its message."""
    keep: list[Any] = []
    described = _describe(op, shapes, keep)
    message = ctypes.create_string_buffer(MESSAGE_BYTES)
    tables = [_addresses(arrays) for arrays in (operands, results)]
    frame = FfiCall(
        ctypes.sizeof(FfiCall), None, ctypes.addressof(described), ctypes.addressof(tables[0]),
        ctypes.addressof(tables[1]), ctypes.addressof(message), MESSAGE_BYTES,
    )  # fmt: skip
    version = described.api_version
    if version == 4:
        failed = ctypes.CFUNCTYPE(_I32, _POINTER)(address)(ctypes.addressof(frame))
    else:
        status = FfiStatus(ctypes.addressof(frame), 0)
        out = ctypes.addressof(tables[1]) if described.result_is_tuple else (
            results[0].ctypes.data if results else None
        )  # fmt: skip
        values: list[Any] = [_POINTER(out), _POINTER(ctypes.addressof(tables[0]))]
        if version == 3:
            values += [described.config, ctypes.c_size_t(described.config_size)]
        if version >= 2:
            values.append(ctypes.byref(status))
        ctypes.CFUNCTYPE(None)(address)(*values)
        failed = status.failed
    return failed, message.value.decode(errors="replace")


def _addresses(arrays: Sequence[np.ndarray]) -> Any:
    table = (ctypes.c_size_t * max(1, len(arrays)))()
    table[: len(arrays)] = [a.ctypes.data for a in arrays]
    return table


def _leaves(value: Any, shape: Shape) -> list[tuple[np.ndarray, ArrayShape]]:
    if isinstance(shape, TupleShape):
        pairs = zip(value, shape.elements, strict=True)
        return [leaf for v, s in pairs for leaf in _leaves(v, s)]
    return [(value, shape)] if isinstance(shape, ArrayShape) else []


def leaf_numbers(shapes: Sequence[Shape]) -> dict[tuple[int, tuple[int, ...]], int]:
    found: dict[tuple[int, tuple[int, ...]], int] = {}
    for n, shape in enumerate(shapes):
        for path, leaf in shape.leaves():
            if isinstance(leaf, ArrayShape):
                found[n, path] = len(found)
    return found


def dimension_order(shape: ArrayShape) -> tuple[int, ...]:
    """Return the dimensions, slowest-varying first."""
    return shape.layout.minor_to_major[::-1] if shape.layout else tuple(range(shape.rank))


def physical(array: np.ndarray | None, shape: ArrayShape) -> np.ndarray:
    """Return aligned memory in a shape's layout, initialized from an array if one is given."""
    order = dimension_order(shape)
    dims = tuple(shape.dims[d] for d in order)
    dtype = shape.element_type.dtype
    size = dtype.itemsize * shape.num_elements
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    skip = -raw.ctypes.data % _ALIGNMENT
    memory = raw[skip : skip + size].view(dtype).reshape(dims)
    if array is not None:
        memory[...] = array.transpose(order)
    return memory


def logical(memory: np.ndarray, shape: ArrayShape) -> np.ndarray:
    return memory.transpose(np.argsort(dimension_order(shape))) if shape.rank else memory


def nested(shape: Shape, path: tuple[int, ...], values: Mapping[tuple[int, ...], Any]) -> Any:
    if isinstance(shape, TupleShape):
        return tuple(nested(s, (*path, n), values) for n, s in enumerate(shape.elements))
    return values[path] if isinstance(shape, ArrayShape) else TOKEN_VALUE


# --- descriptions -------------------------------------------------------------------------------


def _describe(op: OpView, operands: Sequence[Shape], keep: list[Any]) -> FfiOp:
    """Return an operation's description for its function. `keep` collects objects to keep alive."""
    version = API_NUMBERS[op.api_version]
    config = to_bytes(str(op.annotations.get("backend_config", "")))
    attributes = ffi_attributes(op) if version == 4 else {}
    parts = [
        [s for _, s in leaves if isinstance(s, ArrayShape)]
        for leaves in ([leaf for s in operands for leaf in s.leaves()], list(op.shape.leaves()))
    ]
    return FfiOp(
        to_bytes(op.custom_call_target), config, len(config), version,
        isinstance(op.shape, TupleShape),
        len(parts[0]), _shapes(parts[0], keep), len(parts[1]), _shapes(parts[1], keep),
        len(attributes), _attributes(attributes, keep),
    )  # fmt: skip


def _numbers(values: Sequence[int], keep: list[Any]) -> int | None:
    if not values:
        return None
    keep.append((_I64 * len(values))(*values))
    return ctypes.addressof(keep[-1])


def _shapes(shapes: Sequence[ArrayShape], keep: list[Any]) -> int:
    items = [
        FfiShape(
            TYPE_NUMBERS[s.element_type.name], s.rank, _numbers(s.dims, keep),
            _numbers(dimension_order(s)[::-1], keep),
        )
        for s in shapes
    ]  # fmt: skip
    keep.append((FfiShape * len(items))(*items))
    return ctypes.addressof(keep[-1])


def _attributes(attributes: Mapping[str, FfiAttribute], keep: list[Any]) -> int:
    items = (FfiAttributeStruct * len(attributes))()
    keep.append(items)
    for item, (name, a) in zip(items, attributes.items(), strict=True):
        item.kind, item.count, value = a.in_c()
        item.name, item.type = to_bytes(name), a.type_number
        if isinstance(value, int):
            item.value.integer = value
        elif isinstance(value, bytes):
            keep.append(ctypes.create_string_buffer(value))
            item.value.address = ctypes.addressof(keep[-1])
        elif isinstance(value, dict):
            item.value.address = _attributes(value, keep)
        else:
            item.value.address = _numbers(value, keep)
    return ctypes.addressof(items)
