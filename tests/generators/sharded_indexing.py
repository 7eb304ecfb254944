"""Random programs of one operation that finds elements by index, for partitioning."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo.values.types import ELEMENT_TYPES

TYPES = ("f32", "bf16", "pred", "s32", "u8", "c64", "f8e8m0fnu", "s64", "f8e5m2")
INDEX_TYPES = ("s32", "u8", "s64", "u64", "s8")
SIZES = (1, 2, 3, 4, 5, 7, 8, 12)


@dataclass(frozen=True)
class Case:
    """A program, its arguments, and how closely the partitioned one has to agree.

    tolerance: relative and absolute; 0 for to the bit.
    """

    text: str
    arguments: Sequence[Any]
    result_ranks: Sequence[int]
    tolerance: float = 0.0


def data(draw: random.Random, name: str, dims: Sequence[int]) -> np.ndarray:
    """Return random elements of a type; among floats negative zeros and NaN."""
    rng = np.random.default_rng(draw.randrange(1 << 30))
    et = ELEMENT_TYPES[name]
    if et.is_pred:
        return rng.integers(0, 2, dims).astype(bool)
    if et.is_integer:
        return rng.integers(-100 if et.is_signed else 0, 100, dims).astype(et.dtype)
    if name == "f8e8m0fnu":
        return (2.0 ** rng.integers(-8, 8, dims)).astype(et.dtype)
    x = rng.standard_normal(dims)
    x = np.where(rng.random(dims) < 0.1, -0.0, x)
    x = np.where(rng.random(dims) < 0.05, np.nan, x)
    return (x * (1 - 2j) if et.is_complex else x).astype(et.dtype)


def joined(numbers: Sequence[Any]) -> str:
    """Return numbers as HLO lists them."""
    return ",".join(map(str, numbers))


def some_dims(draw: random.Random, most: int = 3) -> list[int]:
    """Return dimensions of an array."""
    sizes = (0,) if draw.random() < 0.03 else SIZES
    return [draw.choice((*SIZES, *sizes)) for _ in range(draw.randint(1, most))]


def _starts(draw: random.Random, dims: Sequence[int], name: str) -> list[np.ndarray]:
    """Return the starts of a slice, some of them out of range."""
    found = []
    for size in dims:
        start = draw.choice([-3, -1, 0, 1, 2, 5, 100, draw.randrange(size + 2)])
        signed = ELEMENT_TYPES[name].is_signed
        found.append(np.array(start if signed else abs(start)).astype(ELEMENT_TYPES[name].dtype))
    return found


def _window(draw: random.Random, dims: Sequence[int]) -> list[int]:
    least = 0 if draw.random() < 0.1 else 1
    return [draw.choice([d, d, min(1, d), draw.randint(min(least, d), d)]) for d in dims]


def dynamic_slice(draw: random.Random) -> Case:
    """Return a dynamic-slice."""
    dims, et, index = some_dims(draw), draw.choice(TYPES), draw.choice(INDEX_TYPES)
    sizes, starts = _window(draw, dims), _starts(draw, dims, index)
    declared = [f"  i{n} = {index}[] parameter({n + 1})" for n in range(len(dims))]
    text = f"""HloModule m
ENTRY e {{
  x = {et}[{joined(dims)}] parameter(0)
{chr(10).join(declared)}
  ROOT r = {et}[{joined(sizes)}] dynamic-slice(x, {", ".join(f"i{n}" for n in range(len(dims)))}), \
dynamic_slice_sizes={{{joined(sizes)}}}
}}"""
    return Case(text, [data(draw, et, dims), *starts], [len(dims)])


def dynamic_update_slice(draw: random.Random) -> Case:
    """Return a dynamic-update-slice."""
    dims, et, index = some_dims(draw), draw.choice(TYPES), draw.choice(INDEX_TYPES)
    sizes, starts = _window(draw, dims), _starts(draw, dims, index)
    declared = [f"  i{n} = {index}[] parameter({n + 2})" for n in range(len(dims))]
    text = f"""HloModule m
