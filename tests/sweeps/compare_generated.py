"""Compare compiled random modules with the interpreter, and with XLA where it can run them.

python -m tests.sweeps.compare_generated [--kind KIND] [--first SEED] [--count N] [--xla] [--quick]
    [--low-limits]
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from hlo.compiler.binding import bind
from hlo.compiler.lowering import Clock
from hlo.compiler.pipeline import build
from hlo.compiler.pipeline import compile as compile_module
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.host import Host
from hlo.ir import Instruction, Module
from hlo.llvm import LlvmModule
from hlo.runtime.cache import Cache
from hlo.runtime.executable import Executable
from hlo.runtime.jit import Machine, host_machine
from hlo.values.arrays import actual
from hlo.values.types import ArrayShape
from hlo.verifier import verify
from tests.generators.dynamic import generate_dynamic
from tests.generators.large import generate_large
from tests.generators.modules import arguments, generate
from tests.generators.nested import generate_nested
from tests.generators.ops import MAKERS, Case, generate_ops
from tests.generators.rows import generate_rows
from tests.harness.low_limits import lower_limits
from tests.harness.oracle import XlaError, assert_same, leaves, xla_run

# What an error of rounding becomes in a dozen operations.
_MANY = 1e-4


def _many(generator: Callable[[int], Module]) -> Callable[[int], Case]:
    def case(seed: int) -> Case:
        module = generator(seed)
        return Case(module, arguments(seed, module), rtol=_MANY)

    return case


GENERATORS: dict[str, Callable[[int], Case]] = {
    "flat": _many(generate), "nested": _many(generate_nested), "dynamic": _many(generate_dynamic),
    "rows": _many(generate_rows), "ops": generate_ops, "large": generate_large,
}  # fmt: skip
# Those of one operation, small or large.
OF_ONE: dict[str, Callable[[int], Case]] = {
    prefix + name: functools.partial(make, maker=name) for name in MAKERS
    for prefix, make in (("", generate_ops), ("large-", generate_large))
}  # fmt: skip


def compare_results(
    got: Sequence[np.ndarray], want: Sequence[np.ndarray], rtol: float | None, tiny: bool = False
) -> None:
    """Fail unless results agree: but for `rtol`, which is 0, or None for one rounding, or more.

    Then elements may be off by a tenth of that of the largest, too, since sums cancel. tiny: what
    is below the normal numbers may be zero.
    """
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        if not rtol:
            ulps = None if rtol is None else 0.0
            assert_same(g, w, ulps=ulps, atol=_smallest(w.dtype) if tiny else 0.0)
            continue
        values = np.abs(w.astype(np.complex128))
        scale = float(np.max(values, initial=1.0, where=np.isfinite(values)))
        allowed = max(rtol, 1e-2) if w.dtype.itemsize <= 2 else rtol
        assert_same(g, w, rtol=allowed, atol=rtol / 10 * scale)


def _smallest(dtype: np.dtype) -> float:
    """Return the smallest normal number of a float type; narrow ones are computed in f16."""
    if dtype.name.startswith("float8"):
        dtype = np.dtype(np.float16)
    is_inexact = dtype.kind in "fc" or dtype.name == "bfloat16"
    return float(ml_dtypes.finfo(dtype).smallest_normal) if is_inexact else 0.0


@functools.cache
def _store() -> Cache:
    """Return a place for programs, so that each is built once for any number of threads."""
    return Cache(tempfile.mkdtemp(prefix="hlo-generated-"), 1 << 24)


class _QuickMachine(Machine):
    """This processor, for programs that LLVM does not optimize: most of the time is its."""

    def __init__(self) -> None:
        host = host_machine()
        super().__init__(host.triple, host.cpu, host.features)

    @property
    def names(self) -> tuple[str, str, str, str]:
        """Not those of the processor: this one compiles whole modules, and knows no functions."""
        return ("quick", *super().names[1:])

    def compile(self, module: LlvmModule, *_: object, **__: object) -> tuple[bytes, ...]:
        return (self.quick_code(module.to_text()),)


quick_machine = functools.cache(_QuickMachine)


def _programs(module: Module, passes: str, quick: bool) -> list[Executable]:
    """Return a module compiled for one thread and for four."""
    if not quick:
        return [compile_module(module, cache=_store(), threads=n, passes=passes) for n in (1, 4)]
    program = build(module, quick_machine(), Clock(), passes)
    outside = bind(program.imports, Host()) if program.uses_host else None
    return [Executable(program, threads=n, outside=outside) for n in (1, 4)]


def compare_compiled(case: Case, passes: str = "", quick: bool = False) -> list[np.ndarray]:
    """Fail unless a module computes compiled what it means; returns its results.

    passes: what optimizes it first. quick: what it becomes, LLVM leaves as it is. Results are the
    same bit for bit from run to run, for one thread and for several.
    """
    want = [actual(leaf) for leaf in leaves(interpret(case.module, case.args))]
    exe, threaded = _programs(case.module, passes, quick)
    got = leaves(exe(*case.args))
    compare_results(got, want, case.rtol)
    for again in (leaves(exe(*case.args)), leaves(threaded(*case.args))):
        # What LLVM makes one operation of, it does not everywhere unless it optimizes.
        if quick and case.rtol != 0:
            compare_results(again, want, case.rtol)
            continue
        for a, b in zip(got, again, strict=True):
            assert a.tobytes() == b.tobytes(), "results differ from run to run"
    return got


def compare_text(module: Module) -> None:
    """Fail unless a module verifies and reads back as it was written."""
    verify(module)
    text = str(module)
    again = parse(text)
    assert str(again) == text
    verify(again)


def compare_xla(case: Case, got: Sequence[np.ndarray]) -> None:
    """Fail unless results are what XLA computes. Raises XlaError where it cannot tell."""
    text = str(case.module)
    if "s1[" in text or "u1[" in text:
        raise XlaError("it has one type of one bit")
    if any(
        isinstance(s, ArrayShape) and s.is_dynamic for _, s in case.module.entry.root.shape.leaves()
    ):
        raise XlaError("it returns arrays of dynamic dimensions at their bounds")
    # A fusion of XLA:CPU needs notes of its own making.
    text = re.sub(r" fusion\((.*)\), kind=k\w+, calls=", r" call(\1), to_apply=", text)
    want = xla_run(text, case.args)
    if any(map(_is_extreme, case.module.instructions())):
        # Of long rows XLA:CPU takes the largest and the smallest number without looking at NaN.
        want = [np.where(_nan(g), g, w) for g, w in zip(got, want, strict=True)]
    compare_results(got, want, case.rtol, tiny=True)


def _is_extreme(inst: Instruction) -> bool:
    if inst.opcode not in ("reduce", "reduce-window"):
        return False
    return any(i.opcode in ("maximum", "minimum") for i in inst.attrs["to_apply"])


def _nan(x: np.ndarray) -> np.ndarray:
    return x != x


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare compiled random modules.")
    parser.add_argument("--kind", choices=[*GENERATORS, *OF_ONE], help="one kind of modules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many of each kind")
    parser.add_argument("--passes", default="", help="what optimizes them, or default")
    parser.add_argument("--xla", action="store_true", help="run them on XLA too")
    parser.add_argument("--quick", action="store_true", help="without LLVM's optimizations")
    parser.add_argument("--low-limits", action="store_true", help="compile as if all were large")
    options = parser.parse_args()
    if options.low_limits:
        lower_limits()
    kinds = [options.kind] if options.kind else list(GENERATORS)
    failed, compared, start = 0, 0, time.perf_counter()
    for kind in kinds:
        for seed in range(options.first, options.first + options.count):
            try:
                case = (GENERATORS | OF_ONE)[kind](seed)
                compare_text(case.module)
                got = compare_compiled(case, options.passes, options.quick)
                if options.xla and case.on_xla:
                    compare_xla(case, got)
                    compared += 1
            except XlaError:
                continue
            except Exception as e:  # whatever goes wrong is a result
                failed += 1
                first = (str(e) or "no message").splitlines()[0][:150]
                print(f"{kind} {seed}: {type(e).__name__}: {first}", flush=True)
    seconds = time.perf_counter() - start
    on_xla = f", {compared} of them on XLA too" if options.xla else ""
    print(f"{options.count * len(kinds)} modules{on_xla}: {failed} failed, {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
