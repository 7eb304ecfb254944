"""`hlo-run`: inputs in every form, outputs in every form, errors and exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.run.command import main

import hlo
from hlo.frontends.proto.pbtxt import write
from hlo.frontends.proto.schema import Message, schema
from hlo.frontends.proto.shapes import write_literal
from hlo.frontends.proto.wire import decode, encode
from hlo.io.files import read_npy, read_npz
from tests.harness.processes import HANG_S, started

ADD = """HloModule m
ENTRY main {
  x = f32[2,3] parameter(0)
  y = f32[] parameter(1)
  yb = f32[2,3] broadcast(y), dimensions={}
  s = f32[2,3] add(x, yb)
  b = bf16[2,3] convert(s)
  ROOT r = (f32[2,3], bf16[2,3]) tuple(s, b)
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("add.hlo").write_text(ADD)
    return tmp_path


def run(*args: str, text: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(main, list(args), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def identity(*shapes: str) -> str:
    """Return a module whose results are its parameters p0, p1, ..."""
    lines = [f"  p{i} = {s} parameter({i})" for i, s in enumerate(shapes)]
    names = ", ".join(f"p{i}" for i in range(len(shapes)))
    return "\n".join(
        [
            "HloModule i",
            "ENTRY e {",
            *lines,
            f"  ROOT r = ({', '.join(shapes)}) tuple({names})",
            "}",
        ]
    )


def echo(shape: str, *inputs: str) -> Result:
    """Run the identity on one input and print the literal."""
    args = [part for i in inputs for part in ("--input", i)]
    return run("-", *args, "-o", "-", text=identity(shape))


# --- inputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "spec", "want"),
    [
        ("f32[2]", "{1, 2}", "f32[2] {1, 2}"),
        ("f32[2]", "f32[2] {1, 2}", "f32[2] {1, 2}"),
        ("f32[2]", "f32[2]{0} {1, 2}", "f32[2] {1, 2}"),
        ("f32[]", "-0.5", "f32[] -0.5"),
        ("pred[]", "true", "pred[] true"),
        ("c64[]", "(1,2)", "c64[] (1, 2)"),
        ("f32[2]", "p0={1, 2}", "f32[2] {1, 2}"),
        ("f32[2]", "0={1, 2}", "f32[2] {1, 2}"),
        ("f32[2]", "arg0=zeros", "f32[2] {0, 0}"),
        ("f32[2,2]", "2x2xf32=1 2 3 4", "f32[2,2] { { 1, 2 }, { 3, 4 } }"),
        ("f32[2,2]", "2x2xf32=[1 2][3 4]", "f32[2,2] { { 1, 2 }, { 3, 4 } }"),
        ("s32[2,2]", "2x2xi32=7", "s32[2,2] { { 7, 7 }, { 7, 7 } }"),
        ("bf16[2]", "p0=2xbf16", "bf16[2] {0, 0}"),
        ("s8[]", "s8=3", "s8[] 3"),
        ("s4[3]", "3xs4=-8, 7, 0", "s4[3] {-8, 7, 0}"),
        ("f32[0]", "{}", "f32[0] {}"),
        ("s32[2]{0:T(128)}", "{1,2}", "s32[2] {1, 2}"),
    ],
)
def test_inputs_on_the_command_line(shape: str, spec: str, want: str) -> None:
    result = echo(shape, spec)
    assert (result.exit_code, result.stdout) == (0, want + "\n"), result.stderr


def test_rows_without_end_and_without_elements() -> None:
    dims = "f32[1000000000000,0]"
    result = run("-", "--check", text=identity(dims))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.split() == [*"name shape min max mean NaN inf out0".split(), dims,
                                     "-", "-", "-", "0", "0"]  # fmt: skip
    result = run("-", "-o", "-", text=identity(dims))
    assert result.exit_code == 1
    assert "write it to an .npy file" in result.stderr


def test_tuples_and_tokens() -> None:
    result = echo("(f32[2], (s32[], token[]))", "({1,2}, (3, token))")
    assert result.stdout == "f32[2] {1, 2}\ns32[] 3\n"


def test_named_inputs_and_gaps() -> None:
    module = identity("s32[]", "s32[]", "s32[]")
    result = run("-", "-i", "1", "-i", "p0=2", "-i", "3", "-o", "-", text=module)
    assert result.stdout == "s32[] 2\ns32[] 1\ns32[] 3\n"


def test_missing_inputs_are_random_and_it_says_so() -> None:
    first, again = run("add.hlo", "--seed", "7"), run("add.hlo", "--seed", "7")
    assert "2 inputs are random from seed 7: x, y" in first.stderr
    assert first.stdout == again.stdout != run("add.hlo", "--seed", "8").stdout
    given = run("add.hlo", "--seed", "7", "-i", "y=0", "-o", "-")
    assert "1 input is random from seed 7: x" in given.stderr
    # An input's random value does not depend on which others are given.
    assert (
        run("-", "--seed", "7", "-o", "-", text=identity("f32[2,3]")).stdout.split("\n")[0]
        == (given.stdout.split("\n")[0])
    )


def test_random_inputs_of_every_type() -> None:
    from hlo.values.types import ELEMENT_TYPES

    module = identity(*(f"{name}[4]" for name in ELEMENT_TYPES), "(f32[2], token[])")
    assert run("-", text=module).exit_code == 0


def test_npy_files(folder: Path) -> None:
    np.save("x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    result = run("add.hlo", "-i", "x.npy", "-i", "1", "-o", "out.npz")
    assert result.exit_code == 0, result.stderr
    with np.load("out.npz") as out:
        assert list(out) == ["out0", "out1"]
        assert out["out0"].tolist() == [[1, 2, 3], [4, 5, 6]]
        assert out["out1"].view(ml_dtypes.bfloat16).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert [p.name for p in folder.iterdir() if "out" in p.name] == ["out.npz"]


def test_npz_by_number_name_and_leaf() -> None:
    np.savez("in.npz", arg0=np.int32(1), p1=np.int32(2), **{"arg2.0": np.int32(3)})
    module = identity("s32[]", "s32[]", "(s32[], s32[])")
    result = run("-", "--inputs", "in.npz", "-o", "-", text=module)
    assert "1 input is random from seed 0: p2.1" in result.stderr
    assert result.stdout.split("\n")[:3] == ["s32[] 1", "s32[] 2", "s32[] 3"]


@pytest.mark.parametrize("ending", ["pb", "txt"])
def test_inputs_of_a_snapshot(ending: str) -> None:
    module = hlo.parse("ENTRY e { t = (f32[2], s32[]) parameter(0)\n u = s32[] parameter(1)\n"
                       " x = f32[2] get-tuple-element(t), index=0\n"
                       " ROOT r = (s32[], f32[2]) tuple(u, x) }")  # fmt: skip
    kind, message = schema()["HloSnapshot"], Message()
    message["hlo"] = Message(hlo_module=decode(hlo.to_proto(module), schema()["HloModuleProto"]))
    values = [(np.float32([1, 2]), np.int32(3)), np.int32(4)]
    message["arguments"] = [write_literal(hlo.Literal.of(v)) for v in values]
    name = f"dump.{ending}"
    data = encode(message, kind) if ending == "pb" else write(message, kind).encode()
    Path(name).write_bytes(data)
    assert run(name, "--inputs", name, "-o", "-").stdout == "s32[] 4\nf32[2] {1, 2}\n"
    Path("m.pb").write_bytes(hlo.to_proto(module))
    result = run(name, "--inputs", "m.pb")
    assert result.exit_code == 1 and "it holds none" in result.stderr


RAW = ["bf16", "f16", "f8e4m3fn", "f8e5m2", "f8e8m0fnu", "f4e2m1fn", "s4", "u4", "s2", "u1", "pred"]


@pytest.mark.parametrize("name", RAW)
def test_results_can_be_read_back_as_inputs(name: str) -> None:
    module = identity(f"{name}[5]")
    first = run("-", "-o", "a.npz", "--seed", "3", text=module)
    assert first.exit_code == 0, first.stderr
    with np.load("a.npz", allow_pickle=False) as out:
        np.savez("b.npz", arg0=out["out0"])
    again = run("-", "--inputs", "b.npz", "-o", "-", text=module)
    assert again.stdout == run("-", "-o", "-", "--seed", "3", text=module).stdout != ""


def test_raw_arrays_of_the_right_width() -> None:
    values = np.array([1.5, -2], ml_dtypes.bfloat16)
    for raw in (values.view("V2"), values.view(np.uint16), values.view(np.uint16).astype(">u2")):
        np.save("x.npy", raw)
        assert echo("bf16[2]", "x.npy").stdout == "bf16[2] {1.5, -2}\n"
    values.tofile("x.bin")
    assert echo("bf16[2]", "2xbf16=@x.bin").stdout == "bf16[2] {1.5, -2}\n"
    np.save("x.npy", np.array([1, 2], ">f4"))
    assert echo("f32[2]", "x.npy").stdout == "f32[2] {1, 2}\n"


def test_a_literal_in_a_file() -> None:
    Path("x.txt").write_text("f32[2] {\n 1, 2 } // two\n")
    assert echo("f32[2]", "@x.txt").stdout == "f32[2] {1, 2}\n"


def test_a_dynamic_dimension_takes_up_to_its_bound() -> None:
    np.save("x.npy", np.float32([1, 2]))
    assert echo("f32[<=3]", "x.npy").stdout == "f32[2] {1, 2}\n"
    np.save("x.npy", np.zeros(4, np.float32))
    assert echo("f32[<=3]", "x.npy").exit_code == 1


# --- outputs ------------------------------------------------------------------------------------


def test_npy_output_holds_one_result() -> None:
    assert run("-", "-i", "{1,2}", "-o", "x.npy", text=identity("f32[2]")).exit_code == 0
    assert np.load("x.npy").tolist() == [1, 2]
    refused = run("add.hlo", "-o", "y.npy")
    assert refused.exit_code == 2 and not Path("y.npy").exists()


def test_several_files_into_a_folder() -> None:
    Path("bad.hlo").write_text("HloModule m\nENTRY e { ROOT x = f32[2] foo() }\n")
    Path("id.hlo").write_text(identity("f32[2]"))
    result = run("add.hlo", "bad.hlo", "id.hlo", "-o", "out/")
    assert result.exit_code == 1
    assert "2 of 3 files ran" in result.stderr and "failed: bad.hlo" in result.stderr
    assert sorted(p.name for p in Path("out").iterdir()) == ["add.npz", "id.npz"]


def test_json() -> None:
    report = json.loads(run("add.hlo", "-i", "2x3xf32=1", "-i", "1", "--json").stdout)
    assert report["results"][0]["literal"] == "f32[2,3] { { 2, 2, 2 }, { 2, 2, 2 } }"
    assert report["results"][1]["dtype"] == "bfloat16"
    error = json.loads(run("add.hlo", "-i", "{1}", "--json").stdout)["errors"][0]
    assert error["code"] == "literal-shape" and error["line"] == 1 and error["column"] == 2


def test_repeat_and_time() -> None:
    result = run("add.hlo", "--repeat", "3", "--time")
    assert "median of 3" in result.stderr


def test_an_existing_output_survives_a_failed_run() -> None:
    Path("out.npz").write_bytes(b"precious")
    failing = 'HloModule m\nENTRY e { ROOT c = f32[] custom-call(), custom_call_target="none" }'
    assert run("-", "-o", "out.npz", text=failing).exit_code == 1
    assert Path("out.npz").read_bytes() == b"precious"
    assert run("-", "-o", "missing/out.npz", text=identity("f32[]")).exit_code == 1


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_arrays_are_mapped(order: Any) -> None:
    """What is stored as it is is not read before it is looked at."""
    x = np.asarray(np.random.default_rng(0).random((700, 500), np.float32), order=order)
    np.save("x.npy", x)
    np.savez("x.npz", small=x[:2], large=x)
    np.savez_compressed("z.npz", large=x)
    mapped = read_npz("x.npz")
    for found in (read_npy("x.npy"), mapped["large"]):
        np.testing.assert_array_equal(found, x)
        assert type(found) is np.ndarray and not found.flags.writeable
    np.testing.assert_array_equal(mapped["small"], x[:2])
    np.testing.assert_array_equal(read_npz("z.npz")["large"], x)
    text = "HloModule m\nENTRY e { x = f32[700,500] parameter(0) i = f32[] constant(0)\n" + (
        "  ROOT y = f32[700,500] negate(x) }"
    )
    Path("neg.hlo").write_text(text)
    assert run("neg.hlo", "-i", "x.npy", "-o", "y.npy").exit_code == 0
    np.testing.assert_array_equal(np.load("y.npy"), -x)


def test_an_archive_that_unpacks_to_more_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed("bomb.npz", x=np.zeros(50_000_000, np.uint8))
    monkeypatch.setattr("hlo.support.memory.available_bytes", lambda: 40_000_000)
    result = run("add.hlo", "--inputs", "bomb.npz")
    assert result.exit_code == 1 and "bomb.npz, unpacked, takes 47.7 MiB" in result.stderr


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_large_array_that_is_cut_off(suffix: str) -> None:
    x = np.zeros((1000, 1000), np.float32)
    np.save("x.npy", x)
    np.savez("x.npz", x=x)
    data = Path(f"x.{suffix}").read_bytes()
    Path(f"x.{suffix}").write_bytes(data.replace(b"1000, 1000", b"1000, 2000"))
    flag = ["-i"] if suffix == "npy" else ["--inputs"]
    result = run("add.hlo", *flag, f"x.{suffix}")
    assert result.exit_code == 1 and f"x.{suffix}: broken" in result.stderr


def broken(name: str, data: bytes) -> None:
    Path(name).write_bytes(data)


def npz_bytes(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=True, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-i", "z=1"], "'z' is not a parameter"),
        (["-i", "5=1"], "the parameters are x, y"),
        (["-i", "xx=1"], "not a parameter"),
        (["-i", "1", "-i", "2", "-i", "3"], "literal"),
        (["-i", "x=zeros", "-i", "x=zeros"], "given twice"),
        (["-i", "zeros", "-i", "1", "-i", "2"], "one too many"),
        (["-i", "{1,2}"], "expected '{' for f32[2,3]"),
        (["-i", "{...}"], "elided"),
        (["-i", "s32[2,3] {{1,2,3},{1,2,3}}"], "f32[2,3] is needed"),
        (["-i", "2x2xf32=1"], "f32[2,3] is needed"),
        (["-i", "2x3xf32=1 2 3"], "found 3"),
        (["-i", "2x3xf32=@none.bin"], "no such file"),
        (["-i", "none.npy"], "none.npy: no such file"),
        (["-i", "@none.txt"], "none.txt: no such file"),
        (["-i", "@"], "'' is not a valid file name"),
        (["-i", "f64.npy"], "f64.npy has dtype numpy.float64, f32[2,3] is needed"),
        (["-i", "dims.npy"], "has dimensions [3, 2], f32[2,3] is needed"),
        (["-i", "object.npy"], "Python objects"),
        (["-i", "text.npy"], "text.npy: broken, or not an npy file"),
        (["-i", "empty.npy"], "empty.npy: broken"),
        (["-i", "cut.npy"], "cut.npy: broken"),
        (["-i", "huge.npy"], "huge.npy"),
        (["-i", "zip.npy"], "an npz of several arrays"),
        (["--inputs", "none.npz"], "none.npz: no such file"),
        (["--inputs", "."], "is a directory"),
        (["--inputs", "text.npz"], "text.npz: broken, or not an npz file"),
        (["--inputs", "cut.npz"], "cut.npz: broken"),
        (["--inputs", "flipped.npz"], "flipped.npz: broken"),
        (["--inputs", "npy.npz"], "npy.npz: broken, or not an npz file"),
        (["--inputs", "unknown.npz"], "'w' is not a parameter"),
        (["--inputs", "object.npz"], "Python objects"),
        (["--inputs", "twice.npz"], "given twice"),
    ],
)
def test_bad_inputs_are_one_error_and_exit_1(args: list[str], words: str) -> None:
    good = np.zeros((2, 3), np.float32)
    np.save("f64.npy", good.astype(np.float64))
    np.save("dims.npy", good.T)
    np.save("object.npy", np.array([{}, None]), allow_pickle=True)
    broken("text.npy", b"not numpy at all")
    broken("empty.npy", b"")
    np.save("good.npy", good)
    data = Path("good.npy").read_bytes()
    broken("cut.npy", data[:-5])
    broken("huge.npy", data.replace(b"(2, 3), }", b"(99999999999999, 3), }"))
    archive = npz_bytes(x=good)
    broken("zip.npy", archive)
    broken("text.npz", b"not a zip")
    broken("cut.npz", archive[:-30])
    at = archive.index(b"NUMPY") + 90
    broken("flipped.npz", archive[:at] + bytes([archive[at] ^ 255]) + archive[at + 1 :])
    broken("npy.npz", data)
    np.savez("unknown.npz", w=good)
    np.savez("object.npz", allow_pickle=True, x=np.array([{}, None]))
    np.savez("twice.npz", x=good, arg0=good)
    result = run("add.hlo", *args, "-o", "out.npz")
    assert result.exit_code == 1, result.output
    assert words in result.stderr
    assert result.stderr.count("error:") == 1 and result.stdout == ""
    assert not Path("out.npz").exists()


def test_an_encrypted_or_odd_archive_is_an_error() -> None:
    with zipfile.ZipFile("odd.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("x.npy", "no array")
        archive.writestr("../../escape", "nothing")
    assert run("add.hlo", "--inputs", "odd.npz").exit_code == 1


@pytest.mark.parametrize(
    "args",
    [[], ["add.hlo", "-o", "x.txt"], ["add.hlo", "--seed", "-1"], ["add.hlo", "--backend", "tpu"],
     ["add.hlo", "--nonsense"], ["add.hlo", "add.hlo", "-o", "x.npz"]],
)  # fmt: skip
def test_bad_usage_exits_2(args: list[str]) -> None:
    assert run(*args).exit_code == 2


def test_a_huge_parameter_is_refused_before_it_is_made() -> None:
    result = run("-", text=identity("f32[1000000,1000000]"))
    assert result.exit_code == 1 and "out-of-memory" in result.stderr


def test_a_mark_of_byte_order_is_no_text() -> None:
    Path("x.hlo").write_text("\ufeffHloModule m\nENTRY e { ROOT c = s32[] constant(7) }\n")
    assert run("x.hlo").stdout == "out0 = s32[] 7\n"


def test_input_that_is_no_text() -> None:
    Path("x.hlo").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in run("x.hlo").stderr
    assert "not UTF-8 text; this seems to be UTF-16" in run("-", text=b"\xff\xfe\x00").stderr
    Path("x.hlo").write_bytes(b"HloModule m\nENTRY \0 {}\n")
    assert run("x.hlo").stderr.startswith("x.hlo:2:7: error: ")
    assert "is a directory" in run(".").stderr


# --- the process --------------------------------------------------------------------------------


def test_a_bug_of_ours_exits_3(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("hlo.compiler.backends.verified", fail)
    result = run("add.hlo", "--backend", "reference")
    assert result.exit_code == 3
    assert "internal error: ZeroDivisionError: boom" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in run("add.hlo", "--backend", "reference", "--debug").stderr


def test_help_imports_nothing_heavy() -> None:
    commands = "hlo_tools.run.command, hlo_tools.opt.command"
    code = f"import sys, {commands}; print({{'numpy', 'lark'}} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"set()\n"


def test_a_closed_pipe_is_no_traceback() -> None:
    Path("big.hlo").write_text(identity("f32[300000]"))
    script = "import sys; from hlo_tools.run.command import main; main()"
    command = [sys.executable, "-c", script, "big.hlo", "-o", "-"]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.read(10)
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(HANG_S) == 1
    assert b"Traceback" not in errors and b"Exception" not in errors
