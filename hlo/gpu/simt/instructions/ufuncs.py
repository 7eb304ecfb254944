"""numpy's universal functions whose loops are code of LLVM.

What numpy has no function for, as a fused multiply-add, would take dozens of its calls. Such a
function takes as long as one.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import llvmlite.binding as llvm
import numpy as np

# What a ufunc refers to has to live as long as it, and those live forever.
_KEPT: list[Any] = []
_NONE = -1
_LOCK = threading.Lock()
_Pointers = ctypes.POINTER(ctypes.c_void_p)


@cache
def _constructor() -> Callable[..., Any]:
    """Return PyUFunc_FromFuncAndData of numpy's C interface."""
    capsule = ctypes.pythonapi.PyCapsule_GetPointer
    capsule.restype, capsule.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = capsule(import_module("numpy._core._multiarray_umath")._UFUNC_API, None)
    # The second entry of the table, since numpy has one.
    address = ctypes.cast(table, _Pointers)[1]
    int_, pointer = ctypes.c_int, ctypes.c_void_p
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, pointer, pointer, pointer, int_, int_, int_, int_, ctypes.c_char_p,
        ctypes.c_char_p, int_,
    )  # fmt: skip
    made: Callable[..., Any] = prototype(address)
    return made


@cache
def _engine(level: int) -> llvm.ExecutionEngine:
    """Return what holds all code that is compiled at a level of optimization."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=level,
        jit=True,
    )  # fmt: skip
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def native_functions(text: str, names: Sequence[str], level: int = 0) -> list[int]:
    """Return the addresses of functions of LLVM IR, whose names no other text may have.

    level: of LLVM's optimization. Most code runs for microseconds, and is compiled quickly.
    """
    with _LOCK:
        engine = _engine(level)
        module = llvm.parse_assembly(text)
        module.data_layout = str(engine.target_data)
        engine.add_module(module)
        engine.finalize_object()
        return [int(engine.get_function_address(name)) for name in names]


def make_ufunc(
    name: str, loop: int, inputs: Sequence[np.dtype[Any]], outputs: Sequence[np.dtype[Any]]
) -> Callable[..., Any]:
    """Return a ufunc whose loop is at an address: f(arguments, count, strides, data)."""
    types = bytes(t.num for t in (*inputs, *outputs))
    loops, data = (ctypes.c_void_p * 1)(loop), (ctypes.c_void_p * 1)(None)
    signature = ctypes.create_string_buffer(types)
    label = name.encode()
    _KEPT.append((loops, data, signature, label))
    made: Callable[..., Any] = _constructor()(
        ctypes.addressof(loops), ctypes.addressof(data), ctypes.addressof(signature), 1,
        len(inputs), len(outputs), _NONE, label, b"", 0,
    )  # fmt: skip
    return made


def loop_text(
    name: str, inputs: Sequence[str], outputs: Sequence[str], lines: Sequence[str],
    results: Sequence[str],
) -> str:  # fmt: skip
    """Return LLVM IR of the loop of a ufunc.

    inputs, outputs: LLVM's types. lines: of the body, where inputs are `%i0`, `%i1`, ...; results:
    the values that it leaves.
    """
    types = (*inputs, *outputs)
    entry, body = [], []
    for n in range(len(types)):
        entry += [
            f"%ap{n} = getelementptr ptr, ptr %args, i64 {n}",
            f"%a{n} = load ptr, ptr %ap{n}",
            f"%sp{n} = getelementptr i64, ptr %steps, i64 {n}",
            f"%s{n} = load i64, ptr %sp{n}",
        ]
        body += [f"%o{n} = mul i64 %i, %s{n}", f"%x{n} = getelementptr i8, ptr %a{n}, i64 %o{n}"]
    for n, type_ in enumerate(inputs):
        body.append(f"%i{n} = load {type_}, ptr %x{n}, align 1")
    body += lines
    for n, (type_, value) in enumerate(zip(outputs, results, strict=True), len(inputs)):
        body.append(f"store {type_} {value}, ptr %x{n}, align 1")
    return "\n".join([
        f"define void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{",
        "entry:", "%n = load i64, ptr %dims", *entry, "br label %head",
        "head:", "%i = phi i64 [0, %entry], [%next, %body]", "%more = icmp slt i64 %i, %n",
        "br i1 %more, label %body, label %end",
        "body:", *body, "%next = add i64 %i, 1", "br label %head",
        "end:", "ret void", "}",
    ])  # fmt: skip
