"""What the machine can do is measured once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo.profiler import roofline
from hlo.profiler.roofline import machine_peak, measured_like


def test_numbers_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def seconds(text: str, threads: int) -> float:
        kind = "dot" if "dot" in text else "chain" if "multiply" in text else "add"
        measured.append(f"{kind} {threads}")
        return 0.5 if kind == "dot" else 1.0

    monkeypatch.setattr(roofline, "_least_seconds", seconds)
    first = machine_peak(1, ["f32"], tmp_path)
    assert first.flops == {"f32": 4 * 768**3} and first.bytes == 12 << 24
    assert machine_peak(1, ["f32"], tmp_path) == first
    assert measured == ["dot 1", "chain 1", "add 1"]
    with monkeypatch.context() as slow:
        slow.setattr(roofline, "_least_seconds", lambda *_: 1e6)
        assert machine_peak(1, ["f32"], tmp_path, again=True) == first
    with monkeypatch.context() as fast:
        fast.setattr(roofline, "_least_seconds", lambda *_: 0.25)
        better = machine_peak(1, ["f32"], tmp_path, again=True)
    assert better.flops == {"f32": 8 * 768**3} and better.bytes == 48 << 24
    # Another type, another number of threads, and what is no number.
    assert machine_peak(1, ["f32", "f16"], tmp_path).flops.keys() == {"f32", "bf16"}
    machine_peak(2, ["f32"], tmp_path)
    assert measured[3:] == ["dot 1", "dot 2", "chain 2", "add 2"]
    (store,) = tmp_path.iterdir()
    store.write_text(json.dumps({key: {"f32": "x"} for key in json.loads(store.read_text())}))
    assert machine_peak(1, ["f32"], tmp_path) == first


def test_the_peak_is_that_of_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a product loses on the way to memory, what does not go there shows it."""
    monkeypatch.setattr(roofline, "_ELEMENTS", 1 << 10)
    monkeypatch.setattr(roofline, "_product_flops", lambda *_: 1.0)
    assert roofline._flops("f32", 1) > 1e6
    assert roofline._flops("s8", 1) == 1.0


def test_a_product_is_measured() -> None:
    text = """HloModule peak ENTRY e { x = f32[64,64] parameter(0)
      ROOT z = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    assert 0 < roofline._least_seconds(text, 1) < 1
    assert [measured_like(t) for t in ("f16", "f64", "u4", "pred")] == ["bf16", "f64", "s8", "f32"]
