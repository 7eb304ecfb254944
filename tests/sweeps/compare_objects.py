"""Compare object files with the interpreter: small modules by the thousand, on any machine.

The modules of a machine are linked into one C program, which is emulated where it has to be.

python -m tests.sweeps.compare_objects [MACHINE...] [--part N --parts N] [--generated N]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlo.compiler.coverage import instances
from hlo.errors import HloError
from hlo.eval import interpret
from hlo.frontends.text import parse
from hlo.ir import Module
from hlo.objects.header import header
from hlo.objects.interface import Interface
from hlo.ops import OPS
from hlo.testing.compare import compare
from hlo.testing.sampling import random_value
from hlo.values.arrays import actual
from hlo.values.types import ELEMENT_TYPES, ArrayShape
from hlo.verifier import verify
from tests.harness.native import (
    MACHINES,
    STRICT,
    Machine,
    logical,
    physical,
    run_command,
    undefined,
)
from tests.harness.oracle import leaves
from tests.sweeps.compare_generated import GENERATORS, compare_results

# What C's own library defines, and the linker.
LIBC = {
    "memcpy", "memset", "memmove", "__stack_pointer", "__indirect_function_table",
    "_GLOBAL_OFFSET_TABLE_", "_fltused",
}  # fmt: skip
# Numbers that an implementation may choose.
_FREE = {"rng", "rng-bit-generator", "rng-get-and-update-state"}
# What an emulator of Debian 12 (QEMU 7.2) does not survive: conversions of vectors of floats.
_NOT_EMULATED = {"riscv64-v": {"convert", "scaled-dot", "stochastic-convert"}}
# What the program has room for.
_MOST_ARRAYS = 64

_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "types.h"
typedef struct {
  const hlo_array *inputs, *outputs;
  int num_inputs, num_outputs;
  size_t workspace;
  int (*call)(const void *const *, void *const *, void *, const hlo_threads *);
} entry;
DECLARATIONS
static const entry entries[] = {TABLE};
#ifdef _WIN32
static void *memory(size_t n) { return _aligned_malloc(n + 1, 64); }
#else
static void *memory(size_t n) { return aligned_alloc(64, (n / 64 + 1) * 64); }
#endif
int main(void) {
  FILE *in = fopen("in.bin", "rb"), *out = fopen("out.bin", "wb");
  if (!in || !out) return 1;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    const entry *e = &entries[i];
    void *args[64], *results[64], *workspace = memory(e->workspace);
    for (int k = 0; k < e->num_inputs; k++) {
      args[k] = memory(e->inputs[k].bytes);
      if (fread(args[k], 1, e->inputs[k].bytes, in) != e->inputs[k].bytes) return 2;
    }
    for (int k = 0; k < e->num_outputs; k++) results[k] = memory(e->outputs[k].bytes);
    if (e->call((const void *const *)args, results, workspace, 0) != 0) return 3;
    for (int k = 0; k < e->num_outputs; k++)
      if (fwrite(results[k], 1, e->outputs[k].bytes, out) != e->outputs[k].bytes) return 4;
  }
  return fclose(out) != 0;
}
"""


