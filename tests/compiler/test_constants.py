"""Elided constants: who warns of them, and what fills them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.compile import main as compile_main
from hlo_tools.run.command import main as run_main

import hlo
from hlo.io.archives import read_safetensors

ELIDED = """HloModule elided
ENTRY main {
  x = f32[3] parameter(0)
  mean = f32[3] constant({...})
  both = (f32[3], bf16[2]) constant({...})
  unused = f32[100] constant({...})
  var = f32[3] get-tuple-element(both), index=0
  b = bf16[2] get-tuple-element(both), index=1
  r = f32[3] rsqrt(var)
  d = f32[3] subtract(x, mean)
  y = f32[3] multiply(d, r)
  ROOT t = (f32[3], bf16[2]) tuple(y, b)
}
"""
MEAN, VAR = np.array([1, 2, 3], np.float32), np.array([4, 16, 64], np.float32)
HALVES = np.array([0.5, 1.5], ml_dtypes.bfloat16)
X = np.array([3, 6, 11], np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.hlo").write_text(ELIDED)
    return tmp_path


def run(*args: str, main: Any = run_main) -> Result:
    result = CliRunner().invoke(main, list(args))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def safetensors(path: str, header: object, data: bytes) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_values() -> None:
    """Write the constants in every form that can be given."""
    np.savez("c.npz", mean=MEAN, other=X, **{"%both.0": VAR, "both.1": HALVES.view(np.uint16)})
    arrays = {"mean": ("F32", MEAN), "both.0": ("F32", VAR), "both.1": ("BF16", HALVES)}
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (kind, array) in arrays.items():
        ends = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": ends}
        data += array.tobytes()
    safetensors("c.safetensors", header, data)
    module = hlo.parse(ELIDED)
    assert hlo.fill_constants(module, "c.npz") == 2
    for name in ("c.hlo", "c.pb", "c.pbtxt"):
        hlo.save(module, name)


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_a_run_warns_where_a_result_depends_on_them(backend: str) -> None:
    for _ in range(2):  # the second time from the cache
        result = run("m.hlo", "--backend", backend)
        assert "warning: 2 constants are elided, {...}: mean, both; placeholders" in result.stderr
    assert json.loads(run("m.hlo", "--json").stdout)["elided_constants"] == ["mean", "both"]
    Path("m.hlo").write_text(ELIDED.replace("tuple(y, b)", "tuple(x, u)").replace(
        "  y =", "  u = bf16[2] constant({1, 2})\n  y ="))  # fmt: skip
    assert "elided" not in run("m.hlo", "--backend", backend).stderr


def test_python_warns() -> None:
    module = hlo.parse(ELIDED)
    with pytest.warns(hlo.ElidedConstantsWarning, match="mean, both") as caught:
        hlo.interpret(module, X)
        hlo.compile(module)
    assert [Path(w.filename).name for w in caught] == ["test_constants.py"] * 2


@pytest.mark.parametrize("form", ["npz", "safetensors", "hlo", "pb", "pbtxt"])
@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_files_fill_them(form: str, backend: str) -> None:
    write_values()
    result = run("m.hlo", "--constants", f"c.{form}", "-i", "{3, 6, 11}", "--backend", backend)
    assert result.stdout == "out0 = f32[3] {1, 1, 1}\nout1 = bf16[2] {0.5, 1.5}\n"
    assert "elided" not in result.stderr


def test_other_values_are_another_program() -> None:
    write_values()
    run("m.hlo", "--constants", "c.npz", "-i", "{3, 6, 11}")
    np.savez("c.npz", mean=MEAN + 1, **{"both.0": VAR, "both.1": HALVES.view(np.uint16)})
    result = run("m.hlo", "--constants", "c.npz", "-i", "{3, 6, 11}")
    assert result.stdout.startswith("out0 = f32[3] {0.5, 0.75, 0.875}\n")


def test_random_ones_make_sense_and_follow_the_seed() -> None:
    args = ["m.hlo", "--constants", "random", "-i", "{3, 6, 11}", "--check"]
    first = run(*args, "--fail-on-nan")
    assert (first.exit_code, "elided" in first.stderr) == (0, False)
    assert run(*args).stdout == first.stdout != run(*args, "--seed", "1").stdout
    assert run(*args, "--random", "both.?=4:4", "--random", "mean=1:1").stdout == (
        "out0 = f32[3] {1, 2.5, 5}\nout1 = bf16[2] {4, 4}\n"
    )


def test_what_a_file_lacks_stays_elided() -> None:
    np.savez("part.npz", mean=MEAN)
    result = run("m.hlo", "--constants", "part.npz")
    assert "warning: 1 constant is elided, {...}: both; placeholders are used" in result.stderr


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("none.npz", {"men": MEAN}, "none.npz has none of the elided constants: mean, both.0"),
        ("dims.npz", {"mean": X[:2]}, "dims.npz: mean has dimensions [2], f32[3] is needed"),
        ("type.npz", {"mean": X.astype(int)}, "type.npz: mean has dtype numpy.int64"),
    ],
)
def test_values_that_do_not_fit(name: str, values: dict[str, Any], message: str) -> None:
    np.savez(name, **values)
    result = run("m.hlo", "--constants", name)
    assert (result.exit_code, message in result.stderr) == (1, True), result.stderr


def test_objects_need_them() -> None:
    result = run("m.hlo", "-o", "m.o", main=compile_main)
    assert result.exit_code == 1 and not Path("m.o").exists()
    assert "m.hlo:4:3: error: 2 constants are elided, {...}: mean, both" in result.stderr
    assert run("m.hlo", "-o", "m.o", "--constants", "random", main=compile_main).exit_code == 0
    assert Path("m.o").exists()


# --- safetensors --------------------------------------------------------------------------------


def _entry(**changes: object) -> dict[str, object]:
    return {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (b"", b"", "its header is not JSON"),
        (b"[1]", b"", "its header is not a JSON object"),
        (b"[" * 100_000, b"", "its header is not JSON"),
        (_entry(), bytes(7), "'x', F32[2], is not what is at 0:8"),
        (_entry(data_offsets=[0, 4]), bytes(8), "is not what is at 0:4"),
        (_entry(data_offsets=[8, 0]), bytes(8), "is not what is at 8:0"),
        (_entry(shape=[1 << 62, 1 << 62]), bytes(8), "is not what is at 0:8"),
        (_entry(shape=[-1]), bytes(8), "has no shape and data_offsets"),
        (_entry(shape="2"), bytes(8), "has no shape and data_offsets"),
        (_entry(dtype="Q7"), bytes(8), "'x' is of type 'Q7', which is not read"),
        (_entry(dtype=[]), bytes(8), "'x' is of type [], which is not read"),
        ({"x": 3}, b"", "has no shape and data_offsets"),
    ],
)
def test_broken_safetensors(header: object, data: bytes, message: str) -> None:
    safetensors("b.safetensors", header, data)
    with pytest.raises(hlo.HloError) as e:
        read_safetensors("b.safetensors")
    assert e.value.code == "bad-file" and message in str(e.value)


@pytest.mark.parametrize("data", [b"", b"\x08\0\0", b"\xff" * 20])
def test_files_that_are_no_safetensors(data: bytes) -> None:
    Path("b.safetensors").write_bytes(data)
    with pytest.raises(hlo.HloError, match="header is longer than the file"):
        read_safetensors("b.safetensors")


def test_safetensors_are_inputs_too() -> None:
    safetensors("in.safetensors", {
        "x": {"dtype": "F32", "shape": [3], "data_offsets": [3, 15]},
        "arg1": {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]},
    }, bytes([1, 0, 1]) + X.tobytes())  # fmt: skip
    Path("i.hlo").write_text(
        "HloModule i\nENTRY e {\n  x = f32[3] parameter(0)\n  p = pred[3] parameter(1)\n"
        "  ROOT t = (f32[3], pred[3]) tuple(x, p)\n}\n"
    )
    result = run("i.hlo", "--inputs", "in.safetensors", "-o", "-")
    assert result.stdout == "f32[3] {3, 6, 11}\npred[3] {1, 0, 1}\n"
