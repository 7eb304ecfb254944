"""Compare C programs for GPUs with the interpreter: small modules by the hundred.

Those of one run are linked into one program, which runs on the stub of the CUDA driver.

python -m tests.sweeps.compare_launchers [--kind KIND] [--first SEED] [--count N] [--cpu sm_90]
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hlo.compiler.gpu_translation import translate_for_gpu
from hlo.errors import HloError
from hlo.frontends.text import parse
from hlo.objects.gpu.header import gpu_header
from hlo.objects.gpu.targets import gpu_platform
from hlo.objects.interface import Interface
from hlo.ops import OPS
from hlo.testing.sampling import random_value
from tests.gpu.stub_driver.library import CLEAN, build_driver, environment
from tests.harness.native import run_command
from tests.sweeps.compare_generated import GENERATORS
from tests.sweeps.compare_objects import Small, arguments_of, problems_of

# What the program has room for.
_MOST_ARRAYS = 256
# Rounding differs from the interpreter's in a dozen operations.
_RTOL = 1e-4
# Numbers that an implementation may choose.
_FREE = {"rng", "rng-bit-generator", "rng-get-and-update-state"}

_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "types.h"
typedef struct {
  const char *name;
  const hlo_array *inputs, *outputs;
  int num_inputs, num_outputs;
  int (*create)(void **, int, struct CUctx_st *);
  int (*call)(void *, const void *const *, void *const *);
  const char *(*error)(const void *);
  void (*destroy)(void *);
} entry;
DECLARATIONS
static const entry entries[] = {TABLE};
int main(void) {
  FILE *in = fopen("in.bin", "rb"), *out = fopen("out.bin", "wb");
  if (!in || !out) return 1;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    const entry *e = &entries[i];
    void *args[256], *results[256], *program;
    int status = e->create(&program, 0, NULL);
    for (int k = 0; k < e->num_inputs; k++) {
      args[k] = malloc(e->inputs[k].bytes + 1);
      if (fread(args[k], 1, e->inputs[k].bytes, in) != e->inputs[k].bytes) return 2;
    }
    for (int k = 0; k < e->num_outputs; k++) results[k] = calloc(1, e->outputs[k].bytes + 1);
    /* The second call finds the memory of the first. */
    for (int turn = 0; turn < 2 && status == 0; turn++) {
      for (int k = 0; k < e->num_outputs; k++) memset(results[k], turn, e->outputs[k].bytes);
      status = e->call(program, (const void *const *)args, results);
    }
    if (status != 0) printf("%s: %d %s\\n", e->name, status, program ? e->error(program) : "");
    for (int k = 0; k < e->num_outputs; k++)
      if (fwrite(results[k], 1, e->outputs[k].bytes, out) != e->outputs[k].bytes) return 4;
    for (int k = 0; k < e->num_inputs; k++) free(args[k]);
    for (int k = 0; k < e->num_outputs; k++) free(results[k]);
    e->destroy(program);
  }
  fclose(in);
  return fclose(out) != 0;
}
"""


def examples() -> Iterator[Small]:
    """Yield the op table's examples."""
    for name, spec in OPS.items():
        for number, text in enumerate(spec.examples if name not in _FREE else ()):
            rng = np.random.default_rng(1)
            args = [random_value(rng, s) for s in parse(text).entry.parameter_shapes]
            yield Small(f"{name.replace('-', '_')}_{number}_", text, args, _RTOL)


def generated(kind: str, first: int, count: int) -> Iterator[Small]:
    """Yield random modules of a kind."""
    for seed in range(first, first + count):
        case = GENERATORS[kind](seed)
        yield Small(f"{kind}_{seed}_", str(case.module), case.args, case.rtol)


def compare_launchers(
    folder: Path, cases: Iterable[Small], cpu: str = "sm_90"
) -> tuple[int, list[str]]:
    """Return how many modules ran, and what is wrong with them. Modules that call the host are left
    out."""
    linked: list[tuple[Small, Interface]] = []
    wrong: list[str] = []
    for case in cases:
        try:
            code = translate_for_gpu(parse(case.text), gpu_platform("nvptx64", cpu), case.symbol)
            source = code.write(".c", f"{case.symbol}.c")
        except HloError as e:
            if e.code not in ("unsupported", "no-launcher"):
                wrong.append(f"{case.symbol}: {e}")
            continue
        if code.interface.uses_host:
            continue
        if max(len(code.interface.inputs), len(code.interface.outputs)) > _MOST_ARRAYS:
            continue
        if not linked:
            types = gpu_header(replace(code.interface, symbol="types"), "m.hlo", "types.h")
            (folder / "types.h").write_text(types)
        (folder / f"{case.symbol}.c").write_bytes(source)
        run_command(["cc", "-std=c99", "-O0", "-c", f"{case.symbol}.c"], folder)
        linked.append((case, code.interface))
    data, said = _run(folder, [i for _, i in linked], arguments_of(linked))
    return len(linked), [*wrong, *said, *problems_of(linked, data)]


def _run(folder: Path, interfaces: Sequence[Interface], data: bytes) -> tuple[bytes, list[str]]:
    """Return the results of all modules, one after the other, and what the program says."""
    declarations, table = [], []
    for i in interfaces:
        s = i.symbol
        declarations += [
            f"extern const hlo_array {s}_inputs[], {s}_outputs[];",
            f"int {s}_create(void **, int, struct CUctx_st *);",
            f"int {s}_call(void *, const void *const *, void *const *);",
            f"const char *{s}_error(const void *);",
            f"void {s}_destroy(void *);",
        ]
        table.append(
            f'{{"{s}", {s}_inputs, {s}_outputs, {len(i.inputs)}, {len(i.outputs)}, '
            f"{s}_create, {s}_call, {s}_error, {s}_destroy}}"
        )
    source = _PROGRAM.replace("DECLARATIONS", "\n".join(declarations))
    (folder / "all.c").write_text(source.replace("TABLE", ",\n".join(table)))
    (folder / "in.bin").write_bytes(data)
    library = build_driver(folder)
    objects = [f"{i.symbol}.o" for i in interfaces]
    run_command(["cc", "-std=c99", "-O0", "all.c", *objects, str(library), "-o", "all"], folder)
    report = folder / "report"
    done = subprocess.run(
        ["./all"], cwd=folder, capture_output=True, text=True, check=False,
        env=environment(library, HLO_STUB_REPORT=str(report)),
    )  # fmt: skip
    said = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    if done.returncode or report.read_text() != CLEAN:
        said.append(f"the program ends with {done.returncode}, and leaves {report.read_text()}")
    return (folder / "out.bin").read_bytes(), said


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare C programs for GPUs with the interpreter")
    parser.add_argument("--kind", choices=["examples", *GENERATORS], help="one kind of modules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=20, help="random modules of each kind")
    parser.add_argument("--cpu", default="sm_90", help="the GPU")
    options = parser.parse_args()
    failed = 0
    for kind in [options.kind] if options.kind else ["examples", *GENERATORS]:
        start = time.perf_counter()
        cases = examples()
        if kind != "examples":
            cases = generated(kind, options.first, options.count)
        with tempfile.TemporaryDirectory() as folder:
            count, wrong = compare_launchers(Path(folder), cases, options.cpu)
        print(*wrong, sep="\n", end="\n" if wrong else "")
        seconds = time.perf_counter() - start
        print(f"{kind}: {count} modules, {len(wrong)} wrong, {seconds:.0f} s", flush=True)
        failed += len(wrong)
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())
