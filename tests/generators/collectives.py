"""Random modules for several devices: collectives among moves, conversions and arithmetic.

`generate_collectives(seed)` makes a module for 2 or 4 devices. Sums are of integers, which no order
of additions changes; of floats it has the greatest and the least.
"""

from __future__ import annotations

import math
import random

from hlo.frontends.text import parse
from hlo.ir import Module
from hlo.verifier import verify

_WIDE = {"s8": "s32", "bf16": "f32", "s32": "s64", "f32": "f64"}
_OPS = {"s8": ("add", "maximum"), "s32": ("add", "minimum"), "s64": ("add",)}
_FLOAT_OPS = ("maximum", "minimum")
Value = tuple[str, str, tuple[int, ...]]
"""Name, type and dimensions."""


def generate_collectives(seed: int) -> Module:
    """Return a valid random module."""
    module = _Generator(seed).module()
    verify(module)
    return module


class _Generator:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts = self.rng.choice([(2, 1), (4, 1), (2, 2), (2, 2), (1, 4)])
        self.devices = math.prod(self.counts)
        self.lines: list[str] = []
        self.functions: dict[str, str] = {}
        self.pool: list[Value] = []

    def module(self) -> Module:
        for n in range(self.rng.randint(2, 4)):
            et = self.rng.choice(("s8", "s32", "s32", "bf16", "f32"))
            dims = self.rng.choice(((4,), (4, 4), (8, 2), (2, 4, 3)))
            self.pool.append(self.add(et, dims, f"parameter({n})"))
        for _ in range(self.rng.randint(4, 16)):
            self.rng.choice(_PRODUCTIONS)(self, self.rng.choice(self.pool[-8:]))
        used = self.pool[-6:]
        shapes = ", ".join(_shape(et, dims) for _, et, dims in used)
        names = ", ".join(name for name, _, _ in used)
        body = "\n".join(f"  {line}" for line in self.lines)
        replicas, partitions = self.counts
        return parse(
            f"HloModule m, replica_count={replicas}, num_partitions={partitions}\n"
            + "\n".join(self.functions.values())
            + f"\nENTRY e {{\n{body}\n  ROOT t = ({shapes}) tuple({names})\n}}\n"
        )

    def add(self, et: str, dims: tuple[int, ...], text: str) -> Value:
        value = f"v{len(self.lines)}", et, dims
        self.lines.append(f"{value[0]} = {_shape(et, dims)} {text}")
        return value

    def keep(self, et: str, dims: tuple[int, ...], text: str) -> None:
        self.pool.append(self.add(et, dims, text))

    def reducer(self, et: str) -> str:
        op = self.rng.choice(_OPS.get(et, _FLOAT_OPS))
        # Equal functions by different names, too.
        name = f"{op}_{et}_{self.rng.randint(0, 1)}"
        self.functions[name] = (
            f"{name} {{ a = {et}[] parameter(0)  b = {et}[] parameter(1)\n"
            f"  ROOT c = {et}[] {op}(a, b) }}"
        )
        return name

    def groups(self) -> tuple[str, int]:
        """Return attributes that say who meets, and how many that are."""
        replicas, partitions = self.counts
        channel = f"channel_id={self.rng.randint(1, 3)}, "
        if partitions > 1 and self.rng.random() < 0.6:
            text, size = self.listed(self.devices, whole=False)
            return f"{channel}replica_groups={text}, use_global_device_ids=true", size
        if partitions > 1 and self.rng.random() < 0.5:
            text, size = self.listed(replicas, whole=False)
            return f"{channel}replica_groups={text}", size * partitions
        text, size = self.listed(replicas, whole=True)
        return f"replica_groups={text}", size

    def listed(self, count: int, *, whole: bool) -> tuple[str, int]:
        ids = list(range(count))
        if self.rng.random() < 0.2:
            self.rng.shuffle(ids)
        if whole and self.rng.random() < 0.2:
            return "{}", count
        size = self.rng.choice([n for n in (1, 2, 4) if n <= count])
        step = self.rng.choice((0, 1))
        groups = [
            ids[n::count // size] if step else ids[n * size : (n + 1) * size]
            for n in range(count // size)
        ]  # fmt: skip
        return "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in groups) + "}", size


def _shape(et: str, dims: tuple[int, ...]) -> str:
    return f"{et}[{','.join(map(str, dims))}]"


def _all_reduce(g: _Generator, x: Value) -> None:
    name, et, dims = x
    attrs, _ = g.groups()
    g.keep(et, dims, f"all-reduce({name}), {attrs}, to_apply={g.reducer(et)}")


def _pair_of_sums(g: _Generator, x: Value) -> None:
    """Two reductions alike, and an operation on their results."""
    _, et, dims = x
    others = [v for v in g.pool if v[1:] == (et, dims)]
    attrs, _ = g.groups()
    function = g.reducer(et)
    sums = [
        g.add(et, dims, f"all-reduce({name}), {attrs}, to_apply={function}")
        for name, _, _ in (x, g.rng.choice(others))
    ]
    op = function.split("_")[0]
    g.keep(et, dims, f"{op}({sums[0][0]}, {sums[1][0]})")


def _all_gather(g: _Generator, x: Value) -> None:
    name, et, dims = x
    attrs, size = g.groups()
    dim = g.rng.randrange(len(dims))
    whole = (*dims[:dim], dims[dim] * size, *dims[dim + 1 :])
    if math.prod(whole) <= 512:
        g.keep(et, whole, f"all-gather({name}), {attrs}, dimensions={{{dim}}}")


def _reduce_scatter(g: _Generator, x: Value) -> None:
    name, et, dims = x
    attrs, size = g.groups()
    dim = g.rng.randrange(len(dims))
    if dims[dim] % size == 0:
        part = (*dims[:dim], dims[dim] // size, *dims[dim + 1 :])
        function = g.reducer(et)
        g.keep(
            et, part, f"reduce-scatter({name}), {attrs}, dimensions={{{dim}}}, to_apply={function}"
        )


def _permute(g: _Generator, x: Value) -> None:
    name, et, dims = x
    replicas, partitions = g.counts
    count = replicas if replicas > 1 else partitions
    targets = list(range(count))
    g.rng.shuffle(targets)
    pairs = [p for p in enumerate(targets) if g.rng.random() < 0.8]
    channel = "" if replicas > 1 else "channel_id=1, "
    text = ",".join(f"{{{a},{b}}}" for a, b in pairs)
    g.keep(et, dims, f"collective-permute({name}), {channel}source_target_pairs={{{text}}}")


def _all_to_all(g: _Generator, x: Value) -> None:
    name, et, dims = x
    text, size = g.listed(g.counts[0], whole=True)
    if dims[0] % size == 0:
        g.keep(et, dims, f"all-to-all({name}), replica_groups={text}, dimensions={{0}}")


def _own_part(g: _Generator, x: Value) -> None:
    """The part of a dimension at the place of the replica, or of the partition."""
    name, et, dims = x
    by, count = g.rng.choice([("replica", g.counts[0]), ("partition", g.counts[1])])
    if dims[0] % count:
        return
    number, _, _ = g.add("u32", (), f"{by}-id()")
    size, _, _ = g.add("u32", (), f"constant({dims[0] // count})")
    start, _, _ = g.add("u32", (), f"multiply({number}, {size})")
    zero, _, _ = g.add("u32", (), "constant(0)")
    part = (dims[0] // count, *dims[1:])
    starts = ", ".join([start, *[zero] * (len(dims) - 1)])
    sizes = ",".join(map(str, part))
    g.keep(et, part, f"dynamic-slice({name}, {starts}), dynamic_slice_sizes={{{sizes}}}")


def _unary(g: _Generator, x: Value) -> None:
    name, et, dims = x
    g.keep(et, dims, f"{g.rng.choice(('negate', 'abs', 'copy'))}({name})")


def _binary(g: _Generator, x: Value) -> None:
    name, et, dims = x
    other, _, _ = g.rng.choice([v for v in g.pool if v[1:] == (et, dims)])
    g.keep(et, dims, f"{g.rng.choice(('add', 'maximum', 'minimum'))}({name}, {other})")


def _convert(g: _Generator, x: Value) -> None:
    name, et, dims = x
    narrow = {wide: narrow for narrow, wide in _WIDE.items()}
    to = _WIDE.get(et) if et not in narrow or g.rng.random() < 0.5 else narrow[et]
    if to is not None:
        g.keep(to, dims, f"convert({name})")


def _reshape(g: _Generator, x: Value) -> None:
    name, et, dims = x
    flat = math.prod(dims)
    to = g.rng.choice([(flat,), (1, *dims), (2, flat // 2) if flat % 2 == 0 else (flat, 1)])
    g.keep(et, to, f"reshape({name})")


def _broadcast(g: _Generator, x: Value) -> None:
    name, et, dims = x
    if len(dims) < 3 and math.prod(dims) < 64:
        at = g.rng.randrange(len(dims) + 1)
        kept = ",".join(str(d) for d in range(len(dims) + 1) if d != at)
        g.keep(et, (*dims[:at], 3, *dims[at:]), f"broadcast({name}), dimensions={{{kept}}}")


def _scaled(g: _Generator, x: Value) -> None:
    name, et, dims = x
    number, _, _ = g.add(et, (), "constant(2)")
    spread, _, _ = g.add(et, dims, f"broadcast({number}), dimensions={{}}")
    g.keep(et, dims, f"multiply({name}, {spread})")


_PRODUCTIONS = (
    _all_reduce, _all_reduce, _pair_of_sums, _all_gather, _all_gather, _reduce_scatter, _permute,
    _all_to_all, _own_part, _own_part, _unary, _binary, _convert, _convert, _reshape, _broadcast,
    _scaled,
)  # fmt: skip
