"""Programs for GPUs in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo
from hlo.codegen.launches.program import write_launches
from hlo.codegen.targets.gpu import Nvptx
from hlo.compiler.backends import load
from hlo.compiler.lowering import Clock, plan
from hlo.gpu.execute import LoadedProgram
from hlo.gpu.stored import StoredProgram, from_bytes, to_bytes
from hlo.runtime.cache import Cache

PROGRAM = """HloModule m
small { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5) ROOT c = pred[] compare(i, n), direction=LT }
step { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[8] get-tuple-element(p), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  s = f32[8] sort(x), dimensions={0}, to_apply=less ROOT t = (s32[], f32[8]) tuple(j, s) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
up { x = f32[8] parameter(0) ROOT y = f32[8] reverse(x), dimensions={0} }
down { x = f32[8] parameter(0) ROOT y = f32[8] negate(x) }
ENTRY e {
  x = f32[8]{0} parameter(0) i = s32[] parameter(1)
  k = f32[8] constant({1,2,3,4,5,6,7,8})
  s = f32[8] add(x, k) t = (s32[], f32[8]) tuple(i, s)
  w = (s32[], f32[8]) while(t), condition=small, body=step
  y = f32[8] get-tuple-element(w), index=1
  z = f32[8] conditional(i, y, y), branch_computations={up, down}
  ROOT r = (f32[8], s32[]) tuple(z, i)
}"""


def stored() -> StoredProgram:
    target = Nvptx("sm_90")
    planned = plan(hlo.parse(PROGRAM), target, Clock(), passes="")
    written = write_launches(planned, target)
    return StoredProgram(
        tuple(planned.arguments), tuple(planned.results), planned.result, written.plan, "// PTX",
        b"\x7fELF", vars(planned.cost),
    )  # fmt: skip


def test_a_program_is_read_as_it_was_written() -> None:
    program = stored()
    data = b"".join(map(bytes, to_bytes(program)))
    back = from_bytes(memoryview(data))
    assert back.plan.steps == program.plan.steps
    assert (back.arguments, back.results, back.result) == (
        program.arguments, program.results, program.result,
    )  # fmt: skip
    assert (back.code, back.binary, back.cost) == (program.code, program.binary, program.cost)
    for (at, array), (there, found) in zip(
        program.plan.constants, back.plan.constants, strict=True
    ):
        assert at == there
        assert array.tobytes() == found.tobytes()
    sizes = (
        "arguments", "results", "arena_bytes", "scalar_bytes", "constant_bytes", "counter_bytes",
        "aliases",
    )  # fmt: skip
    assert all(getattr(back.plan, n) == getattr(program.plan, n) for n in sizes)
    # As long as it is not known what is in it.
    assert b"".join(map(bytes, to_bytes(back))) == data


def test_what_is_known_is_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoadedProgram, "__init__", lambda *args: None)
    store = Cache(tmp_path)

    def stages(text: str, **options: Any) -> set[str]:
        loaded = load(hlo.parse(text), "gpu-emulated", store=store, **options)
        return set(loaded.compile_seconds)

    assert "optimize and assemble" in stages(PROGRAM)
    assert stages(PROGRAM) == {"look up", "load"}
    assert "optimize and assemble" in stages(PROGRAM, passes="")
    assert "optimize and assemble" in stages(PROGRAM.replace("constant(5)", "constant(6)"))
    assert "optimize and assemble" in stages(PROGRAM.replace("{1,2", "{1,3"))
    # What is damaged is made again.
    for path in tmp_path.glob("*.program"):
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert "optimize and assemble" in stages(PROGRAM)


def test_calls_of_the_host_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoadedProgram, "__init__", lambda *args: None)
    store = Cache(tmp_path)
    text = """HloModule m ENTRY e { t = token[] after-all() x = (f32[2], token[]) infeed(t)
      ROOT y = f32[2] get-tuple-element(x), index=0 }"""
    for _ in range(2):
        loaded = load(hlo.parse(text), "gpu-emulated", store=store)
        assert "optimize and assemble" in loaded.compile_seconds
    assert not list(tmp_path.glob("*.program"))


def test_the_constants_of_a_kept_program_are_views() -> None:
    data = b"".join(map(bytes, to_bytes(stored())))
    [(_, found), *_] = from_bytes(memoryview(data)).plan.constants
    assert not found.flags.owndata
    assert found.dtype == np.uint8
