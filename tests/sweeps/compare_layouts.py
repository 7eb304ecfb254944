"""Give modules random layouts, and compare them compiled with the interpreter, and with XLA.

python -m tests.sweeps.compare_layouts [--first SEED] [--count N] [--only OPCODE] [--xla]

The modules are the examples of the op table and random ones. Every parameter, intermediate value
and result may have any order of dimensions, tiles, elements in bits, padding and memory space, and
the header's `entry_computation_layout` others again. With `--xla` there are orders of dimensions
only, which are what XLA:CPU has.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hlo.compiler.pipeline import compile as compile_module
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.frontends.text.header import ProgramShape
from hlo.ir import Module
from hlo.runtime.boundary import PackedPort
from hlo.testing.sampling import random_array
from hlo.values.arrays import actual
from hlo.values.layout import physical_bytes
from hlo.values.layout.packing import pack, unpack
from hlo.values.types import (
    ELEMENT_TYPES,
    ArrayShape,
    Layout,
    Shape,
    SplitConfig,
    Tile,
    TupleShape,
    array,
)
from hlo.verifier import verify
from tests.codegen.test_codegen_table import NOT_COMPARED
from tests.harness.oracle import XlaError, assert_same, leaves, xla_run
from tests.ops.test_op_table import EXAMPLES, NOT_RUN_BY_XLA, arguments, example, host, visible
from tests.sweeps.compare_generated import GENERATORS, compare_results, compare_xla

# Tiles that compilers use, and odd ones.
_TILES = [
    (Tile((2, 128)),), (Tile((8, 128)), Tile((2, 1))), (Tile((4,)),), (Tile((2, 2)),),
    (Tile((3, 2)),), (Tile((128,)),), (Tile((8, 128)), Tile((4, 1))), (Tile((4, 2)), Tile((2, 2))),
    (Tile((2, 3, 2)),), (Tile((Tile.COMBINE, 4)),), (Tile((Tile.COMBINE, 2, 3)), Tile((2,))),
    (Tile((5,)), Tile((2,))),
]  # fmt: skip


class Layouts:
    """Chooses layouts at random."""

    def __init__(self, seed: int, *, plain: bool = False) -> None:
        """plain: choose nothing but orders of dimensions."""
        self.rng = random.Random(seed)
        self.plain = plain

    def layout(self, shape: ArrayShape) -> Layout:
        rng, et = self.rng, shape.element_type
        order = list(range(shape.rank))
        if rng.random() < 0.8:
            rng.shuffle(order)
        else:
            order.reverse()
        layout = Layout(tuple(order))
        if self.plain:
            return layout
        if shape.rank and rng.random() < 0.4:
            layout = replace(layout, tiles=rng.choice(_TILES))
        if et.bits < 8 and rng.random() < 0.6:
            choice = [n for n in (1, 2, 4, 8) if n >= et.bits]
            layout = replace(layout, element_bits=rng.choice(choice))
        elif not et.is_complex and et.bits <= 16 and rng.random() < 0.05:
            layout = replace(layout, element_bits=32)
        if rng.random() < 0.15:
            layout = replace(layout, tail_padding=rng.choice((2, 7, 64)))
        if rng.random() < 0.2:
            layout = replace(layout, memory_space=rng.randint(1, 5))
        if rng.random() < 0.05:
            layout = replace(layout, dynamic_prefix_bytes=rng.choice((4, 12)))
        wide = [d for d, n in enumerate(shape.dims) if n > 1]
        if wide and rng.random() < 0.05:
            layout = replace(layout, splits=(SplitConfig(rng.choice(wide), (1,)),))
        return layout

    def shape(self, shape: Shape) -> Shape:
        """Return a shape with other layouts."""
        if isinstance(shape, TupleShape):
            return TupleShape(tuple(map(self.shape, shape.elements)))
        if not isinstance(shape, ArrayShape) or self.rng.random() < 0.2:
            return shape
        return shape.with_layout(self.layout(shape))

    def relay(self, module: Module) -> Module:
        """Give all values of a module layouts, in place, where its rules allow that."""
        for inst in module.instructions():
            # They have rules about the layouts of what they read.
            if inst.opcode not in ("bitcast", "custom-call"):
                if not any(
                    u.opcode in ("bitcast", "all-to-all", "custom-call") for u in inst.users
                ):
                    inst.shape = self.shape(inst.shape)
        if self.rng.random() < 0.5:
            entry = module.entry
            module.attrs["entry_computation_layout"] = ProgramShape(
                tuple(map(self.shape, entry.parameter_shapes)), self.shape(entry.result_shape)
            )
        return module


class _CheckedPort(PackedPort):
    """Results whose padding has to be zero."""

    def logical(self, memory: np.ndarray) -> np.ndarray:
        bits = memory.view(np.ndarray)[: self.size_bytes]
        value = unpack(bits, self.shape)
        assert bits.tobytes() == pack(value, self.shape).tobytes(), f"padding of {self.shape}"
        return value


def run(module: Module, args: list[Any]) -> list[np.ndarray]:
    """Return what a module computes compiled; padding in its results has to be zero."""
    exe = compile_module(module, cache=False, host=host(module))
    assert [p.shape for p in exe.parameters] == module.program_shapes[0]
    # What a bitcast makes of memory keeps what was in its padding.
    if not any(inst.opcode == "bitcast" for inst in module.instructions()):
        exe._outputs = [
            _CheckedPort(p.shape) if isinstance(p, PackedPort) else p for p in exe._outputs
        ]
    return list(visible(exe(*args)))


def compare_example(name: str, index: int, layouts: Layouts, *, xla: bool = False) -> None:
    """Fail unless an example of the op table means the same compiled, in any layouts."""
    module = parse(example(name, index))
    args = arguments(module, name)
    want = visible(interpret(module, args, host(module)))
    text = str(layouts.relay(module))
    assert str(parse(text)) == text
    verify(module)
    results = [run(module, args)]
    if xla and not {name, f"{name}-{index}"} & NOT_RUN_BY_XLA.keys():
        results.append(xla_run(text, args))
    if name not in NOT_COMPARED:
        for got in results:
            for g, w in zip(got, want, strict=True):
                size = np.abs(w.astype(np.complex128))
                largest = float(np.max(size, initial=0.0, where=np.isfinite(size)))
                assert_same(g, w, atol=1e-6 * largest)


def compare_generated(kind: str, seed: int, layouts: Layouts, *, xla: bool = False) -> None:
    """Fail unless a random module means the same compiled, in any layouts."""
    case = GENERATORS[kind](seed)
    module, args = case.module, case.args
    want = [actual(leaf) for leaf in leaves(interpret(module, args))]
    verify(layouts.relay(module))
    got = [actual(leaf) for leaf in run(module, args)]
    compare_results(got, want, case.rtol)
    if xla:
        compare_xla(case, got)


_BITCAST = """HloModule bitcast
ENTRY main {{
  p = {before} parameter(0)
  x = {a} reverse(p), dimensions={{}}
  y = {b} bitcast({operand})
  {more}
  ROOT t = ({b}, {after}, {a}) tuple(y, z, {third})
}}
"""


def compare_bitcast(seed: int, layouts: Layouts) -> None:
    """Fail unless memory means the same compiled when it is given another shape."""
    rng = layouts.rng
    a, b = _of_one_size(layouts)
    before = array(a.element_type, a.dims) if rng.random() < 0.5 else a
    back = physical_bytes(b) * 8 == b.num_elements * b.element_type.bits
    more = f"z = {array(b.element_type, b.dims)} reverse(y), dimensions={{}}"
    # Nothing of `a` may be lost; of a NaN its bits may be.
    if back and b.element_type.is_integer:
        more += f"\n  w = {a} bitcast(y)"
    module = parse(
        _BITCAST.format(
            a=a, b=b, before=before, after=array(b.element_type, b.dims), more=more,
            operand="p" if before is a else "x", third="w" if "w =" in more else "x",
        )
    )  # fmt: skip
    verify(module)
    values = random_array(np.random.default_rng(seed), a.element_type, a.dims, edges=True)
    want = leaves(interpret(module, [values]))
    assert_same(run(module, [values]), want, ulps=0, signed_zero=True)


def _of_one_size(layouts: Layouts) -> tuple[ArrayShape, ArrayShape]:
    """Return two shapes that take as many bytes in memory."""
    rng = layouts.rng

    def choose() -> ArrayShape:
        dims = [rng.choice((1, 2, 3, 4, 5, 8)) for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))]
        shape = array(rng.choice([*ELEMENT_TYPES.values()]), dims)
        return shape.with_layout(layouts.layout(shape)) if rng.random() < 0.7 else shape

    a = choose()
    size = physical_bytes(a)
    for _ in range(60):
        b = choose()
        if physical_bytes(b) == size:
            return a, b
    both = [a, array("u8", [size])]
    rng.shuffle(both)
    return both[0], both[1]


def _cases(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield name and comparison of every case."""
    xla = options.xla
    for seed in range(options.first, options.first + options.count):
        for name, index in EXAMPLES:
            if options.only in ("", name):
                layouts = Layouts(seed, plain=xla)
                yield (
                    f"seed {seed}: {name}-{index}",
                    partial(compare_example, name, index, layouts, xla=xla),
                )
        if options.only:
            continue
        for number in range(100 * seed, 100 * seed + 100):
            for kind in GENERATORS:
                layouts = Layouts(number, plain=xla)
                compare = partial(compare_generated, kind, number, layouts, xla=xla)
                yield f"seed {seed}: {kind} {number}", compare
            if not xla:
                compare = partial(compare_bitcast, number, Layouts(number))
                yield f"seed {seed}: bitcast {number}", compare


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare modules in random layouts.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=10, help="how many seeds")
    parser.add_argument("--only", default="", help="an opcode whose examples to run, only these")
    parser.add_argument("--xla", action="store_true", help="run them on XLA too, where it can")
    total, failed, skipped, start = 0, 0, 0, time.perf_counter()
    for name, compare in _cases(parser.parse_args()):
        total += 1
        try:
            compare()
        except XlaError:
            skipped += 1
        except Exception as e:  # whatever goes wrong is a result
            failed += 1
            print(f"{name}: {type(e).__name__}: {(str(e).splitlines() or [''])[0][:160]}")
    seconds = time.perf_counter() - start
    print(f"{total} modules, {failed} failed, {skipped} not run by XLA, {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