ENTRY e {{
  x = {et}[{joined(dims)}] parameter(0)
  u = {et}[{joined(sizes)}] parameter(1)
{chr(10).join(declared)}
  ROOT r = {et}[{joined(dims)}] dynamic-update-slice(x, u, \
{", ".join(f"i{n}" for n in range(len(dims)))})
}}"""
    return Case(text, [data(draw, et, dims), data(draw, et, sizes), *starts], [len(dims)])


@dataclass(frozen=True)
class _Indexed:
    """Which windows of an operand a gather reads, or a scatter writes.

    Attributes:
        operand: dimensions of the operand. window: sizes of a window in them.
        batching: the dimensions of the operand that run along one of `batch`. collapsed: those that
            a window leaves out. index_map: those that are indexed.
        batch: sizes of the dimensions by which windows are counted.
        places: for each of `batching`, the number in `batch`.
    """

    operand: list[int]
    window: list[int]
    batching: list[int]
    collapsed: list[int]
    index_map: list[int]
    batch: list[int]
    places: list[int]

    @staticmethod
    def random(draw: random.Random) -> _Indexed:
        rank = draw.randint(1, 3)
        operand = [draw.choice(SIZES) for _ in range(rank)]
        batch = [draw.choice((1, 2, 3, 5, 6)) for _ in range(draw.randint(0, 2))]
        batching: list[int] = []
        places: list[int] = []
        if batch and draw.random() < 0.3:
            batching, places = [draw.randrange(rank)], [draw.randrange(len(batch))]
            operand[batching[0]] = batch[places[0]]
        others = [d for d in range(rank) if d not in batching]
        index_map = [d for d in others if draw.random() < 0.7]
        draw.shuffle(index_map)
        window = [1] * rank
        for d in others:
            least = 0 if draw.random() < 0.03 else 1
            window[d] = draw.choice([1, 1, operand[d], draw.randint(least, operand[d])])
        collapsed = [d for d in others if window[d] == 1 and draw.random() < 0.7]
        return _Indexed(operand, window, batching, collapsed, index_map, batch, places)

    def indices(self, draw: random.Random, name: str) -> tuple[np.ndarray, int]:
        """Return index vectors of a type, and their dimension."""
        at = draw.randint(0, len(self.batch))
        implicit = len(self.index_map) == 1 and draw.random() < 0.4
        dims = [*self.batch]
        if implicit:
            at = len(dims)
        else:
            dims.insert(at, len(self.index_map))
        rng = np.random.default_rng(draw.randrange(1 << 30))
        et = ELEMENT_TYPES[name]
        top = max(self.operand) + 2
        values = rng.integers(-2 if et.is_signed else 0, top, dims)
        far = rng.random(dims) < 0.05
        return np.where(far, 2 ** (et.bits - et.is_signed) - 1, values).astype(et.dtype), at

    def result(self, draw: random.Random) -> tuple[list[int], list[int]]:
        """Return the dimensions of all windows, and which of them are the window's."""
        inner = [n for d, n in enumerate(self.window) if d not in (*self.batching, *self.collapsed)]
        rank = len(inner) + len(self.batch)
        offsets = sorted(draw.sample(range(rank), len(inner)))
        sizes, counts = iter(inner), iter(self.batch)
        return [next(sizes) if d in offsets else next(counts) for d in range(rank)], offsets

    def places_at(self, at: int) -> list[int]:
        """Return the dimensions of the indices that `batching` runs along."""
        return [p + (p >= at) for p in self.places]


def _braces(numbers: Sequence[int]) -> str:
    return f"{{{joined(numbers)}}}"


def gather(draw: random.Random) -> Case:
    """Return a gather."""
    found = _Indexed.random(draw)
    et, index = draw.choice(TYPES), draw.choice(INDEX_TYPES)
    indices, at = found.indices(draw, index)
    dims, offsets = found.result(draw)
    text = f"""HloModule m
ENTRY e {{
  x = {et}[{joined(found.operand)}] parameter(0)
  i = {index}[{joined(indices.shape)}] parameter(1)
  ROOT r = {et}[{joined(dims)}] gather(x, i), offset_dims={_braces(offsets)}, \
collapsed_slice_dims={_braces(found.collapsed)}, start_index_map={_braces(found.index_map)}, \
operand_batching_dims={_braces(found.batching)}, \
start_indices_batching_dims={_braces(found.places_at(at))}, index_vector_dim={at}, \
slice_sizes={_braces(found.window)}
}}"""
    return Case(text, [data(draw, et, found.operand), indices], [len(dims)])