@dataclass(frozen=True)
class Small:
    """A small module. rtol: what a dozen operations may be off by; None for one operation."""

    symbol: str
    text: str
    args: Sequence[Any]
    rtol: float | None = None

    @property
    def wanted(self) -> list[np.ndarray]:
        return [np.asarray(actual(x)) for x in leaves(interpret(parse(self.text), self.args))]

    def problem(self, got: Sequence[np.ndarray]) -> str | None:
        """Return how results differ from the interpreter's, None if they do not."""
        if self.rtol is not None:
            try:
                compare_results(self._sized(got), self.wanted, self.rtol)
            except AssertionError as e:
                return str(e) or "results of other shapes"
            return None
        compared = [compare(g, w) for g, w in zip(got, self.wanted, strict=True)]
        return next((str(c) for c in compared if not c.same), None)

    def _sized(self, got: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the results without padding: behind an array are the sizes that vary."""
        rest, found = iter(got), []
        for _, shape in parse(self.text).entry.result_shape.leaves():
            if isinstance(shape, ArrayShape):
                value = next(rest)
                sizes = [
                    slice(int(next(rest)) if shape.is_dynamic_dim(d) else n)
                    for d, n in enumerate(shape.dims)
                ]
                found.append(value[tuple(sizes)])
        assert next(rest, None) is None
        return found


# --- modules ------------------------------------------------------------------------------------


def _arguments(module: Module) -> list[Any]:
    rng = np.random.default_rng(1)
    return [random_value(rng, s) for s in module.entry.parameter_shapes]


def examples(machine: str) -> Iterator[Small]:
    """Yield a module for each operation; the machines together try all examples."""
    shift = sorted(MACHINES).index(machine)
    for name, spec in OPS.items():
        if name not in _FREE | _NOT_EMULATED.get(machine, set()):
            n = shift % len(spec.examples)
            text = spec.examples[n]
            yield Small(f"{name.replace('-', '_')}_{n}_", text, _arguments(parse(text)))


def in_every_type(machine: str, part: int, parts: int) -> Iterator[Small]:
    """Yield modules of operations in element types in which they have a meaning: a share of all."""
    skipped = _FREE | _NOT_EMULATED.get(machine, set())
    pairs = [(name, et) for name in sorted(OPS) if name not in skipped for et in ELEMENT_TYPES]
    random.Random(0).shuffle(pairs)
    for name, et in pairs[part::parts]:
        for text in instances(OPS[name], et):
            try:
                module = parse(text)
                verify(module)
                args = _arguments(module)
                interpret(module, args)
            except HloError:
                continue
            yield Small(f"{name.replace('-', '_')}_{et}_", text, args)
            break


def generated(first: int, count: int) -> Iterator[Small]:
    """Yield random modules of each kind."""
    for kind, generator in GENERATORS.items():
        for seed in range(first, first + count):
            case = generator(seed)
            if case.rtol is not None:
                yield Small(f"{kind}_{seed}_", str(case.module), case.args, case.rtol)


# --- programs -----------------------------------------------------------------------------------


def compare_objects(
    folder: Path, machine: Machine, cases: Iterable[Small]
) -> tuple[int, list[str]]:
    """Return how many modules ran on a machine, and what is wrong with them."""
    linked: list[tuple[Small, Interface]] = []
    wrong: list[str] = []
    for case in cases:
        try:
            code = machine.code(case.text, case.symbol)
        except HloError as e:
            if e.code != "unsupported":
                wrong.append(f"{case.symbol}: {e}")
            continue
        i = code.interface
        if i.uses_host or not i.outputs or max(len(i.inputs), len(i.outputs)) > _MOST_ARRAYS:
            continue
        (folder / f"{case.symbol}.o").write_bytes(code.write(".o", f"{case.symbol}.o"))
        linked.append((case, i))
    needs = {case.symbol: undefined(machine, folder / f"{case.symbol}.o") for case, _ in linked}
    wrong += [f"{symbol}: needs {n - LIBC}" for symbol, n in needs.items() if n - LIBC]
    data = _run(folder, machine, [i for _, i in linked], arguments_of(linked))
    return len(linked), [*wrong, *problems_of(linked, data)]


def arguments_of(linked: Sequence[tuple[Small, Interface]]) -> bytes:
    """Return the arguments of modules, one after the other."""
    return b"".join(
        physical(value, leaf.shape)
        for case, i in linked
        for leaf, value in zip(i.inputs, leaves(tuple(case.args)), strict=True)
    )


def problems_of(linked: Sequence[tuple[Small, Interface]], data: bytes) -> list[str]:
    """Return what is wrong with the results of modules, which come one after the other."""
    wrong = []
    at = 0
    for case, i in linked:
        got = []
        for leaf in i.outputs:
            got.append(logical(data[at : at + leaf.size_bytes], leaf.shape))
            at += leaf.size_bytes
        problem = case.problem(got)
        if problem is not None:
            wrong.append(f"{case.symbol}: {problem}")
    assert at == len(data)
    return wrong


def _run(folder: Path, machine: Machine, interfaces: Sequence[Interface], data: bytes) -> bytes:
    """Return the results of all modules, one after the other, from arguments in one file."""
    declarations, table = [], []
    for i in interfaces:
        s = i.symbol
        declarations += [
            f"extern const hlo_array {s}_inputs[], {s}_outputs[];",
            f"int {s}_call(const void *const *, void *const *, void *, const hlo_threads *);",
        ]
        table.append(
            f"{{{s}_inputs, {s}_outputs, {len(i.inputs)}, {len(i.outputs)}, "
            f"{i.workspace_bytes}, {s}_call}}"
        )
    (folder / "types.h").write_text(header(interfaces[0], "m", "types.h"))
    source = _PROGRAM.replace("DECLARATIONS", "\n".join(declarations))
    (folder / "all.c").write_text(source.replace("TABLE", ",\n".join(table)))
    (folder / "in.bin").write_bytes(data)
    objects = [f"{i.symbol}.o" for i in interfaces]
    run_command([*machine.compiler, *STRICT, "all.c", *objects, "-o", "all"], folder)
    run_command([*machine.runner, "./all"], folder)
    return (folder / "out.bin").read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare object files with the interpreter.")
    parser.add_argument("machines", nargs="*", default=sorted(MACHINES), metavar="MACHINE",
                        help=f"of {', '.join(MACHINES)}; all by default")  # fmt: skip
    parser.add_argument("--part", type=int, default=0, help="which share of the types to try")
    parser.add_argument("--parts", type=int, default=4, help="how many shares there are")
    parser.add_argument("--generated", type=int, default=20, help="random modules of each kind")
    options = parser.parse_args()
    failed = 0
    for name in options.machines:
        start = time.perf_counter()
        cases = [
            *in_every_type(name, options.part, options.parts),
            *generated(1000 * options.part, options.generated),
        ]
        with tempfile.TemporaryDirectory() as folder:
            count, wrong = compare_objects(Path(folder), MACHINES[name], cases)
        print(*wrong, sep="\n", end="\n" if wrong else "")
        seconds = time.perf_counter() - start
        print(f"{name}: {count} modules, {len(wrong)} wrong, {seconds:.0f} s", flush=True)
        failed += len(wrong)
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())
