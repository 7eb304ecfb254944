"""Instructions of units that this machine may lack, as what their manuals say in LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from hlo.codegen.kernels.matmul.microkernels import Microkernel
from hlo.codegen.llvm import Builder, Index, Val
from hlo.codegen.loops.vectors import define, vector_constant
from hlo.llvm import Function, as_vector, vector_type

# The tile registers, 16 rows of 64 bytes each, and their configuration.
_TILES, _CONFIG = "emulated.tiles", "emulated.config"
_TILE, _ROW = 1024, 64


def emulated(kernel: Microkernel) -> Microkernel:
    """Return a microkernel that runs on every processor: instructions of its unit are calls."""

    def emit(b: Builder, of: Microkernel) -> None:
        with _redirected(b):
            kernel.emit(b, replace(of, emit=kernel.emit))

    def around(write: Callable[[Builder], None] | None) -> Callable[[Builder], None] | None:
        def written(b: Builder) -> None:
            assert write is not None
            with _redirected(b):
                write(b)

        return None if write is None else written

    return replace(
        kernel, emit=emit, prologue=around(kernel.prologue), epilogue=around(kernel.epilogue),
        features=frozenset(),
    )  # fmt: skip


@contextmanager
def _redirected(b: Builder) -> Iterator[None]:
    """Have calls of units' intrinsic functions go to functions of this file."""
    call, call_void, declare = b.call, b.call_void, b.module.declare

    def redirected(name: str, args: Sequence[Val], type_: str) -> Val:
        if _is_unit(name):
            name = _pure(b, name, args, type_)
        return call(name, args, type_)

    def redirected_void(name: str, args: Sequence[Val]) -> None:
        if _is_unit(name):
            name = _tile_function(b, name, args)
            args = [Val("i64", x.name) if x.type == "i8" else x for x in args]
        call_void(name, args)

    def declared(name: str, *rest: object) -> None:
        if not _is_unit(name):
            declare(name, *rest)  # type: ignore[arg-type]

    b.call, b.call_void = redirected, redirected_void  # type: ignore[method-assign]
    b.module.declare = declared  # type: ignore[method-assign]
    try:
        yield
    finally:
        b.call, b.call_void, b.module.declare = call, call_void, declare  # type: ignore[method-assign]


def _is_unit(name: str) -> bool:
    return name.startswith("llvm.x86.")


# --- vectors ------------------------------------------------------------------------------------


def _pure(b: Builder, name: str, args: Sequence[Val], type_: str) -> str:
    """Define a function of vectors; returns its name."""
    symbol = name.replace("llvm.", "emulated.")
    if symbol in b.module.functions:
        return symbol
    function = b.module.add(Function(
        symbol, [f"{a.type} %a{n}" for n, a in enumerate(args)], ("noinline", "nounwind"), type_,
        linkage="internal",
    ))  # fmt: skip
    inner = Builder(b.module)
    total, x, y = (Val(a.type, f"%a{n}") for n, a in enumerate(args))
    kind = name.split(".")[3]
    if kind == "dpbf16ps":
        result = _add_bf16_pairs(inner, total, x, y)
    else:
        signs = {"vpdpbusd": "us", "vpdpbssd": "ss", "vpdpbuud": "uu"}[kind]
        result = _add_quads(inner, total, x, y, signs)
    inner.ret(result)
    inner.finish(function)
    return symbol


def _add_quads(b: Builder, total: Val, x: Val, y: Val, signs: str) -> Val:
    """Add four products of bytes to each lane. signs: `s` or `u` of each operand."""
    lanes = as_vector(x.type).lanes
    wide = vector_type(lanes, "i32")
    p, q = (
        b.cast("sext" if sign == "s" else "zext", v, wide)
        for v, sign in zip((x, y), signs, strict=True)
    )
    product = b.binary("mul", p, q)
    for n in range(4):
        total = b.binary("add", total, b.shuffle_vector(product, product, range(n, lanes, 4)))
    return total


def _add_bf16_pairs(b: Builder, total: Val, x: Val, y: Val) -> Val:
    """Add the product of the odd elements to each lane, then that of the even ones."""
    lanes = as_vector(x.type).lanes
    for n in (1, 0):
        p, q = (_widened(b, v, range(n, lanes, 2)) for v in (x, y))
        total = _flushed(b, b.intrinsic("fma", total.type, [p, q, _flushed(b, total)]))
    return total


def _widened(b: Builder, v: Val, lanes: Sequence[int]) -> Val:
    """Return lanes of a vector of bf16 as f32, zeros for denormals."""
    bits = b.cast("bitcast", v, vector_type(as_vector(v.type).lanes, "i16"))
    part = b.shuffle_vector(bits, bits, lanes)
    wide = b.cast("zext", part, vector_type(len(lanes), "i32"))
    shifted = b.binary("shl", wide, vector_constant("i32", [16] * len(lanes)))
    return _flushed(b, b.cast("bitcast", shifted, vector_type(len(lanes), "float")))


