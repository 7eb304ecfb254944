"""The tile registers of AMX: who has them may use them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hlo.runtime import jit, tiles
from hlo.runtime.jit import host_machine
from hlo.runtime.tiles import tiles_are_permitted


def test_a_processor_with_tiles_gives_them_to_those_who_ask() -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux says what the processor has in /proc/cpuinfo")
    has_tiles = "amx_tile" in Path("/proc/cpuinfo").read_text()
    assert tiles_are_permitted() == has_tiles
    assert ("+amx-tile" in host_machine().features) == has_tiles


def test_a_refusal_turns_the_features_off(monkeypatch: pytest.MonkeyPatch) -> None:
    class Features(dict[str, bool]):
        def flatten(self) -> str:
            return ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(self.items()))

    have = {"amx-int8": True, "amx-tile": True, "sse2": True}
    monkeypatch.setattr(jit.llvm, "get_host_cpu_features", lambda: Features(have))
    monkeypatch.setattr(jit, "tiles_are_permitted", lambda: False)
    assert host_machine.__wrapped__().features == "-amx-int8,-amx-tile,+sse2"
    monkeypatch.setattr(jit, "tiles_are_permitted", lambda: True)
    assert host_machine.__wrapped__().features == "+amx-int8,+amx-tile,+sse2"


def test_no_other_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles.sys, "platform", "darwin")
    assert not tiles_are_permitted.__wrapped__()