_BODIES = ("add", "multiply", "minimum", "maximum", "second", "twice")


def scatter(draw: random.Random) -> Case:
    """Return a scatter, of one or two operands."""
    found = _Indexed.random(draw)
    et, index = draw.choice(("f32", "s32", "pred", "u8", "bf16")), draw.choice(INDEX_TYPES)
    body = draw.choice(_BODIES if et != "pred" else ("add", "maximum", "second"))
    indices, at = found.indices(draw, index)
    dims, offsets = found.result(draw)
    count = 2 if body in ("add", "second") and draw.random() < 0.2 else 1
    scalars = [f"{x}{n} = {et}[] parameter({k * count + n})" for k, x in enumerate("ab")
               for n in range(count)]  # fmt: skip
    combined = {
        "second": "copy(b{n})",
        "twice": "add(a{n}, add.1)",
    }.get(body, f"{body}(a{{n}}, b{{n}})")
    lines = [f"r{n} = {et}[] {combined.format(n=n)}" for n in range(count)]
    if body == "twice":
        lines.insert(0, f"add.1 = {et}[] add(b0, b0)")
    if count == 2:
        lines.append(f"t = ({et}[], {et}[]) tuple(r0, r1)")
    lines[-1] = f"ROOT {lines[-1]}"
    whole = f"{et}[{joined(found.operand)}]"
    inputs = [f"x{n} = {whole} parameter({n})" for n in range(count)]
    inputs.append(f"i = {index}[{joined(indices.shape)}] parameter({count})")
    inputs += [f"v{n} = {et}[{joined(dims)}] parameter({count + 1 + n})" for n in range(count)]
    names = [*(f"x{n}" for n in range(count)), "i", *(f"v{n}" for n in range(count))]
    newline = "\n  "
    text = f"""HloModule m
f {{
  {newline.join([*scalars, *lines])}
}}
ENTRY e {{
  {newline.join(inputs)}
  ROOT r = {whole if count == 1 else f"({whole}, {whole})"} scatter({", ".join(names)}), \
update_window_dims={_braces(offsets)}, inserted_window_dims={_braces(found.collapsed)}, \
scatter_dims_to_operand_dims={_braces(found.index_map)}, \
input_batching_dims={_braces(found.batching)}, \
scatter_indices_batching_dims={_braces(found.places_at(at))}, index_vector_dim={at}, to_apply=f
}}"""

    def array(sizes: Sequence[int]) -> np.ndarray:
        x = data(draw, et, sizes)
        return x if ELEMENT_TYPES[et].is_integer or et == "pred" else np.nan_to_num(x)

    arguments = [array(found.operand) for _ in range(count)] + [indices]
    arguments += [array(dims) for _ in range(count)]
    tolerance = {"f32": 1e-4, "bf16": 0.3}.get(et, 0.0)
    return Case(text, arguments, [len(found.operand)] * count, tolerance)


def sort(draw: random.Random) -> Case:
    """Return a sort, by one of its operands or by an order that is not total."""
    dims, et = some_dims(draw), draw.choice(("f32", "s32", "u8", "bf16"))
    count, at = draw.randint(1, 2), draw.randrange(len(dims))
    shape = f"{et}[{joined(dims)}]"
    scalars = [f"p{n} = {et}[] parameter({n})" for n in range(2 * count)]
    inputs = [f"x{n} = {shape} parameter({n})" for n in range(count)]
    result = shape if count == 1 else f"({shape}, {shape})"
    newline = "\n  "
    kind = ", type=TOTALORDER" if et in ("f32", "bf16") and draw.random() < 0.7 else ""
    text = f"""HloModule m
f {{
  {newline.join(scalars)}
  ROOT c = pred[] compare(p0, p1), direction={draw.choice(("LT", "GT"))}{kind}
}}
ENTRY e {{
  {newline.join(inputs)}
  ROOT r = {result} sort({", ".join(f"x{n}" for n in range(count))}), \
dimensions={{{at}}}, is_stable=true, to_apply=f
}}"""
    return Case(text, [data(draw, et, dims) for _ in range(count)], [len(dims)] * count)


