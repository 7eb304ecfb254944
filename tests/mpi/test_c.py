"""An object of hlo-compile on several ranks, with the table of functions in C."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hlo
from tests.harness.mpi import MPIEXEC, needs_mpi
from tests.harness.oracle import leaves
from tests.harness.processes import HANG_S

_RESULTS = [
    ("f32[10001]", "all-reduce(x), replica_groups={{1,0}}, to_apply=add"),
    ("f32[3]", "all-reduce(y), replica_groups={}, to_apply=add"),
    ("s32[6,4]", "all-reduce(s), replica_groups={}, to_apply=iadd"),
    ("s32[6,8]", "all-gather(s), replica_groups={}, dimensions={1}"),
    ("s32[6,4]", "all-to-all(s), replica_groups={}, dimensions={1}"),
    ("s32[6,4]", "collective-permute(s), source_target_pairs={{0,1}}"),
    ("s32[3,4]", "reduce-scatter(s), replica_groups={}, dimensions={0}, to_apply=iadd"),
    ("f32[3,5]", "reduce-scatter(z), replica_groups={{1,0}}, dimensions={1}, to_apply=add"),
    ("s32[6,4]", "collective-broadcast(s), replica_groups={{1,0}}"),
    ("s32[6,4]", "all-reduce-done(st)"),
    ("s32[6,8]", "all-gather-done(gt)"),
    ("s32[6,4]", "ragged-all-to-all(s, s, o, n, o, n), replica_groups={}"),
]
_LINES = "\n".join(f"  r{n} = {shape} {line}" for n, (shape, line) in enumerate(_RESULTS))
_SHAPES = ", ".join(shape for shape, _ in _RESULTS)
_MODULE = f"""HloModule m, replica_count=2
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
iadd {{ a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] add(a, b) }}
ENTRY e {{
  x = f32[10001] parameter(0)  y = f32[3] parameter(1)  z = f32[3,10] parameter(2)
  s = s32[6,4] parameter(3)
  o = s32[2] constant({{0,2}})  n = s32[2] constant({{1,2}})
  st = s32[6,4] all-reduce-start(s), replica_groups={{}}, to_apply=iadd
  gt = (s32[6,4], s32[6,8]) all-gather-start(s), replica_groups={{}}, dimensions={{1}}
{_LINES}
  ROOT t = ({_SHAPES}) tuple({", ".join(f"r{n}" for n in range(len(_RESULTS)))})
}}
"""
_MAIN = """#include <stdio.h>
#include "m.h"
#include "hlo_collectives_mpi.h"
static char in[4][m_BYTES_x], out[12][m_BYTES_x], message[4096];
static char work[m_WORKSPACE_BYTES + 64];
int main(int argc, char **argv) {
  static const size_t sizes[] = {m_BYTES_x, m_BYTES_y, m_BYTES_z, m_BYTES_s};
  static const size_t made[] = {OUTPUTS};
  int rank, status;
  char name[64];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  hlo_collectives *table = hlo_collectives_mpi(MPI_COMM_WORLD);
  hlo_host host = {message, sizeof message, (uint32_t)rank, 0, table, {{NULL, NULL}}};
  snprintf(name, sizeof name, "in%d", rank);
  FILE *f = fopen(name, "rb");
  for (int k = 0; k < 4; ++k) if (fread(in[k], 1, sizes[k], f) != sizes[k]) return 1;
  fclose(f);
  for (int turn = 0; turn < 2; ++turn) {
    status = m((void *)in[0], (void *)in[1], (void *)in[2], (void *)in[3],
               RESULTS, work + (64 - (size_t)work % 64) % 64, &host);
    if (status) { fprintf(stderr, "%d: %s\\n", status, message); MPI_Abort(MPI_COMM_WORLD, 1); }
  }
  snprintf(name, sizeof name, "out%d", rank);
  f = fopen(name, "wb");
  for (int k = 0; k < 12; ++k) fwrite(out[k], 1, made[k], f);
  fclose(f);
  hlo_collectives_mpi_free(table);
  MPI_Finalize();
  return 0;
}
"""
_MPICC = None if MPIEXEC is None else shutil.which(Path(MPIEXEC).with_name("mpicc"))


@needs_mpi
@pytest.mark.skipif(
    _MPICC is None or shutil.which("cc") is None, reason="no mpicc, or no C compiler"
)
def test_an_object_computes_over_mpi_what_one_process_does(tmp_path: Path) -> None:
    module = hlo.parse(_MODULE)
    rng = np.random.default_rng(3)
    arguments = [
        [rng.normal(0, 10, d).astype(np.float32) for d in (10001, 3, (3, 10))]
        + [rng.integers(-(2**31), 2**31, (6, 4), np.int32)]
        for _ in range(2)
    ]
    results = hlo.Client(2, cache=False).execute_replicated(module, arguments)
    (tmp_path / "m.hlo").write_text(_MODULE)
    for rank, own in enumerate(arguments):
        (tmp_path / f"in{rank}").write_bytes(b"".join(a.tobytes() for a in own))
    names = [f"out{n}" for n in range(len(_RESULTS))]
    main = _MAIN.replace("OUTPUTS", ", ".join(f"m_BYTES_{n}" for n in names), 1)
    main = main.replace("RESULTS", ", ".join(f"(void *)out[{n}]" for n in range(len(names))))
    (tmp_path / "main.c").write_text(main)

    def do(*command: str) -> None:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 0, done.stderr

    do(sys.executable, "-m", "hlo", "compile", "m.hlo", "-o", "m.o", "--header", "m.h")
    do(str(_MPICC), "-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-o", "main", "main.c",
       "hlo_collectives_mpi.c", "m.o", "-lm")  # fmt: skip
    do(str(MPIEXEC), "-n", "2", "./main")
    for rank, result in enumerate(results):
        want = b"".join(
            np.asarray(v).tobytes() for v in leaves(result.client.transfer(result).value)
        )
        assert (tmp_path / f"out{rank}").read_bytes() == want
