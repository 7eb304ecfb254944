"""Random programs of collectives: every kind, element type, group mode and number of operands.

`generate_exchange(seed)` makes a program of one to four collectives for 2 to 8 devices, some of
them in two steps, of the parameters or of the results of earlier ones.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

from hlo.testing.sampling import random_array
from hlo.values.types import ELEMENT_TYPES
from tests.harness.replicas import Program

_TYPES = (
    "f32", "f64", "bf16", "f16", "f8e5m2", "f8e4m3fn", "pred", "s4", "u4", "s8", "s32", "u64",
    "c64", "c128",
)  # fmt: skip
_COUNTS = ((2, 1), (1, 2), (3, 1), (4, 1), (1, 4), (2, 2), (8, 1), (2, 4), (1, 8))


@dataclass(frozen=True)
class _Array:
    name: str
    et: str
    dims: tuple[int, ...]
    layout: str

    @property
    def shape(self) -> str:
        return f"{self.et}[{','.join(map(str, self.dims))}]{self.layout}"


@dataclass(frozen=True)
class _Groups:
    """Attributes that say who meets, the number of members, and of all ids."""

    text: str
    size: int


def generate_exchange(seed: int) -> Program:
    """Return the text of a module, the numbers of replicas and partitions, and its arguments."""
    return _Generator(seed).program()


class _Generator:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.counts = self.rng.choice(_COUNTS)
        self.devices = math.prod(self.counts)
        self.functions: dict[str, str] = {}
        self.lines: list[str] = []
        self.values: list[np.ndarray] = []
        self.arrays: list[_Array] = []
        self.results: list[tuple[str, str]] = []

    def program(self) -> Program:
        for _ in range(self.rng.randint(1, 4)):
            self.rng.choice(_KINDS)(self)
        shapes, names = zip(*self.results, strict=True)
        replicas, partitions = self.counts
        body = "\n".join(f"  {line}" for line in self.lines)
        text = (
            f"HloModule m, replica_count={replicas}, num_partitions={partitions}\n"
            + "\n".join(self.functions.values())
            + f"\nENTRY e {{\n{body}\n"
            f"  ROOT t = ({', '.join(shapes)}) tuple({', '.join(names)})\n}}\n"
        )
        return text, self.counts, self.values

    # --- parts ----------------------------------------------------------------------------------

    def parameter(self, et: str, dims: tuple[int, ...], values: np.ndarray | None = None) -> _Array:
        """Add a parameter. values: by device; by default random ones."""
        if values is None:
            edges = self.rng.random() < 0.3
            values = random_array(self.numpy, ELEMENT_TYPES[et], (self.devices, *dims), edges=edges)
        order = list(range(len(dims)))
        if self.rng.random() < 0.2:
            self.rng.shuffle(order)
        layout = f"{{{','.join(map(str, order[::-1]))}}}" if dims else ""
        made = _Array(f"p{len(self.values)}", et, dims, layout)
        self.lines.append(f"{made.name} = {made.shape} parameter({len(self.values)})")
        self.values.append(values)
        return made

    def operand(self, dims: tuple[int, ...], et: str = "") -> _Array:
        """Return an array: a new parameter, or a result of these dimensions."""
        fitting = [a for a in self.arrays if a.dims == dims and et in ("", a.et)]
        if fitting and self.rng.random() < 0.5:
            return self.rng.choice(fitting)
        return self.parameter(et or self.rng.choice(_TYPES), dims)

    def operands(self, dims: tuple[int, ...], *, alike: bool = False) -> list[_Array]:
        """Return one to three arrays. alike: of one element type and layout."""
        first = self.operand(dims)
        count = self.rng.choice((1, 1, 2, 3))
        et = first.et
        found = [first, *(self.operand(dims, et) for _ in range(count - 1))]
        return [first] * count if alike else found

    def dims(self) -> tuple[int, ...]:
        rank = self.rng.randint(0, 3)
        if self.rng.random() < 0.03:
            return (self.rng.choice((70_000, 300_001)),)
        return tuple(self.rng.choice((1, 2, 3, 4, 8, 13)) for _ in range(rank))

    def reducer(self, et: str) -> str:
        kind = ELEMENT_TYPES[et]
        ops = ["add", "multiply"]
        if kind.is_pred:
            ops = ["and", "or", "xor"]
        elif not kind.is_complex:
            ops += ["maximum", "minimum", "subtract", "twice"]
        if kind.is_integer:
            ops += ["and", "or", "xor"]
        op = self.rng.choice(ops)
        name = f"{op}_{et}"
        inner = f"ROOT c = {et}[] {op}(a, b)"
        if op == "twice":
            inner = f"d = {et}[] add(a, a)  ROOT c = {et}[] subtract(b, d)"
        self.functions[name] = (
            f"{name} {{ a = {et}[] parameter(0)  b = {et}[] parameter(1)  {inner} }}"
        )
        return name

    def partition(
        self, count: int, *, uneven: bool = False, partial: bool = False
    ) -> list[list[int]]:
        """Return the ids below a count in groups."""
        ids = list(range(count))
        if self.rng.random() < 0.5:
            self.rng.shuffle(ids)
        if uneven and self.rng.random() < 0.4:
            cut = self.rng.randint(1, count)
            return [g for g in (ids[:cut], ids[cut:]) if g]
        size = self.rng.choice([n for n in range(1, count + 1) if count % n == 0])
        groups = [ids[n : n + size] for n in range(0, count, size)]
        if partial and self.rng.random() < 0.5:
            groups = groups[: max(1, len(groups) - 1)]
        return groups

    def groups(self, *, is_flat: bool, uneven: bool = False, partial: bool = False) -> _Groups:
        """Return who meets. is_flat: the ids of an operation with a channel may be devices."""
        replicas, partitions = self.counts
        channel = f", channel_id={self.rng.randint(1, 3)}"
        mode = self.rng.choice(("replicas", "channel", "flat"))
        if mode == "flat" and is_flat:
            count, across, more = self.devices, 1, f"{channel}, use_global_device_ids=true"
        elif mode == "channel":
            count, across, more = (
                (replicas, partitions, channel) if is_flat else (partitions, 1, channel)
            )
        else:
            count, across, more = replicas, 1, ""
        groups = self.partition(count, uneven=uneven, partial=partial)
        text = "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in groups) + "}"
        if mode != "flat" and groups == [list(range(count))] and self.rng.random() < 0.5:
            text = "{}"
        return _Groups(f"replica_groups={text}{more}", len(groups[0]) * across)

    def emit(self, results: list[tuple[str, tuple[int, ...], str]], text: str) -> None:
        """Add an instruction. results: type, dimensions and layout of each array."""
        arrays = [_Array("", *r) for r in results]
        shapes = ", ".join(a.shape for a in arrays)
        name = f"v{len(self.lines)}"
        whole = f"({shapes})" if len(arrays) > 1 or text.startswith("tuple ") else shapes
        text = text.removeprefix("tuple ")
        opcode, rest = text.split("(", 1)
        start = self.started(opcode, whole, name, rest) if self.rng.random() < 0.3 else None
        self.lines += start or [f"{name} = {whole} {opcode}({rest}"]
        for n, a in enumerate(arrays):
            part = name
            if whole.startswith("("):
                part = f"{name}_{n}"
                self.lines.append(f"{part} = {a.shape} get-tuple-element({name}), index={n}")
            self.arrays.append(_Array(part, a.et, a.dims, a.layout))
            self.results.append((a.shape, part))

    def started(self, opcode: str, whole: str, name: str, rest: str) -> list[str] | None:
        """Return an operation in two steps, if there is one, with something else in between."""
        if opcode not in ("all-reduce", "all-gather", "collective-permute"):
            return None
        names = rest[: rest.index(")")].split(", ")
        sent = [next(a.shape for a in self.known() if a.name == n) for n in names]
        shape = whole
        if opcode != "all-reduce":
            shape = f"({'(' + ', '.join(sent) + ')' if len(sent) > 1 else sent[0]}, {whole})"
        between = self.rng.choice(list(self.known()))
        op = "not" if between.et == "pred" else "negate"
        middle = [] if between.et in ("u4", "u64") else [
            f"{name}m = {between.shape} {op}({between.name})"
        ]  # fmt: skip
        if middle:
            self.results.append((between.shape, f"{name}m"))
        return [
            f"{name}s = {shape} {opcode}-start({rest}", *middle,
            f"{name} = {whole} {opcode}-done({name}s)",
        ]  # fmt: skip

    def known(self) -> list[_Array]:
        """Return all arrays: parameters and results."""
        found = list(self.arrays)
        for line in self.lines:
            name, _, rest = line.partition(" = ")
            if "parameter(" in rest:
                shape = rest.split(" ")[0]
                et, _, tail = shape.partition("[")
                dims, _, layout = tail.partition("]")
                sizes = tuple(int(d) for d in dims.split(",") if d)
                found.append(_Array(name, et, sizes, layout))
        return found


def _names(operands: list[_Array]) -> str:
    return ", ".join(a.name for a in operands)


def _like(operands: list[_Array]) -> list[tuple[str, tuple[int, ...], str]]:
    return [(a.et, a.dims, a.layout) for a in operands]


def _all_reduce(g: _Generator) -> None:
    operands = g.operands(g.dims())
    groups = g.groups(is_flat=True, uneven=True)
    function = g.reducer(operands[0].et)
    g.emit(_like(operands), f"all-reduce({_names(operands)}), {groups.text}, to_apply={function}")


def _cut_dims(g: _Generator) -> tuple[tuple[int, ...], int]:
    dims = g.dims() or (3,)
    return dims, g.rng.randrange(len(dims))


def _resized(dims: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*dims[:dim], size, *dims[dim + 1 :])


def _all_gather(g: _Generator) -> None:
    dims, dim = _cut_dims(g)
    operands, groups = g.operands(dims), g.groups(is_flat=True)
    results = [(a.et, _resized(dims, dim, dims[dim] * groups.size), a.layout) for a in operands]
    g.emit(results, f"all-gather({_names(operands)}), {groups.text}, dimensions={{{dim}}}")


def _reduce_scatter(g: _Generator) -> None:
    dims, dim = _cut_dims(g)
    groups = g.groups(is_flat=True)
    operands = g.operands(_resized(dims, dim, dims[dim] * groups.size))
    function = g.reducer(operands[0].et)
    g.emit(
        [(a.et, dims, a.layout) for a in operands],
        f"reduce-scatter({_names(operands)}), {groups.text}, dimensions={{{dim}}}, "
        f"to_apply={function}",
    )


def _all_to_all(g: _Generator) -> None:
    dims, dim = _cut_dims(g)
    groups = g.groups(is_flat=False)
    if g.rng.random() < 0.5:
        operands = [g.operand(_resized(dims, dim, dims[dim] * groups.size))]
        text = f"all-to-all({_names(operands)}), {groups.text}, dimensions={{{dim}}}"
    else:
        operands = [g.operand(dims)] * groups.size
        text = f"tuple all-to-all({_names(operands)}), {groups.text}"
    g.emit(_like(operands), text)


def _permute(g: _Generator) -> None:
    replicas, partitions = g.counts
    is_channel = g.rng.random() < 0.5
    count = partitions if is_channel else replicas
    ids = list(range(count))
    sources, targets = ids[:], ids[:]
    g.rng.shuffle(sources)
    g.rng.shuffle(targets)
    kept = g.rng.randint(0, count)
    pairs = ",".join(f"{{{s},{t}}}" for s, t in zip(sources[:kept], targets[:kept], strict=True))
    channel = f", channel_id={g.rng.randint(1, 3)}" if is_channel else ""
    operands = g.operands(g.dims())
    g.emit(
        _like(operands),
        f"collective-permute({_names(operands)}), source_target_pairs={{{pairs}}}{channel}",
    )


def _rooted(g: _Generator, operands: list[_Array], size: int) -> str:
    """Return the text of a dynamic root after the operands, and of its attribute, or nothing."""
    if g.rng.random() < 0.5:
        return ")"
    roots = g.numpy.integers(0, size, len(operands)).astype(np.int32)
    values = np.broadcast_to(roots, (g.devices, len(operands)))
    named = g.parameter("s32", (len(operands),), values)
    return f", {named.name}), has_dynamic_root=true"


def _broadcast(g: _Generator) -> None:
    operands, groups = g.operands(g.dims()), g.groups(is_flat=False, partial=True)
    root = _rooted(g, operands, groups.size)
    g.emit(_like(operands), f"collective-broadcast({_names(operands)}{root}, {groups.text}")


def _collective_reduce(g: _Generator) -> None:
    operands, groups = g.operands(g.dims()), g.groups(is_flat=True, partial=True)
    root = _rooted(g, operands, groups.size)
    function = g.reducer(operands[0].et)
    g.emit(
        _like(operands),
        f"collective-reduce({_names(operands)}{root}, {groups.text}, to_apply={function}",
    )


def _ragged(g: _Generator) -> None:
    groups = g.groups(is_flat=False)
    rows = [g.rng.randint(1, 6) for _ in range(2)]
    rest = tuple(g.rng.choice((1, 2, 3)) for _ in range(g.rng.randint(0, 2)))
    source = g.operand((rows[0], *rest))
    target = g.operand((rows[1], *rest), source.et)
    updates = groups.size * g.rng.randint(1, 2)
    et = g.rng.choice(("s32", "s64", "u8"))
    dtype = ELEMENT_TYPES[et].dtype
    shape = (g.devices, updates)
    sizes = g.numpy.integers(0, min(rows) + 1, shape)
    tables = [g.numpy.integers(0, limit - sizes + 1) for limit in rows]
    named = [
        g.parameter(et, (updates,), t.astype(dtype)).name for t in (tables[0], sizes, tables[1])
    ]
    args = ", ".join([source.name, target.name, *named, named[1]])
    g.emit(_like([target]), f"ragged-all-to-all({args}), {groups.text}")


_KINDS = (
    _all_reduce, _all_reduce, _all_gather, _reduce_scatter, _all_to_all, _permute, _broadcast,
    _collective_reduce, _ragged,
)  # fmt: skip
