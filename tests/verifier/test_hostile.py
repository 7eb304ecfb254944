"""Files and names that mean harm: pickles, and names that are text of other languages."""

from __future__ import annotations

import html.parser
import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hlo_tools.run.command import main as run_command

import hlo
from hlo.ir import Computation, Module
from hlo.reports.graph import to_dot, to_html
from hlo.values.types import F32, array


class Harm:
    """Makes a folder when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = str(place)

    def __reduce__(self) -> object:
        return os.mkdir, (self.place,)


def harmful(kind: str, place: Path) -> bytes:
    harm, out = Harm(place), io.BytesIO()
    if kind == "pickle":
        return pickle.dumps(harm)
    array_file = io.BytesIO()
    np.save(array_file, np.array([harm], object), allow_pickle=True)
    if kind == "npy":
        return array_file.getvalue()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x.npy", pickle.dumps(harm) if kind == "bare" else array_file.getvalue())
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "flag"),
    [
        *((kind, "--input") for kind in ("npy", "pickle")),
        *((kind, flag) for kind in ("npz", "bare") for flag in ("--inputs", "--expect")),
        ("npz", "--constants"), ("npz", "--infeed"),
    ],
)  # fmt: skip
def test_nothing_is_unpickled(kind: str, flag: str, tmp_path: Path) -> None:
    module, place = tmp_path / "m.hlo", tmp_path / "harm"
    module.write_text(
        "HloModule m\nENTRY e { x = f32[1] parameter(0)\n  k = f32[1] constant({...})\n"
        "  t = token[] after-all()\n  i = (f32[1], token[]) infeed(t)\n"
        "  v = f32[1] get-tuple-element(i), index=0\n  y = f32[1] add(x, v)\n"
        "  ROOT z = f32[1] add(y, k) }\n"
    )
    file = tmp_path / ("x.npy" if flag == "--input" else "x.npz")
    file.write_bytes(harmful(kind, place))
    options = [flag, str(file)]
    if flag == "--expect":
        feed = tmp_path / "feed.npy"
        np.save(feed, np.ones(1, np.float32))
        options += ["--infeed", str(feed)]
    done = CliRunner().invoke(run_command, [str(module), "--no-cache", *options])
    assert (done.exit_code, "error: " in done.stderr) == (1, True), done.output
    assert "internal" not in done.stderr and not place.exists()


HOSTILE = "</title><script>alert(1)</script><img src=x onerror='f()'>\"]; --> \\\" &amp;"


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.found.update(name for name, _ in attrs if name.startswith("on"))


def named(name: str) -> Module:
    module, comp = Module(name), Computation(name)
    x = comp.create("parameter", array(F32, (2,)), (), {"number": 0}, name=name)
    comp.create("negate", array(F32, (2,)), [x], name=f"{name}.1", root=True)
    module.add(comp, entry=True)
    return module


def test_a_page_has_no_elements_of_names() -> None:
    tags = []
    for name in (HOSTILE, "plain"):
        found = _Tags()
        found.feed(to_html(named(name)))
        tags.append(found.found)
    assert tags[0] == tags[1]


def test_a_name_stays_in_its_string_of_dot() -> None:
    """Without strings, the text of any name is that of a plain one."""

    def bare(text: str) -> str:
        outside, within, escaped = [], False, False
        for c in text:
            if not within or (c == '"' and not escaped):
                outside.append(c)
            within ^= c == '"' and not escaped
            escaped = c == "\\" and not escaped
        return "".join(outside)

    assert bare(to_dot(named(HOSTILE))) == bare(to_dot(named("plain")))


def test_a_name_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run writes by the names of modules stays in its folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dump").mkdir()
    module = named("x")
    module.name = "../../harm/../x"
    hlo.save(module, "m.pb")
    done = CliRunner().invoke(
        run_command, ["m.pb", "--no-cache", "--xla_dump_to=dump", "-o", "dump/"]
    )
    assert "internal" not in done.stderr
    written = {p.relative_to(tmp_path).parts[0] for p in tmp_path.rglob("*")}
    assert written <= {"m.pb", "dump"} and not (tmp_path.parent / "harm").exists()