def argsort(draw: random.Random) -> Case:
    """Return the positions that sort an array, which are counted or broadcast."""
    dims = some_dims(draw)
    at = draw.randrange(len(dims))
    shape = joined(dims)
    positions = f"p = s32[{shape}] iota(), iota_dimension={at}"
    if draw.random() < 0.5:
        positions = f"""q = s32[{dims[at]}] iota(), iota_dimension=0
  p = s32[{shape}] broadcast(q), dimensions={{{at}}}"""
    text = f"""HloModule m
f {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}}
ENTRY e {{
  x = s32[{shape}] parameter(0)
  {positions}
  s = (s32[{shape}], s32[{shape}]) sort(x, p), dimensions={{{at}}}, is_stable=true, to_apply=f
  ROOT r = s32[{shape}] get-tuple-element(s), index=1
}}"""
    return Case(text, [data(draw, "s32", dims) % 5], [len(dims)])


def top_k(draw: random.Random) -> Case:
    """Return a topk, as an operation or as a custom call."""
    dims, et = some_dims(draw), draw.choice([t for t in TYPES if t != "c64"])
    k = draw.randint(0, dims[-1])
    found = joined([*dims[:-1], k])
    result = f"({et}[{found}], s32[{found}])"
    line = f"topk(x), k={k}, largest={draw.choice(('true', 'false'))}"
    if draw.random() < 0.3:
        line = 'custom-call(x), custom_call_target="TopK"'
    text = f"""HloModule m
ENTRY e {{
  x = {et}[{joined(dims)}] parameter(0)
  ROOT r = {result} {line}
}}"""
    x = data(draw, et, dims)
    few = draw.random() < 0.5 and et in ("s32", "u8")
    return Case(text, [x % x.dtype.type(3) if few else x], [len(dims)] * 2)