def _flushed(b: Builder, v: Val) -> Val:
    """Return zeros for denormals, of their sign."""
    lanes = as_vector(v.type).lanes
    bits = b.cast("bitcast", v, vector_type(lanes, "i32"))
    exponent = b.binary("and", bits, vector_constant("i32", [0x7F800000] * lanes))
    is_small = b.icmp("eq", exponent, Val(bits.type, "zeroinitializer"))
    sign = b.binary("and", bits, vector_constant("i32", [-(1 << 31)] * lanes))
    kept = b.cast("sext", is_small, bits.type)
    other = b.binary("and", bits, b.binary("xor", kept, vector_constant("i32", [-1] * lanes)))
    return b.cast("bitcast", b.binary("or", b.binary("and", sign, kept), other), v.type)


# --- tiles --------------------------------------------------------------------------------------


def _tile_function(b: Builder, name: str, args: Sequence[Val]) -> str:
    """Define a function for an instruction on tiles; returns its name."""
    # Object files of one module share them.
    b.module.define(_TILES, f"linkonce_odr global [{8 * _TILE} x i8] zeroinitializer, align 64")
    b.module.define(_CONFIG, "linkonce_odr global [64 x i8] zeroinitializer, align 64")
    kind = name.removeprefix("llvm.x86.")
    parameters = ", ".join(
        f"{'i64' if a.type == 'i8' else a.type} %a{n}" for n, a in enumerate(args)
    )
    write = {
        "ldtilecfg": lambda b: _copy_bytes(b, f"@{_CONFIG}", "%a0", 64),
        "tilerelease": lambda b: None,
        "tilezero": _zero,
        "tileloadd64": lambda b: _move(b, is_load=True),
        "tilestored64": lambda b: _move(b, is_load=False),
    }.get(kind, lambda b: _multiply(b, kind))
    return define(b.module, f"emulated.{kind}", parameters, write)


def _size(b: Builder, tile: str) -> tuple[str, str]:
    """Return how many rows a tile has, and bytes in a row, as it is configured."""
    config = f"@{_CONFIG}"
    rows = b.load("i8", b.element_address(config, "i8", b.add(48, tile)))
    row = b.load("i16", b.element_address(config, "i8", b.add(16, b.mul(tile, 2))))
    return b.cast("zext", rows, "i64").name, b.cast("zext", row, "i64").name


def _register(b: Builder, tile: str) -> str:
    return b.element_address(f"@{_TILES}", "i8", b.mul(tile, _TILE))


def _copy_bytes(b: Builder, to: str, frm: str, count: Index) -> None:
    with b.loop(0, count, plain=True) as i:
        b.store(b.load("i8", b.element_address(frm, "i8", i)), b.element_address(to, "i8", i))


def _zero(b: Builder) -> None:
    with b.loop(0, _TILE, plain=True) as i:
        b.store(Val("i8", "0"), b.element_address(_register(b, "%a0"), "i8", i))


def _move(b: Builder, *, is_load: bool) -> None:
    rows, row = _size(b, "%a0")
    if is_load:
        _zero(b)
    with b.loop(0, rows, plain=True) as i:
        tile = b.element_address(_register(b, "%a0"), "i8", b.mul(i, _ROW))
        memory = b.element_address("%a1", "i8", b.mul(i, "%a2"))
        _copy_bytes(b, *((tile, memory) if is_load else (memory, tile)), row)


def _multiply(b: Builder, kind: str) -> None:
    """Add the products of groups of a row of one tile by a column of another."""
    rows, row = _size(b, "%a0")
    _, depth = _size(b, "%a1")
    total, x, y = (_register(b, f"%a{n}") for n in range(3))
    is_float = kind == "tdpbf16ps"
    with (
        b.loop(0, rows, plain=True) as m,
        b.loop(0, depth, 4, plain=True) as k,
        b.loop(0, row, 4, plain=True) as n,
    ):
        vector = vector_type(2, "bfloat") if is_float else vector_type(4, "i8")
        group = b.load(vector, b.element_address(x, "i8", b.add(b.mul(m, _ROW), k)), align=1)
        column = b.add(b.mul(b.udiv(k, 4), _ROW), n)
        other = b.load(vector, b.element_address(y, "i8", column), align=1)
        at = b.element_address(total, "i8", b.add(b.mul(m, _ROW), n))
        sums = vector_type(1, "float" if is_float else "i32")
        before = b.load(sums, at, align=4)
        if is_float:
            # The two products of a group are taken in this order, though by way of two sums.
            after = _add_bf16_pairs(b, before, group, other)
        else:
            after = _add_quads(b, before, group, other, kind[4:6])
        b.store(after, at, align=4)
