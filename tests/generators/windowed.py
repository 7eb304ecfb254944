"""Random operations whose elements move along dimensions: windows, pads, slices and the like."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from hlo.ops.attrs import WINDOW, WindowDim

_TYPES = ("f32", "s32", "s8", "u16", "bf16", "pred", "f64", "c64", "s4", "f8e4m3fn")

_SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 17)


def _shape(et: str, dims: list[int]) -> str:
    return f"{et}[{','.join(map(str, dims))}]"


def _module(et: str, parameters: list[str], root: str, before: str = "", head: str = "") -> str:
    lines = [f"  p{n} = {shape} parameter({n})" for n, shape in enumerate(parameters)]
    return (
        f"HloModule m\n{head}ENTRY e {{\n" + "\n".join(lines) + f"\n{before}  ROOT r = {root}\n}}"
    )


def _pad(draw: random.Random) -> str:
    et = draw.choice(_TYPES)
    dims = [draw.choice(_SIZES) for _ in range(draw.randint(1, 3))]
    sizes, padding = [], []
    for n in dims:
        low, high = draw.randint(-3, 6), draw.randint(-3, 6)
        interior = draw.choice([0, 0, 0, 1, 2])
        if draw.random() < 0.4:
            low = high = interior = 0
        size = n + low + high + max(0, n - 1) * interior
        if size < 0:
            low, high, size = 0, 0, n + max(0, n - 1) * interior
        sizes.append(size)
        padding.append(f"{low}_{high}_{interior}")
    return _module(
        et, [_shape(et, dims), f"{et}[]"],
        f"{_shape(et, sizes)} pad(p0, p1), padding={'x'.join(padding)}",
    )  # fmt: skip


def _slice(draw: random.Random) -> str:
    et = draw.choice(_TYPES)
    dims = [draw.choice(_SIZES) for _ in range(draw.randint(1, 3))]
    sizes, ranges = [], []
    for n in dims:
        start = draw.randint(0, n)
        limit, stride = draw.randint(start, n), draw.choice([1, 1, 2, 3])
        if draw.random() < 0.3:
            start, limit, stride = 0, n, 1
        sizes.append(len(range(start, limit, stride)))
        ranges.append(f"[{start}:{limit}:{stride}]")
    return _module(
        et, [_shape(et, dims)], f"{_shape(et, sizes)} slice(p0), slice={{{', '.join(ranges)}}}"
    )


def _reverse(draw: random.Random) -> str:
    et = draw.choice(_TYPES)
    dims = [draw.choice(_SIZES) for _ in range(draw.randint(1, 3))]
    turned = [d for d in range(len(dims)) if draw.random() < 0.6]
    shape = _shape(et, dims)
    return _module(et, [shape], f"{shape} reverse(p0), dimensions={{{','.join(map(str, turned))}}}")


def _shuffle(draw: random.Random) -> str:
    et = draw.choice(_TYPES)
    dims = [draw.choice(_SIZES[1:]) for _ in range(draw.randint(1, 3))]
    turned = [d for d in range(len(dims)) if draw.random() < 0.6] or [0]
    shifts = ",".join(str(draw.randint(-20, 20)) for _ in turned)
    shape = _shape(et, dims)
    return _module(
        et, [shape],
        f"{shape} shuffle(p0), dimensions={{{','.join(map(str, turned))}}}, mode=rotate, "
        f"shifts={{{shifts}}}",
    )  # fmt: skip


def _concatenate(draw: random.Random) -> str:
    et = draw.choice(_TYPES)
    rank = draw.randint(1, 3)
    dim = draw.randrange(rank)
    dims = [draw.choice(_SIZES) for _ in range(rank)]
    parameters, before, operands, total = [], "", [], 0
    for n in range(draw.randint(1, 5)):
        size = draw.choice(_SIZES)
        kind = draw.choice(["parameter", "parameter", "slice", "slice", "fill"])
        dims[dim] = size
        if kind == "parameter" or not (kind == "fill" or parameters):
            parameters.append(_shape(et, dims))
            operands.append(f"p{len(parameters) - 1}")
        elif kind == "fill":
            value = draw.randint(0, 1)
            number = f"({value}, 0)" if et == "c64" else str(value)
            before += f"  c{n} = {et}[] constant({number})\n"
            before += f"  b{n} = {_shape(et, dims)} broadcast(c{n}), dimensions={{}}\n"
            operands.append(f"b{n}")
        else:
            source = draw.randrange(len(parameters))
            inside = parameters[source][len(et) + 1 : -1].split(",")
            length = int(inside[dim])
            start = draw.randint(0, length)
            size = draw.randint(0, length - start)
            dims[dim] = size
            ranges = [f"[0:{m}]" for m in dims]
            ranges[dim] = f"[{start}:{start + size}]"
            before += (
                f"  part{n} = {_shape(et, dims)} slice(p{source}), slice={{{', '.join(ranges)}}}\n"
            )
            operands.append(f"part{n}")
        total += size
    dims[dim] = total
    return _module(
        et, parameters,
        f"{_shape(et, dims)} concatenate({', '.join(operands)}), dimensions={{{dim}}}", before,
    )  # fmt: skip


def _window_dim(draw: random.Random, size: int, n: int, *, dilated: bool) -> tuple[WindowDim, int]:
    """Return a window of a size over n elements, and the number of its positions."""
    while True:
        w = WindowDim(
            size, draw.choice([1, 1, 1, 2, 3]), draw.randint(-1, size), draw.randint(-1, size),
            draw.choice([1, 1, 1, 2, 3]) if dilated else 1,
            draw.choice([1, 1, 1, 2]) if dilated else 1,
        )  # fmt: skip
        if draw.random() < 0.3:
            w = WindowDim(size, pad_low=(size - 1) // 2, pad_high=size // 2)
        if draw.random() < 0.15:
            w = WindowDim(size, size)
        if w.padded_base(n) >= 0:
            return w, w.output_size(n)


def _convolution(draw: random.Random) -> str:
    et = draw.choice(["f32", "f32", "s32", "f64", "c64", "bf16"])
    spatial = draw.randint(1, 2)
    groups = draw.choice([1, 1, 1, 2, 4])
    by_batch = draw.random() < 0.3
    features, batches = (1, groups) if by_batch else (groups, 1)
    batch = draw.choice([1, 2, 3, 4]) * batches
    inner, outer = draw.choice([1, 2, 3, 4]), draw.choice([1, 2, 3, 4]) * groups
    sizes, windows, positions = [], [], []
    for _ in range(spatial):
        n = draw.choice(_SIZES[1:])
        k = draw.choice([1, 2, 3, 3, 5, n, n])
        w, count = _window_dim(draw, k, n, dilated=True)
        sizes.append(n)
        windows.append(replace(w, reversal=draw.random() < 0.2))
        positions.append(count)

    def ordered(first: int, second: int, rest: list[int], letters: str) -> tuple[str, list[int]]:
        named = [(letters[0], first), (letters[1], second)]
        named += [(str(n), size) for n, size in enumerate(rest)]
        draw.shuffle(named)
        return "".join(c for c, _ in named), [size for _, size in named]

    lhs, lhs_dims = ordered(batch, inner * features, sizes, "bf")
    rhs, rhs_dims = ordered(inner, outer, [w.size for w in windows], "io")
    out, out_dims = ordered(batch // batches, outer, positions, "bf")
    return _module(
        et, [_shape(et, lhs_dims), _shape(et, rhs_dims)],
        f"{_shape(et, out_dims)} convolution(p0, p1), window={WINDOW.write(tuple(windows))}, "
        f"dim_labels={lhs}_{rhs}->{out}, feature_group_count={features}, "
        f"batch_group_count={batches}",
    )  # fmt: skip


def _reducer(draw: random.Random, et: str, name: str) -> tuple[str, int]:
    """Return a reduction function, and how many arrays it takes."""
    head = f"{name} {{\n  a = {et}[] parameter(0)\n  b = {et}[] parameter(1)\n"
    kind = draw.choice(["plain", "plain", "plain", "mixed", "pair"])
    if et in ("pred", "c64") or (kind == "mixed" and et not in ("s32", "s8", "u16")):
        kind = "plain"
    if kind == "plain":
        choices = {"pred": ["and", "or", "xor"], "c64": ["add"]}.get(et, ["add", "maximum"])
        if et in ("s32", "s8", "u16"):
            choices = ["add", "multiply", "minimum", "and", "xor"]
        return f"{head}  ROOT c = {et}[] {draw.choice(choices)}(a, b)\n}}\n", 1
    if kind == "mixed":  # (1 + a)(1 + b) - 1
        return (
            f"{head}  ab = {et}[] multiply(a, b)\n  c = {et}[] add(a, b)\n"
            f"  ROOT d = {et}[] add(ab, c)\n}}\n", 1,
        )  # fmt: skip
    return (
        f"{name} {{\n  a = {et}[] parameter(0)\n  i = s32[] parameter(1)\n"
        f"  b = {et}[] parameter(2)\n  j = s32[] parameter(3)\n"
        "  g = pred[] compare(a, b), direction=GE\n"
        f"  v = {et}[] select(g, a, b)\n  k = s32[] select(g, i, j)\n"
        f"  ROOT t = ({et}[], s32[]) tuple(v, k)\n}}\n", 2,
    )  # fmt: skip


def _windows(
    draw: random.Random, sizes: list[int], *, dilated: bool
) -> tuple[list[WindowDim], list[int]]:
    windows, positions = [], []
    for n in sizes:
        kind = draw.random()
        if kind < 0.25:
            w = WindowDim()
        elif kind < 0.35:
            w = WindowDim(max(n, 1), pad_low=max(n, 1) - 1)
        elif kind < 0.45:
            w = WindowDim(max(n, 1), pad_high=max(n, 1) - 1)
        elif kind < 0.55 and n:
            w = WindowDim(n)
        else:
            w, _ = _window_dim(draw, draw.choice([1, 2, 3, 5]), n, dilated=dilated)
        windows.append(w)
        positions.append(w.output_size(n))
    return windows, positions


def _reduce_window(draw: random.Random) -> str:
    et = draw.choice(["f32", "s32", "s8", "u16", "bf16", "pred", "f64", "c64"])
    dims = [draw.choice(_SIZES) for _ in range(draw.randint(1, 3))]
    windows, positions = _windows(draw, dims, dilated=True)
    function, count = _reducer(draw, et, "f")
    types = [et, "s32"][:count]
    inits = "".join(
        f"  i{n} = {t}[] constant({draw.choice([0, 1])})\n" if t != "c64"
        else f"  i{n} = c64[] constant((0, 1))\n"
        for n, t in enumerate(types)
    )  # fmt: skip
    results = [_shape(t, positions) for t in types]
    shape = results[0] if count == 1 else f"({', '.join(results)})"
    names = [f"p{n}" for n in range(count)] + [f"i{n}" for n in range(count)]
    return _module(
        et, [_shape(t, dims) for t in types],
        f"{shape} reduce-window({', '.join(names)}), window={WINDOW.write(tuple(windows))}, "
        "to_apply=f", inits, function,
    )  # fmt: skip


def _select_and_scatter(draw: random.Random) -> str:
    et = draw.choice(["f32", "s32", "s8", "bf16", "f64"])
    dims = [draw.choice(_SIZES) for _ in range(draw.randint(1, 3))]
    windows, positions = _windows(draw, dims, dilated=draw.random() < 0.2)
    direction, combine = draw.choice(["GE", "GT", "LE"]), draw.choice(["add", "add", "maximum"])
    functions = (
        f"sel {{\n  a = {et}[] parameter(0)\n  b = {et}[] parameter(1)\n"
        f"  ROOT c = pred[] compare(a, b), direction={direction}\n}}\n"
        f"f {{\n  a = {et}[] parameter(0)\n  b = {et}[] parameter(1)\n"
        f"  ROOT c = {et}[] {combine}(a, b)\n}}\n"
    )
    return _module(
        et, [_shape(et, dims), _shape(et, positions)],
        f"{_shape(et, dims)} select-and-scatter(p0, p1, init), "
        f"window={WINDOW.write(tuple(windows))}, select=sel, scatter=f",
        f"  init = {et}[] constant({draw.choice([0, 1])})\n", functions,
    )  # fmt: skip


def _reshape(draw: random.Random) -> str:
    et = draw.choice(_TYPES)
    primes = [draw.choice([2, 2, 3, 5, 7]) for _ in range(draw.randint(1, 5))]

    def dims() -> list[int]:
        found = [1]
        for prime in primes:
            if draw.random() < 0.5:
                found.append(1)
            found[-1] *= prime
        return found

    before = dims()
    if draw.random() < 0.3:
        draw.shuffle(primes)
    return _module(et, [_shape(et, before)], f"{_shape(et, dims())} reshape(p0)")


GENERATORS: dict[str, Callable[[random.Random], str]] = {
    "concatenate": _concatenate,
    "convolution": _convolution,
    "pad": _pad,
    "reduce-window": _reduce_window,
    "slice": _slice,
    "reshape": _reshape,
    "reverse": _reverse,
    "select-and-scatter": _select_and_scatter,
    "shuffle": _shuffle,
}
