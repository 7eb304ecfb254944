"""Code of an instrumentation around the commands of an entry function."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import hlo
from hlo.codegen.entry.commands import Block, Command, Loop
from hlo.codegen.entry.instrumentation import Instrumentation
from hlo.codegen.entry.state import EntryState
from hlo.codegen.llvm import i64
from hlo.codegen.targets.cpu import cpu_target
from hlo.compiler.lowering import Clock, emit
from hlo.compiler.pipeline import compile_instrumented
from hlo.runtime.jit import host_machine
from tests.harness.paths import ROOT

LOOP = """HloModule m
cond { p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3) ROOT go = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[4] get-tuple-element(p), index=1 one = s32[] constant(1)
  j = s32[] add(i, one) y = f32[4] tanh(x) ROOT t = (s32[], f32[4]) tuple(j, y) }
ENTRY e { x = f32[4] parameter(0) zero = s32[] constant(0) s = f32[4] exponential(x)
  t = (s32[], f32[4]) tuple(zero, s) w = (s32[], f32[4]) while(t), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1 }
"""


class Told(Instrumentation):
    """Has the program call a Python function with the number of each event."""

    ir = """declare void @told(i64)
define void @tell(i64 %event) { call void @told(i64 %event) ret void }"""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.order: list[int] = []
        self._callback = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self.order.append)

    @property
    def called(self) -> dict[str, int]:
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        assert address is not None
        return {"told": address}

    def _tell(self, entry: EntryState, event: str) -> None:
        entry.module.declare("tell", "void", ["i64"])
        entry.b.call_void("tell", [i64(len(self.events))])
        self.events.append(event)

    def begin(self, entry: EntryState) -> None:
        self._tell(entry, "begin")

    def enter(self, entry: EntryState, block: Block) -> None:
        self._tell(entry, f"enter {block.comp.name}")

    def before(self, entry: EntryState, command: Command) -> None:
        self._tell(entry, f"before {command.inst.name}")

    def after(self, entry: EntryState, command: Command) -> None:
        self._tell(entry, f"after {command.inst.name}")

    def leave(self, entry: EntryState, block: Block) -> None:
        self._tell(entry, f"leave {block.comp.name}")

    def iteration(self, entry: EntryState, loop: Loop) -> None:
        self._tell(entry, f"iteration {loop.inst.name}")

    def end(self, entry: EntryState) -> None:
        self._tell(entry, "end")


def test_events_come_in_order_of_execution() -> None:
    told = Told()
    run = compile_instrumented(hlo.parse(LOOP), told, passes="", threads=1)
    x = np.array([0.5, -1, 2, 0], np.float32)
    np.testing.assert_allclose(run(x), np.tanh(np.tanh(np.tanh(np.exp(x)))), rtol=1e-5)
    test = ["enter cond", "before go", "after go", "leave cond"]
    turn = ["iteration w", "enter body", "before j", "after j", "before y", "after y", "leave body"]
    # Constants are scalars, too.
    constants = ("before zero", "after zero", "before n", "after n", "before one", "after one")
    assert [e for n in told.order if (e := told.events[n]) not in constants] == [
        "begin", "enter e", "before s", "after s", "before w",
        *3 * (test + turn), *test, "after w", "leave e", "end",
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["examples/stages.hlo", "examples/rnn_scan.hlo"])
def test_programs_without_it_are_the_same(path: str) -> None:
    module, machine = hlo.parse((ROOT / path).read_text()), host_machine()
    target = cpu_target(machine.triple, machine.data_layout, machine.features)
    plain, same, other = (
        emit(module, "entry", target, Clock(), instrumentation=instrumentation).llvm
        for instrumentation in (None, Instrumentation(), Told())
    )
    assert plain == same != other
