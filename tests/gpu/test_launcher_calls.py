"""C programs for GPUs that call functions of the host, and programs in several threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo.errors import HloError
from tests.gpu.launchers import SANITIZED, code_of, run_program, write_code, write_example
from tests.gpu.stub_driver.library import CLEAN, build_driver, build_program

# Calls in a loop and outside; each version; attributes; a result in the memory of an operand;
# types that C has not; who runs the program.
CALLS = """HloModule calls, replica_count=4, num_partitions=2
body { s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[3] custom-call(x, j), custom_call_target="scale", api_version=API_VERSION_TYPED_FFI,
    backend_config={by = 2.5 : f32, names = {a = "abc"}, many = array<i64: 1, -9223372036854775808>}
  ROOT r = (s32[], f32[3]) tuple(j, y) }
test { s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[3] parameter(0)
  none = f32[0] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[3]) tuple(z, x)
  l = (s32[], f32[3]) while(t), condition=test, body=body
  y = f32[3] get-tuple-element(l), index=1
  b = (f32[3], s32[], u4[5]) custom-call(none, y), custom_call_target="several",
    output_to_operand_aliasing={{0}: (1, {})},
    api_version=API_VERSION_STATUS_RETURNING_UNIFIED, backend_config="CONFIG"
  y2 = f32[3] add(y, y)
  r = u32[] replica-id()
  q = u32[] partition-id()
  u = u32[4] custom-call(), custom_call_target="old"
  v = u32[4] add(u, u)
  ROOT o = (f32[3], (f32[3], s32[], u4[5]), u32[], u32[], u32[4]) tuple(y2, b, r, q, v) }
""".replace("CONFIG", "c" * 5000)
CALLER = """\
#include <stdio.h>
#include <stdlib.h>
#include "hlo_ffi.h"
#include "m.h"

static int32_t scale(hlo_ffi_call *call) {
  const float *x = call->operands[0];
  const int32_t *turn = call->operands[1];
  float *y = call->results[0];
  const hlo_ffi_attribute *by = hlo_ffi_find(call->op, "by");
  const hlo_ffi_attribute *many = hlo_ffi_find(call->op, "many");
  const hlo_ffi_attribute *names = hlo_ffi_find(call->op, "names");
  if (*turn == *(const int32_t *)call->state) return hlo_ffi_fail(call, "too many turns", 14);
  printf("%s %s %g %d %s\\n", call->op->target, call->op->config, by->value.real,
         many->count == 2 && many->value.integers[1] == INT64_MIN,
         names->value.attributes[0].value.string);
  for (int64_t i = 0; i < call->op->results[0].dims[0]; i++) {
    y[i] = (float)by->value.real * x[i] + (float)*turn;
  }
  return 0;
}

static void several(void *out, const void **in, const char *opaque, size_t size,
                    XlaCustomCallStatus *status) {
  void **results = out;
  float *y = results[0];
  (void)status;
  printf("%d %d %lu\\n", y == in[1], opaque[size], (unsigned long)size);
  y[1] = -1;
  *(int32_t *)results[1] = 7;
  for (int i = 0; i < 5; i++) ((unsigned char *)results[2])[i] = (unsigned char)(10 + i);
}

static void old(void *out, const void **in) {
  (void)in;
  for (uint32_t i = 0; i < 4; i++) ((uint32_t *)out)[i] = i;
}

