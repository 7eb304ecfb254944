"""Modules inside of other text: Markdown, logs, strings of programs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hlo_tools.opt.command import main as opt
from hlo_tools.run.command import main as run
from hlo_tools.translate import main as translate

import hlo
from hlo.errors import Source
from hlo.io.excerpts import modules_in, only

TEXT = """HloModule top, is_scheduled=true

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}, execution_thread="main"

ENTRY %e (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0), metadata={op_name="jit(f)/{a}"}
  ROOT %n = f32[4]{0} negate(f32[4]{0} %x), metadata={op_name="a \\"b\\""}
}
"""
LINES = TEXT.splitlines()
MLIR = """module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.negate %arg0 : tensor<4xf32> loc(#loc1)
    return %0 : tensor<4xf32>
  }
}
#loc1 = loc("a {")
"""


def prefixed(prefix: str, text: str = TEXT) -> str:
    """Return a text with a prefix on each line in which `@` is the number of the line."""
    return "".join(f"{prefix.replace('@', str(n))}{x}\n" for n, x in enumerate(text.splitlines()))


def in_c(text: str) -> str:
    return "\n".join(json.dumps(line + "\n") for line in text.splitlines())


FILES = {
    "markdown": f"# Report\n\n```hlo\n{TEXT}```\nThe end {{\n",
    "tildes": f"~~~\n{TEXT}~~~\n",
    "quoted": prefixed("> ", f"See:\n```hlo\n{TEXT}```\n"),
    "indented": prefixed("    "),
    "glog": prefixed("I0000 00:00:1700@.1234   99 hlo.cc:@] ") + "W0000 00:00:1.1 99 a.cc:1] bye\n",
    "tensorflow": prefixed("2021-09-14 16:33:50.92@: I xla/service/service.cc:168] "),
    "first line": f"I0000 00:00:17.1 99 hlo.cc:12] {TEXT}I0000 00:00:17.1 99 hlo.cc:12] Done {{\n",
    "title": "I0000 00:00:1.1 9 a.cc:12] Before: " + prefixed("I0000 00:00:@.1 9 a.cc:12] ")[27:],
    "other threads": prefixed("[a] ").replace("[a]   %b", "[b] bye {\n[a]   %b"),
    "another thread at once": prefixed("I0000 00:00:1.@ 9 a.cc:1] ").replace(
        "\n", "\nW0000 00:00:1.1 7 b.cc:2] noise { (\n"
    ),
    "github": prefixed("2021-09-14T16:33:5@.9200780Z "),
    "docker": prefixed("web-1  | "),
    "mpi": prefixed("[1,0]<stdout>:"),
    "pytest": f"___ test ___\n{prefixed('E       ')}\n1 failed\n",
    "numbered": prefixed("   @\t"),
    "printed": f"compiling\n{TEXT}done in 3 s\n",
    "colours": prefixed("\x1b[32mINFO\x1b[0m ").replace("f32", "\x1b[1;31mf32\x1b[0m"),
    "c++": f'TEST(A, B) {{\n  constexpr char kHlo[] = R"(\n{TEXT})";\n}}\n',
    "c++ delimiter": f'auto m = Parse(R"hlo({TEXT})hlo");\n',
    "c++ comment": f'auto m = R"(\n  // RUN: x\n{TEXT})";\n',
    "c": f"const char* hlo =\n{in_c(TEXT)};\n",
    "macro": f"#define HLO \\\n{in_c(TEXT)}".replace("\n", " \\\n") + "\n",
    "python": f'import jax\nHLO = r"""\n{TEXT}"""\n',
    "python escapes": "HLO = '''\\\n" + TEXT.replace("\\", "\\\\") + "'''\n",
    "python format": 'f"""' + TEXT.translate({123: "{{", 125: "}}", 92: "\\\\"}) + '"""\n',
    "python lines": "HLO = (\n" + in_c(TEXT) + ")\n",
    "javascript": "const hlo = `" + TEXT.replace("\\", "\\\\") + "`;\n",
    "javascript sum": "x = " + in_c(TEXT).replace("\n", " +\n  ") + ";\n",
    "rust": f'let hlo = r#"{TEXT}"#;\n',
    "go": f"hlo := `{TEXT}`\n".replace('\\"', ""),
    "json": json.dumps({"n": 1, "hlo": TEXT, "m": "{"}),
    "json lines": json.dumps({"hlo": LINES, "m": 1}, indent=1),
    "notebook": json.dumps({"source": ["x\n", "y\n"], "text": [x + "\n" for x in LINES]}),
}


@pytest.mark.parametrize("file", FILES)
def test_a_module_is_read_where_it_is(file: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(FILES[file])
    module = hlo.load(path)
    assert module.name == "top"
    want = TEXT.replace('\\"', "") if file == "go" else TEXT
    assert str(module) == str(hlo.parse(want))


@pytest.mark.parametrize("file", FILES)
def test_errors_are_where_they_are_in_the_file(file: str, tmp_path: Path) -> None:
    path, text = tmp_path / "x.txt", FILES[file].replace("negate", "negat")
    path.write_text(text)
    with pytest.raises(hlo.HloError) as e:
        hlo.load(path)
    [wrong] = e.value.diagnostics
    at = text.index("negat")
    assert wrong.code == "unknown-opcode"
    place = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    assert wrong.span.source.line_column(wrong.span.start) == place
    assert f"x.txt:{place[0]}:{place[1]}: error" in str(e.value)


@pytest.mark.parametrize(
    "text",
    [
        MLIR,
        f"```mlir\n{MLIR}```\n",
        prefixed("DEBUG:jax:@: ", MLIR),
        f"DEBUG:jax: #loc = loc(unknown)\n{MLIR}DEBUG:jax: bye {{\n",
        f"text = '''\n{MLIR}'''\n",
        prefixed("> ", f"```stablehlo\n{MLIR}```\n"),
    ],
)
def test_stablehlo(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(text)
    assert [i.opcode for i in hlo.load(path).entry] == ["parameter", "negate"]
    path.write_text(text.replace("negate", "negat"))
    with pytest.raises(hlo.HloError) as e:
        hlo.load(path)
    line = text[: text.index("negate")].count("\n") + 1
    assert f"x.log:{line}:" in str(e.value)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "// HloModule m, x={}\n" + TEXT,
        "The HloModule jit_f was compiled.\nHloModule jit_f, which (is) bad\n",
        "e { ROOT c = s32[] constant(7) }",
        MLIR,
        'x = "HloModule"\n',
        "HloModule m, unfinished\n",
        "".join(f"// CHECK: {x}\n" for x in LINES) + "f32[2] add(f32[2] a, f32[2] b)",
        "module { exports = {} }",
    ],
)
def test_other_texts_have_no_module_inside(text: str) -> None:
    assert not modules_in(Source("x", text))


def test_a_module_that_is_cut_off_is_read_up_to_the_end_of_its_fence(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(f"```\n{TEXT[:250]}\n```\nmore text\n")
    with pytest.raises(hlo.HloError) as e:
        hlo.load(path)
    assert all(d.span.source.line_column(d.span.start)[0] < 14 for d in e.value.diagnostics)


# --- several ------------------------------------------------------------------------------------

_TWO = FILES["c++"] + FILES["python"].replace("top", "two")


def test_several_modules_are_an_error_that_lists_them(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(_TWO)
    with pytest.raises(hlo.HloError) as e:
        hlo.load(path)
    [wrong] = e.value.diagnostics
    assert wrong.code == "several-modules"
    assert wrong.message == f"{path} has 2 modules: top (line 3), two (line 19)"
    assert f"{path}#top" in wrong.hint and "--split-input-file" in wrong.hint


@pytest.mark.parametrize("wanted", ["two", "2"])
def test_one_of_several_is_selected(wanted: str, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(_TWO)
    assert hlo.load(f"{path}#{wanted}").name == "two"
    ran = CliRunner().invoke(run, [f"{path}#{wanted}"])
    assert ran.exit_code == 0, ran.stderr
    path.write_text(_TWO.replace("negate", "negat"))
    with pytest.raises(hlo.HloError) as e:
        hlo.load(f"{path}#{wanted}")
    assert f"{path}:29:" in str(e.value)


def test_results_of_several_modules_of_a_file_are_files_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(_TWO)
    out = tmp_path / "out"
    ran = CliRunner().invoke(run, [f"{path}#top", f"{path}#2", "-o", f"{out}/"])
    assert ran.exit_code == 0, ran.stderr
    assert sorted(p.name for p in out.iterdir()) == ["x.2.npz", "x.top.npz"]


def test_what_is_selected_runs_from_the_cache_as_itself(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(_TWO.replace("negate", "abs", 1))
    for _ in range(2):
        first, second = (CliRunner().invoke(run, [f"{path}#{n}"]).stdout for n in (1, 2))
        assert first != second


@pytest.mark.parametrize("data", [b"ML\xefR\rStableHLO\0", b"\x0a\x04\x0a\x02\xff\x01"])
def test_nothing_is_selected_in_a_binary_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(data)
    with pytest.raises(hlo.HloError, match=r"x\.bin is binary and has one module") as e:
        hlo.load(f"{path}#main")
    assert (e.value.code, e.value.diagnostics[0].hint) == ("unknown-module", "leave out #main")


def test_a_selection_that_is_not_there_lists_what_is(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(_TWO)
    for wanted in ("three", "3", "0"):
        with pytest.raises(hlo.HloError) as e:
            hlo.load(f"{path}#{wanted}")
        assert e.value.code == "unknown-module"
        assert "top (line 3), two (line 19)" in e.value.diagnostics[0].hint
    (tmp_path / "a#1").write_text(TEXT)
    assert hlo.load(tmp_path / "a#1").name == "top"
    with pytest.raises(hlo.HloError, match=r"none\.hlo: no such file"):
        hlo.load(tmp_path / "none.hlo#1")


@pytest.mark.parametrize("command", [opt, translate])
def test_commands_split_a_file_into_its_modules(command: object, tmp_path: Path) -> None:
    text = f"{TEXT}// -----\n{TEXT.replace('top', 'two')}"
    for content in (_TWO, text):
        done = CliRunner().invoke(command, ["-", "--split-input-file"], input=content)
        assert done.exit_code == 0, done.stderr
        names = [name for name in ("top", "two") if f" {name}" in done.stdout.replace("@", "")]
        assert names == ["top", "two"]
        path = tmp_path / "x.hlo"
        path.write_text(content)
        assert [hlo.load(f"{path}#{n}").name for n in (1, 2)] == ["top", "two"]


def test_a_module_keeps_its_lines_and_columns() -> None:
    source = Source("x", _TWO)
    for found in modules_in(source):
        text = only(source, found)
        [again] = modules_in(Source("x", text))
        start = found.source.text.index("ENTRY")
        assert again.source.line_column(start) == found.source.line_column(start)


def test_offsets_map_both_ways() -> None:
    for text in FILES.values():
        for found in modules_in(Source("x", text)):
            excerpt = found.source
            for offset in range(0, len(excerpt.text), 7):
                if excerpt.text[offset] != "\n":
                    assert excerpt.from_file(excerpt.to_file(offset)) == offset


# --- gzip ---------------------------------------------------------------------------------------


def test_what_gzip_has_compressed_is_read(tmp_path: Path) -> None:
    module = hlo.parse(TEXT)
    for name, content in (
        ("x.hlo.gz", TEXT.encode()), ("x.pb.gz", hlo.to_proto(module)), ("x.md.gz", b"#\n" * 9),
        ("x.gz", TEXT.encode()),
    ):  # fmt: skip
        content = content + FILES["markdown"].encode() if name == "x.md.gz" else content
        (tmp_path / name).write_bytes(gzip.compress(content[:99]) + gzip.compress(content[99:]))
        assert hlo.load(tmp_path / name).name == "top"
    done = CliRunner().invoke(run, ["-"], input=gzip.compress(TEXT.encode()))
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(TEXT.encode())[:-20], "is truncated"),
        (b"\x1f\x8b\x08\x00nonsense and more of it", "is broken"),
        (gzip.compress(b"\x7fELF" + b"\0" * 60, mtime=0), "an ELF object file"),
    ],
)
def test_broken_gzip_is_one_error(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(content)
    with pytest.raises(hlo.HloError, match=message):
        hlo.load(tmp_path / "x.gz")


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hlo.io.compressed._MOST_BYTES", 1 << 20)
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(1 << 25)))
    with pytest.raises(hlo.HloError, match=r"more than 1\.0 MiB when unpacked"):
        hlo.load(tmp_path / "x.gz")
