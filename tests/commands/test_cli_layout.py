"""`hlo-layout`: what it shows and writes, and what it says when it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.layout import main

TILED = "f32[3,5]{1,0:T(2,2)}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(args))
    assert result.exit_code == code, result.output
    return result


def test_shows_facts_and_places() -> None:
    out = run(TILED).stdout
    assert "places        24, 9 of them padding of tile (2,2)\n" in out
    assert "   2  12 13 | 16 17 | 20  .\n" in out
    assert run("u8[2,3]{0,1}", "--letters").stdout.endswith("\n  0  a d | b e | c f\n")


def test_json_has_the_index_of_each_place() -> None:
    found = json.loads(run(TILED, "--json").stdout)
    assert (found["bytes"], found["physical_dims"], found["waste"]) == (96, [2, 3, 2, 2], 0.375)
    assert found["indices"][17] == [2, 3] and found["indices"][23] is None
    assert json.loads(run("f32[99,99]", "--json").stdout)["indices"] is None
    split = json.loads(run("f32[8,<=3]{1,0:SC(0:3,5)}", "--json").stdout)
    assert split["splits"] == [{"dim": 0, "indices": [3, 5]}] and split["dynamic"] == [False, True]


@pytest.mark.parametrize(
    ("shape", "question", "answer"),
    [
        (TILED, ("--at", "2,3"), "place 17, byte 68: index 2,3"),
        (TILED, ("--at", "(2, 3)"), "place 17, byte 68: index 2,3"),
        (TILED, ("--place", "23"), "place 23, byte 92: padding"),
        ("s4[3]{0:E(4)M(2)}", ("--at", "1"), "place 1, byte 2.4: index 1"),
        ("f32[]", ("--at", ""), "place 0, byte 0: index ()"),
        ("bf16[8,8]{1,0:T(2,4)(2,1,1,1)}", ("--at", "6,5"), "place 51, byte 102: index 6,5"),
    ],
)
def test_one_element(shape: str, question: tuple[str, str], answer: str) -> None:
    assert run(shape, *question).stdout == f"{answer}\n"


def test_arrays_of_a_tuple() -> None:
    shape = f"({TILED}, (s4[3]{{0:E(4)}}, token[]))"
    out = run(shape).stdout
    assert (
        out.startswith(f"2 arrays, 98 bytes\n\n{{0}} {TILED}\n") and "{1,0} s4[3]{0:E(4)}\n" in out
    )
    found = json.loads(run(shape, "--json").stdout)
    assert found["bytes"] == 98
    assert [(a["index"], a["bytes"]) for a in found["arrays"]] == [([0], 96), ([1, 0], 2)]


def test_a_physical_shape_is_shown_in_place_of_a_sparse_one() -> None:
    result = run("f32[2,3]{1,0:D(D,C)P(f32[4]{0:L(8)})}")
    assert "lies in the memory of f32[4]{0:L(8)}, which is shown" in result.stderr
    assert "8, 4 of them padding of the tail" in result.stdout


def test_padded_dimensions() -> None:
    """The figure of document 004."""
    np.save("x.npy", np.frombuffer(b"abcdef", np.uint8).reshape(2, 3))
    padded = ("u8[2,3]{0,1}", "--padded", "3,5", "--padding-value", "0")
    assert run(*padded, "--letters").stdout.endswith("\n  0  a d 0 b e 0 c f 0 0 0 0 0 0 0\n")
    assert run(*padded, "--at", "1,1").stdout == "place 4, byte 4: index 1,1\n"
    run(*padded[:-1], "48", "--pack", "x.npy", "-o", "x.bin")
    assert Path("x.bin").read_bytes() == b"ad0be0cf0000000"
    run(*padded, "--unpack", "x.bin", "-o", "y.npy")
    assert np.array_equal(np.load("y.npy"), np.load("x.npy"))


def test_draws() -> None:
    assert run(TILED, "--svg", "t.svg").stdout == ""
    assert Path("t.svg").read_text().startswith("<svg ")


# --- files --------------------------------------------------------------------------------------

X = np.arange(15, dtype=np.float32).reshape(3, 5)


@pytest.mark.parametrize("form", ["npy", "npz", "bin"])
@pytest.mark.parametrize("other", ["npy", "npz", "bin"])
def test_files_there_and_back(form: str, other: str) -> None:
    np.save("x.npy", X)
    np.savez("x.npz", x=X)
    X.tofile("x.bin")
    run(TILED, "--pack", f"x.{form}", "-o", f"packed.{other}")
    run(TILED, "--unpack", f"packed.{other}", "-o", f"back.{form}")
    back = {
        "npy": lambda: np.load("back.npy"),
        "npz": lambda: next(iter(np.load("back.npz").values())),
        "bin": lambda: np.fromfile("back.bin", np.float32).reshape(3, 5),
    }[form]()
    assert back.dtype == X.dtype and np.array_equal(back, X)


def test_a_packed_file_is_the_buffer() -> None:
    np.save("x.npy", X)
    run(TILED, "--pack", "x.npy", "-o", "x.bin")
    memory = np.fromfile("x.bin", np.float32)
    assert memory.tolist()[:12] == [0, 1, 5, 6, 2, 3, 7, 8, 4, 0, 9, 0]


def test_all_arrays_of_an_archive() -> None:
    np.savez("x.npz", a=X, b=2 * X)
    run(TILED, "--pack", "x.npz", "-o", "p.npz")
    run(TILED, "--unpack", "p.npz", "-o", "y.npz")
    with np.load("y.npz") as found:
        assert sorted(found) == ["a", "b"] and np.array_equal(found["b"], 2 * X)
    assert "2 arrays" in run(TILED, "--pack", "x.npz", "-o", "p.npy", code=2).stderr


def test_types_that_numpy_does_not_know() -> None:
    x = np.array([1, -2, 3]).astype(ml_dtypes.int4)
    np.save("x.npy", x.astype(np.int8))
    run("s4[3]{0:E(4)}", "--pack", "x.npy", "-o", "x.bin")
    assert Path("x.bin").read_bytes() == bytes([0xE1, 0x03])
    run("s4[3]{0:E(4)}", "--unpack", "x.bin", "-o", "y.npy")
    assert np.load("y.npy").tolist() == [1, -2, 3]


# --- what cannot be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("f32[2",), "the ']' of the dimensions is missing"),
        (("(f32[2])", "--svg", "t.svg"), "is not the shape of an array"),
        (("(f32[2])", "--at", "0"), "is not the shape of an array"),
        (("(f32[2], f32[?])",), "has no size"),
        (("f32[2,3]{1,0:D(D,C)P(f32[4])}", "--at", "0,0"), "does not define where elements are"),
        (("f32[2]{0:D(C)P((f32[4], s32[4]))}",), "is not the shape of an array"),
        ((TILED, "--padded", "4,6"), "has tiles"),
        (("u8[3]", "--padded", "4", "--padding-value", "256"), "--padding-value 256: "),
        (("f32[?]",), "has no size"),
        (("f32[2]{0:E(16)}",), "do not hold f32"),
        ((TILED, "--at", "3,0"), "outside dimension 0"),
        ((TILED, "--at", "1"), "has 2 dimensions, the index 1"),
        ((TILED, "--place", "24"), "outside the 24 elements"),
        ((TILED, "--svg", "none/t.svg"), "cannot write none/t.svg: no such file"),
        ((TILED, "--pack", "none.npy", "-o", "o.bin"), "none.npy: no such file"),
        ((TILED, "--pack", "x.npy", "-o", "none/o"), "cannot write none/o: no such file"),
        ((TILED, "--pack", "x.npy", "-o", "./x.npy"), "./x.npy is an input"),
        (("f32[5,3]", "--pack", "x.npy", "-o", "o.bin"), "x.npy has dimensions [3, 5]"),
        (("f32[5,3]", "--pack", "x.bin", "-o", "o.bin"), "x.bin has 3 bytes, f32[5,3] has 60"),
        ((TILED, "--unpack", "x.bin", "-o", "o.npy"), "takes a buffer of 96 bytes"),
        ((TILED, "--unpack", "bad.npz", "-o", "o.npz"), "bad.npz: broken"),
        (("f32[2]{0:T(1000000000000)}", "--pack", "two.npy", "-o", "o"), "packing f32[2]"),
    ],
)
def test_errors_are_one_line_and_leave_nothing_behind(args: tuple[str, ...], words: str) -> None:
    np.save("x.npy", X)
    np.save("two.npy", X[0, :2])
    Path("x.bin").write_bytes(b"abc")
    Path("bad.npz").write_bytes(b"PK..")
    before = {p.name: p.read_bytes() for p in Path().iterdir()}
    result = run(*args, code=1)
    assert result.stdout == "" and words in result.stderr
    assert sum("error: " in line for line in result.stderr.splitlines()) == 1
    assert {p.name: p.read_bytes() for p in Path().iterdir()} == before
    told = json.loads(run(*args, "--json", code=1).stdout)
    assert words.removeprefix("error: ") in told["errors"][0]["message"]


@pytest.mark.parametrize(
    "args",
    [
        ("--pack", "x.npy"),
        ("-o", "x.npy"),
        ("--pack", "a", "--unpack", "b", "-o", "c"),
        ("--at", "0,0", "--place", "0"),
        ("--at", "0,0", "--svg", "x.svg"),
        ("--at", "zero"),
        ("--padded", "x"),
    ],
)
def test_bad_usage(args: tuple[str, ...]) -> None:
    assert "Usage:" in run(TILED, *args, code=2).stderr
    assert not list(Path().iterdir())