def fft(draw: random.Random) -> Case:
    """Return a Fourier transform."""
    dims = some_dims(draw)
    inner = draw.randint(1, len(dims))
    kind = draw.choice(("FFT", "IFFT", "RFFT", "IRFFT"))
    lengths = dims[len(dims) - inner :]
    half = [*dims[:-1], dims[-1] // 2 + 1]
    before, after = ("f32", half) if kind == "RFFT" else ("c64", dims)
    taken = half if kind == "IRFFT" else dims
    text = f"""HloModule m
ENTRY e {{
  x = {before}[{joined(taken)}] parameter(0)
  ROOT r = {"f32" if kind == "IRFFT" else "c64"}[{joined(after)}] fft(x), fft_type={kind}, \
fft_length={_braces(lengths)}
}}"""
    x = np.nan_to_num(data(draw, before, taken))
    return Case(text, [x], [len(dims)], 1e-4)


def _matrices(draw: random.Random) -> np.ndarray:
    """Return a batch of positive definite matrices."""
    n = draw.randint(1, 6)
    batch = [draw.choice((1, 2, 3, 5, 6)) for _ in range(draw.randint(0, 2))]
    x = np.nan_to_num(data(draw, "f32", [*batch, n, n]))
    found = x @ np.swapaxes(x, -1, -2) + n * np.eye(n)
    return found.astype(np.float32)


def cholesky(draw: random.Random) -> Case:
    """Return a Cholesky decomposition."""
    a = _matrices(draw)
    text = f"""HloModule m
ENTRY e {{
  a = f32[{joined(a.shape)}] parameter(0)
  ROOT r = f32[{joined(a.shape)}] cholesky(a), lower={draw.choice(("true", "false"))}
}}"""
    return Case(text, [a], [a.ndim], 1e-4)


def triangular_solve(draw: random.Random) -> Case:
    """Return a triangular solve."""
    a = _matrices(draw)
    left, columns = draw.random() < 0.5, draw.choice(SIZES)
    inner = [a.shape[-1], columns] if left else [columns, a.shape[-1]]
    y = np.nan_to_num(data(draw, "f32", [*a.shape[:-2], *inner]))
    kind = draw.choice(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    text = f"""HloModule m
ENTRY e {{
  a = f32[{joined(a.shape)}] parameter(0)
  y = f32[{joined(y.shape)}] parameter(1)
  ROOT r = f32[{joined(y.shape)}] triangular-solve(a, y), left_side={str(left).lower()}, \
lower={draw.choice(("true", "false"))}, transpose_a={kind}
}}"""
    return Case(text, [a, y], [y.ndim], 1e-4)


def iota(draw: random.Random) -> Case:
    """Return an iota, among constants."""
    dims, et = some_dims(draw), draw.choice(("f32", "s32", "u8", "s4", "bf16"))
    shape = f"{et}[{joined(dims)}]"
    text = f"""HloModule m
ENTRY e {{
  i = {shape} iota(), iota_dimension={draw.randrange(len(dims))}
  c = {et}[] constant({draw.choice((0, 1))})
  d = {shape} broadcast(c), dimensions={{}}
  ROOT r = ({shape}, {shape}) tuple(i, d)
}}"""
    return Case(text, [], [len(dims)] * 2)


def rng_bit_generator(draw: random.Random) -> Case:
    """Return random bits and the state after them."""
    dims = some_dims(draw)
    et = draw.choice(("u32", "u32", "u64", "u8", "f32", "bf16", "s4", "u16"))
    kind = draw.choice(("rng_three_fry", "rng_philox", "rng_default"))
    words = 2 if kind == "rng_three_fry" else draw.choice((2, 3))
    state = [draw.choice((7, 2**64 - draw.randint(1, 9), draw.randrange(2**64)))
             for _ in range(words)]  # fmt: skip
    text = f"""HloModule m
ENTRY e {{
  s = u64[{words}] parameter(0)
  ROOT r = (u64[{words}], {et}[{joined(dims)}]) rng-bit-generator(s), algorithm={kind}
}}"""
    return Case(text, [np.array(state, np.uint64)], [1, len(dims)])


def rng(draw: random.Random) -> Case:
    """Return random numbers of a distribution, drawn twice."""
    dims = some_dims(draw)
    shape = f"f32[{joined(dims)}]"
    text = f"""HloModule m
ENTRY e {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  x = {shape} rng(a, b), distribution=rng_uniform
  y = {shape} rng(a, b), distribution=rng_normal
  ROOT r = ({shape}, {shape}) tuple(x, y)
}}"""
    return Case(text, [np.float32(-1), np.float32(2)], [len(dims)] * 2, 1e-5)


def batch_norm(draw: random.Random) -> Case:
    """Return a batch normalization, or its gradient."""
    dims = [draw.choice(SIZES) for _ in range(draw.randint(1, 3))]
    at = draw.randrange(len(dims))
    kind = draw.choice(("training", "inference", "grad"))
    whole, narrow = f"f32[{joined(dims)}]", f"f32[{dims[at]}]"
    inputs = {
        "training": [whole, narrow, narrow], "inference": [whole] + [narrow] * 4,
        "grad": [whole, narrow, narrow, narrow, whole],
    }[kind]  # fmt: skip
    lines = "\n  ".join(f"x{n} = {shape} parameter({n})" for n, shape in enumerate(inputs))
    result = whole if kind == "inference" else f"({whole}, {narrow}, {narrow})"
    text = f"""HloModule m
ENTRY e {{
  {lines}
  ROOT r = {result} batch-norm-{kind}({", ".join(f"x{n}" for n in range(len(inputs)))}), \
epsilon=0.01, feature_index={at}
}}"""
    arguments = [np.nan_to_num(data(draw, "f32", dims if shape == whole else [dims[at]]))
                 for shape in inputs]  # fmt: skip
    if kind != "training":
        at_variance = 4 if kind == "inference" else 3
        arguments[at_variance] = np.abs(arguments[at_variance])
    return Case(text, arguments, [len(dims)] + ([] if kind == "inference" else [1, 1]), 1e-3)


CASES: dict[str, Callable[[random.Random], Case]] = {
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "gather": gather,
    "scatter": scatter,
    "sort": sort,
    "argsort": argsort,
    "topk": top_k,
    "fft": fft,
    "cholesky": cholesky,
    "triangular-solve": triangular_solve,
    "iota": iota,
    "rng-bit-generator": rng_bit_generator,
    "rng": rng,
    "batch-norm": batch_norm,
}