int main(int argc, char **argv) {
  float x[3] = {1, 2, 3}, y[3], z[3], none[1];
  int32_t seven, stop = atoi(argv[1]);
  uint32_t replica, partition, u[4];
  uint8_t small[5];
  char message[64] = "";
  m_program *program;
  int status = m_create(&program, 0, NULL);
  struct hlo_host *host = calloc(1, sizeof *host + m_IMPORTS * sizeof host->imports[0]);
  void (*first)(void *, const void **, const char *, size_t, XlaCustomCallStatus *) = several;
  void (*second)(void *, const void **) = old;
  host->message = message;
  host->message_size = sizeof message;
  host->replica_id = 3;
  host->partition_id = 1;
  host->imports[0].function = scale;
  host->imports[0].state = &stop;
  host->imports[1].function = hlo_ffi_call_unified;
  memcpy(&host->imports[1].state, &first, sizeof first);
  if (argc == 2) host->imports[2].function = hlo_ffi_call_original;
  memcpy(&host->imports[2].state, &second, sizeof second);
  if (status == 0) {
    status = m(program, x, none, y, z, &seven, small, &replica, &partition, u, host);
    if (status != 0) printf("%d: %s\\n", status, m_error(program));
  }
  if (status == 0) {
    printf("%g %g %g, %g %g %g, %d, %d %d, %u %u, %u %u\\n", y[0], y[1], y[2], z[0], z[1], z[2],
           seven, small[0], small[4], replica, partition, u[0], u[3]);
    status = m(program, x, none, y, z, &seven, small, &replica, &partition, u, NULL);
    printf("%d: %s, %s\\n", status, m_error(program), m_status_text(status));
  }
  m_destroy(program);
  free(host);
  return 0;
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_driver(tmp_path_factory.mktemp("driver"))


def test_programs_call_functions_of_the_host(tmp_path: Path, driver: Path) -> None:
    write_code(tmp_path, CALLS)
    (tmp_path / "caller.c").write_text(CALLER)
    build_program(tmp_path, ["caller.c", "m.c"], driver, SANITIZED)
    done = run_program(tmp_path, driver, "9")
    assert done.returncode == 0, done.stdout + done.stderr
    *turns, several, results, absent = done.stdout.splitlines()
    assert len(turns) == 3 and all(x.startswith("scale {by = 2.5") for x in turns)
    assert turns[0].endswith(" 2.5 1 abc") and several == "1 0 5000"
    y = [1.0, 2.0, 3.0]
    for turn in (1, 2, 3):
        y = [2.5 * value + turn for value in y]
    shown = " ".join(f"{2 * value:g}" for value in y)
    assert results == f"{shown}, {y[0]:g} -1 {y[2]:g}, 7, 10 14, 3 1, 0 6"
    assert absent == "-5: scale: there is no function for it, a function of the host fails"
    assert (tmp_path / "report").read_text() == CLEAN

    failed = run_program(tmp_path, driver, "2")
    assert failed.stdout.splitlines()[1:] == ["-5: scale: too many turns"]
    assert (tmp_path / "report").read_text() == CLEAN
    missing = run_program(tmp_path, driver, "9", "without old")
    assert missing.stdout.splitlines()[-1] == "-5: old: there is no function for it"


def test_the_example_has_functions_to_be_written(tmp_path: Path, driver: Path) -> None:
    code = write_example(tmp_path, CALLS, driver)
    done = run_program(tmp_path, driver)
    assert done.returncode == 1 and "m returns -5: scale: scale: to be written" in done.stderr
    assert (tmp_path / "report").read_text() == CLEAN
    assert [i.target for i in code.interface.imports] == ["scale", "several", "old"]


def test_who_runs_a_program_is_replica_0_without_a_host(tmp_path: Path, driver: Path) -> None:
    text = """HloModule ids, replica_count=2
    ENTRY e { r = u32[] replica-id()
      ROOT s = u32[] add(r, r) }"""
    write_code(tmp_path, text)
    (tmp_path / "caller.c").write_text("""#include <stdio.h>
#include "hlo_ffi.h"
#include "m.h"
int main(void) {
  m_program *program;
  uint32_t id = 9;
  hlo_host host = {NULL, 0, 1, 0, NULL, {{NULL, NULL}}};
  int status = m_create(&program, 0, NULL);
  if (status == 0) status = m(program, &id, NULL);
  printf("%d %u\\n", status, id);
  if (status == 0) status = m(program, &id, &host);
  printf("%d %u\\n", status, id);
  m_destroy(program);
  return 0;
}
""")
    build_program(tmp_path, ["caller.c", "m.c"], driver, SANITIZED)
    assert run_program(tmp_path, driver).stdout == "0 0\n0 2\n"
    assert (tmp_path / "report").read_text() == CLEAN


def test_collectives_of_several_devices_are_refused() -> None:
    text = """HloModule sums, replica_count=2
    add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[40] parameter(0)
      ROOT y = f32[40] all-reduce(x), replica_groups={{0,1}}, to_apply=add }"""
    code = code_of(text)
    assert code.write(".ptx", "m.ptx")
    with pytest.raises(HloError, match="y: all-reduce needs other devices") as caught:
        code.launcher()
    assert caught.value.code == "no-launcher"


# --- several threads ----------------------------------------------------------------------------

THREADS = """\
#include <pthread.h>
#include <stdio.h>
#include "m.h"

static void *work(void *number) {
  static const size_t failed = 1;
  float x[100], y[100];
  size_t wrong = 0;
  m_program *program;
  if (m_create(&program, 0, NULL) != 0) return (void *)failed;
  for (int turn = 0; turn < 5; turn++) {
    for (int i = 0; i < 100; i++) x[i] = (float)(*(int *)number * 1000 + turn);
    if (m(program, x, y) != 0) wrong++;
    for (int i = 0; i < 100; i++) wrong += y[i] != x[i] + (float)i;
  }
  m_destroy(program);
  return (void *)wrong;
}

int main(void) {
  pthread_t threads[4];
  int numbers[4];
  size_t wrong = 0;
  for (int n = 0; n < 4; n++) {
    numbers[n] = n;
    if (pthread_create(&threads[n], NULL, work, &numbers[n]) != 0) return 1;
  }
  for (int n = 0; n < 4; n++) {
    void *found;
    pthread_join(threads[n], &found);
    wrong += (size_t)found;
  }
  printf("%lu wrong\\n", (unsigned long)wrong);
  return 0;
}
"""
COUNTED = """HloModule counted
ENTRY e { x = f32[100] parameter(0)
  c = f32[100] iota(), iota_dimension=0
  ROOT y = f32[100] add(x, c) }
"""


def test_each_thread_has_a_program_of_its_own(tmp_path: Path, driver: Path) -> None:
    write_code(tmp_path, COUNTED)
    (tmp_path / "caller.c").write_text(THREADS)
    build_program(tmp_path, ["caller.c", "m.c"], driver, SANITIZED, "-pthread")
    done = run_program(tmp_path, driver)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 wrong\n", "")
    assert (tmp_path / "report").read_text() == CLEAN
