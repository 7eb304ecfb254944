"""Calls of native functions with the interface of XLA's typed FFI, `xla/ffi/api/c_api.h`.

A function is a handler for each stage of a program's life, of which only `execute` is required. It
gets a frame with arrays and attributes, and a table of functions for what it needs of the runtime:
errors, memory, threads, its state.

Structs and functions here are those of version 0.3; older handlers look at the first fields alone.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.host import foreign
from hlo.ops.host.ffi_attributes import TYPE_NUMBERS, FfiAttribute, ffi_attributes
from hlo.ops.spec import OpView
from hlo.values.scan import to_bytes
from hlo.values.types import ArrayShape, Shape, element_type

STAGES = ("instantiate", "prepare", "initialize", "execute")
_VERSION = (0, 3)
_TOKEN = 17
_BUFFER = 1
_ARRAY, _DICTIONARY, _SCALAR, _STRING = range(1, 5)
_INVALID, _NOT_FOUND, _UNIMPLEMENTED = 3, 5, 12
_ALIGNMENT = 64
_TYPES = {number: name for name, number in TYPE_NUMBERS.items()}

_P, _I32, _I64, _SIZE = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t


def _struct(name: str, /, **fields: Any) -> type[ctypes.Structure]:
    """Return a struct of the interface, which begins with its size and its extensions."""
    head = (("struct_size", _SIZE), ("extension_start", _P))
    return type(name, (ctypes.Structure,), {"_fields_": (*head, *fields.items())})


def _pair(name: str, /, **fields: Any) -> type[ctypes.Structure]:
    return type(name, (ctypes.Structure,), {"_fields_": tuple(fields.items())})


_Buffer = _struct("Buffer", dtype=_I32, data=_P, rank=_I64, dims=_P)
_List = _struct("List", size=_I64, types=_P, items=_P)
_Attributes = _struct("Attributes", size=_I64, types=_P, names=_P, items=_P)
_Frame = _struct(
    "CallFrame", api=_P, ctx=_P, stage=_I32, args=_List, rets=_List, attrs=_Attributes, future=_P
)
# Handlers ask for the size without the field that newer ones set.
_FRAME_BYTES = _Frame.future.offset
_Span = _pair("ByteSpan", data=_P, size=_SIZE)
_Scalar = _pair("Scalar", dtype=_I32, value=_P)
_Array = _pair("Array", dtype=_I32, size=_SIZE, data=_P)
_Version = _struct("Version", major=_I32, minor=_I32)

# --- the table of functions ----------------------------------------------------------------------


@dataclass
class _Context:
    """What functions of the table know of the call that they are called from."""

    device: int
    run: int
    states: dict[int, tuple[int, int]]
    memory: dict[int, Any] = field(default_factory=dict)


@dataclass
class _Future:
    """The result of a function that goes on after it has returned."""

    done: threading.Event = field(default_factory=threading.Event)
    error: int = 0


_contexts: dict[int, _Context] = {}
_errors: dict[int, tuple[int, Any]] = {}
_futures: dict[int, _Future] = {}
_numbers = itertools.count(1)
_FUNCTIONS: list[tuple[type[ctypes.Structure], Callable[[Any], int | None]]] = []


def _function(**fields: Any) -> Callable[[Callable[[Any], int | None]], Callable[[Any], int]]:
    """Append a function to the table: it takes a struct of these fields."""
    kind = _struct("Arguments", **fields)

    def add(function: Callable[[Any], int | None]) -> Any:
        _FUNCTIONS.append((kind, function))
        return function

    return add


def _error(code: int, message: str) -> int:
    """Return the handle of a new error."""
    number = next(_numbers)
    _errors[number] = (code, ctypes.create_string_buffer(message.encode()))
    return number


@_function(message=ctypes.c_char_p, code=_I32)
def _error_create(a: Any) -> int:
    return _error(a.code, (a.message or b"").decode(errors="replace"))


@_function(error=_SIZE, message=_P)
def _error_message(a: Any) -> None:
    a.message = ctypes.addressof(_errors[a.error][1])


@_function(error=_SIZE)
def _error_destroy(a: Any) -> None:
    _errors.pop(a.error, None)


@_function()
def _handler_register(a: Any) -> int:
    return _error(_UNIMPLEMENTED, "functions are registered by jax.ffi.register_ffi_target")


@_function(ctx=_SIZE, stream=_P)
def _stream(a: Any) -> int:
    return _error(_UNIMPLEMENTED, "a CPU has no streams")


@_function(name=_Span, type_id=ctypes.POINTER(_I64), info=_P)
def _type_register(a: Any) -> None:
    if not a.type_id[0]:
        a.type_id[0] = next(_numbers)


@_function(ctx=_SIZE, type_id=ctypes.POINTER(_I64), data=_P)
def _user_data(a: Any) -> int:
    return _error(_NOT_FOUND, "the program runs without user data")


@_function(ctx=_SIZE, stage=_I32, type_id=ctypes.POINTER(_I64), state=_P)
def _state_set(a: Any) -> int | None:
    states = _contexts[a.ctx].states
    if a.stage in states:
        return _error(_INVALID, f"there is a state of stage {STAGES[a.stage]} already")
    states[a.stage] = (a.type_id[0], a.state or 0)
    return None


@_function(ctx=_SIZE, stage=_I32, type_id=ctypes.POINTER(_I64), state=_P)
def _state_get(a: Any) -> int | None:
    kind, state = _contexts[a.ctx].states.get(a.stage, (0, 0))
    if not state:
        return _error(_NOT_FOUND, "no state has been set")
    if kind != a.type_id[0]:
        return _error(_INVALID, "the state is of another type")
    a.state = state
    return None


@_function(ctx=_SIZE, size=_SIZE, alignment=_SIZE, data=_P)
def _allocate(a: Any) -> None:
    alignment = max(a.alignment, 1)
    memory = ctypes.create_string_buffer(a.size + alignment)
    a.data = -(-ctypes.addressof(memory) // alignment) * alignment
    _contexts[a.ctx].memory[a.data] = memory


@_function(ctx=_SIZE, size=_SIZE, data=_SIZE)
def _free(a: Any) -> None:
    _contexts[a.ctx].memory.pop(a.data, None)


@_function(ctx=_SIZE, task=_P, data=_P)
def _schedule(a: Any) -> None:
    ctypes.CFUNCTYPE(None, _P)(a.task)(a.data)


@_function(ctx=_SIZE, count=ctypes.POINTER(_I64))
def _thread_count(a: Any) -> None:
    a.count[0] = 1  # the caller's


@_function(future=_SIZE)
def _future_create(a: Any) -> None:
    a.future = next(_numbers)
    _futures[a.future] = _Future()


@_function(future=_SIZE)
def _future_available(a: Any) -> None:
    _futures[a.future].done.set()


@_function(future=_SIZE, error=_SIZE)
def _future_error(a: Any) -> None:
    future = _futures[a.future]
    future.error = a.error
    future.done.set()


@_function(ctx=_SIZE, run=_I64)
def _run_id(a: Any) -> None:
    a.run = _contexts[a.ctx].run


@_function(ctx=_SIZE, device=_I32)
def _device(a: Any) -> None:
    a.device = _contexts[a.ctx].device


@cache
def _api() -> Any:
    """Return the table, which stays for the life of the process."""
    kind = ctypes.CFUNCTYPE(_SIZE, _SIZE)

    def entry(arguments: type[ctypes.Structure], function: Callable[[Any], int | None]) -> Any:
        def call(address: int) -> int:
            try:
                return function(arguments.from_address(address)) or 0
            except Exception as e:
                return _error(_INVALID, f"{type(e).__name__}: {e}")

        return kind(call)

    entries = [entry(*f) for f in _FUNCTIONS]
    table = _struct("Api", version=_Version, internal=_P, entries=_P * len(entries))()
    size = ctypes.sizeof(_Version)
    table.struct_size = ctypes.sizeof(table)
    table.version = _Version(size, None, *_VERSION)
    for n, e in enumerate(entries):
        table.entries[n] = ctypes.cast(e, _P)
    return table, entries


# --- calls ---------------------------------------------------------------------------------------


class TypedFunction:
    """A function of the typed FFI as `hlo.Host.custom_calls` takes one: `f(op, args) -> value`.

    It has the state of its calls, by attributes, for as long as it lives.
    """

    def __init__(self, handlers: Mapping[str, int], device: int = 0) -> None:
        """handlers: addresses by stage, of which `execute` has to be one."""
        kind = ctypes.CFUNCTYPE(_SIZE, _P)
        self._handlers = {stage: kind(at) for stage, at in handlers.items() if at}
        self._device = device
        self._states: dict[tuple[str, str], dict[int, tuple[int, int]]] = {}
        self._lock = threading.Lock()

    def __call__(self, op: OpView, args: Sequence[Any]) -> Any:
        """Return the result of a call. Raises InferError."""
        constraints = op.operand_layout_constraints
        shapes = op.operand_shapes if constraints is None else constraints
        operands = [leaf for a, s in zip(args, shapes, strict=True) for leaf in _operands(a, s)]
        aliased = {
            tuple(a.output): foreign.leaf_numbers(shapes)[a.operand, tuple(a.operand_index)]
            for a in op.output_to_operand_aliasing
        }
        results: dict[tuple[int, ...], tuple[Shape, np.ndarray | None]] = {}
        for path, shape in op.shape.leaves():
            memory = None
            if isinstance(shape, ArrayShape):
                given = operands[aliased[path]][1] if path in aliased else None
                memory = foreign.physical(None, shape)
                if given is not None:
                    memory.reshape(-1)[...] = given.reshape(-1)
                    operands[aliased[path]] = (shape, memory)
            results[path] = (shape, memory)
        self._run(op, operands, list(results.values()))
        values = {
            path: foreign.logical(memory, shape)
            for path, (shape, memory) in results.items()
            if memory is not None and isinstance(shape, ArrayShape)
        }
        return foreign.nested(op.shape, (), values)

    def _run(self, op: OpView, operands: _Leaves, results: _Leaves) -> None:
        keep: list[Any] = []
        attributes = _attributes(ffi_attributes(op), keep)
        key = (op.custom_call_target, str(op.annotations.get("backend_config", "")))
        with self._lock:
            if key not in self._states:
                states: dict[int, tuple[int, int]] = {}
                context = _Context(self._device, 0, states)
                self._stage(op, 0, context, _list([], keep), _list([], keep), attributes)
                self._states[key] = states
        context = _Context(self._device, next(_numbers), dict(self._states[key]))
        arguments, returned = _list(operands, keep), _list(results, keep)
        for stage in range(1, len(STAGES)):
            self._stage(op, stage, context, arguments, returned, attributes)

    def _stage(
        self, op: OpView, stage: int, context: _Context, operands: Any, results: Any,
        attributes: Any,
    ) -> None:  # fmt: skip
        """Call the handler of a stage, if there is one. Raises InferError."""
        handler = self._handlers.get(STAGES[stage])
        if handler is None:
            return
        at = id(context)
        _contexts[at] = context
        frame = _Frame(
            _FRAME_BYTES, None, ctypes.addressof(_api()[0]), at, stage, operands, results,
            attributes, None,
        )  # fmt: skip
        try:
            error = handler(ctypes.addressof(frame))
            if frame.future:
                future = _futures.pop(frame.future)
                future.done.wait()
                error = error or future.error
        finally:
            del _contexts[at]
        if error:
            _, message = _errors.pop(error)
            raise InferError(
                f"custom-call: {op.custom_call_target}: {message.value.decode(errors='replace')}",
                attr="custom_call_target", code="custom-call-failed",
            )  # fmt: skip


# Arrays and tokens of a call: shapes, and memory in their layouts, None for tokens.
_Leaves = list[tuple[Shape, np.ndarray | None]]


def _operands(value: Any, shape: Shape) -> _Leaves:
    """Return the leaves of an operand, arrays of which are copied only if they have to be."""
    found: _Leaves = []
    for path, leaf in shape.leaves():
        array = value
        for index in path:
            array = array[index]
        if not isinstance(leaf, ArrayShape):
            found.append((leaf, None))
            continue
        memory = array.transpose(foreign.dimension_order(leaf))
        is_usable = memory.flags.c_contiguous and memory.ctypes.data % _ALIGNMENT == 0
        found.append((leaf, memory if is_usable else foreign.physical(array, leaf)))
    return found


def _pointers(things: Sequence[Any], keep: list[Any]) -> int:
    """Return the address of an array of pointers to structs."""
    table = (_P * max(1, len(things)))(*map(ctypes.addressof, things))
    keep += [table, *things]
    return ctypes.addressof(table)


def _enums(numbers: Sequence[int], keep: list[Any]) -> int:
    keep.append((_I32 * max(1, len(numbers)))(*numbers))
    return ctypes.addressof(keep[-1])


def _list(leaves: _Leaves, keep: list[Any]) -> Any:
    """Return arguments or results as a handler gets them."""
    buffers = []
    for shape, memory in leaves:
        dims: Any = (_I64 * 1)()
        kind, data, rank = _TOKEN, None, 0
        if isinstance(shape, ArrayShape) and memory is not None:
            kind, data = TYPE_NUMBERS[shape.element_type.name], memory.ctypes.data
            rank, dims = shape.rank, (_I64 * max(1, shape.rank))(*shape.dims)
        keep += [dims, memory]
        buffers.append(
            _Buffer(ctypes.sizeof(_Buffer), None, kind, data, rank, ctypes.addressof(dims))
        )
    types = _enums([_BUFFER] * len(buffers), keep)
    return _List(ctypes.sizeof(_List), None, len(buffers), types, _pointers(buffers, keep))


def _attributes(attributes: Mapping[str, FfiAttribute], keep: list[Any]) -> Any:
    """Return attributes as a handler gets them: in the order of their names."""
    kinds, names, items = [], [], []
    for name in sorted(attributes):
        kind, item = _attribute(attributes[name], keep)
        kinds.append(kind)
        names.append(_span(to_bytes(name), keep))
        items.append(item)
    return _Attributes(
        ctypes.sizeof(_Attributes), None, len(items), _enums(kinds, keep), _pointers(names, keep),
        _pointers(items, keep),
    )  # fmt: skip


def _attribute(a: FfiAttribute, keep: list[Any]) -> tuple[int, Any]:
    value = a.value
    if isinstance(value, str):
        return _STRING, _span(to_bytes(value), keep)
    if isinstance(value, list) and any(isinstance(v, FfiAttribute) for v in value):
        value = {str(n): v for n, v in enumerate(value)}
    if isinstance(value, dict):
        return _DICTIONARY, _attributes(value, keep)
    number = a.type_number or TYPE_NUMBERS["pred"]
    data = np.array(value).astype(element_type(_TYPES[number]).dtype)
    keep.append(data)
    if isinstance(value, list):
        return _ARRAY, _Array(number, data.size, data.ctypes.data)
    return _SCALAR, _Scalar(number, data.ctypes.data)


def _span(data: bytes, keep: list[Any]) -> Any:
    keep.append(ctypes.create_string_buffer(data))
    return _Span(ctypes.addressof(keep[-1]), len(data))
