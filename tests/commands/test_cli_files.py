"""Files that commands cannot read or write: one error, exit code 1, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools import compile as compile_tool
from hlo_tools.opt import command as opt_tool
from hlo_tools.run import command as run_tool

MODULE = """HloModule m
ENTRY e {
  x = f32[20000] parameter(0)
  ROOT y = f32[20000] add(x, x)
}
"""
CALLS_OUT = """HloModule m
ENTRY e { x = f32[3] parameter(0)
  ROOT y = f32[3] custom-call(x), custom_call_target="f" }
"""
COMMANDS = {"run": run_tool.main, "compile": compile_tool.main, "opt": opt_tool.main}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"m.hlo": MODULE, "out.hlo": CALLS_OUT, "binary.hlo": "\x00\xff"}.items():
        Path(name).write_text(text, encoding="latin-1")
    Path("empty.hlo").touch()
    Path("dir").mkdir()
    np.savez("in.npz", x=np.zeros(20000, np.float32))
    return tmp_path


def run(command: str, *args: str) -> Result:
    result = CliRunner().invoke(COMMANDS[command], list(args))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def contents() -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in Path().rglob("*") if p.is_file()}


_RUN, _COMPILE = ("run", "--backend", "compiled"), ("compile",)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        *(
            ((*command, file, *output), words)
            for command, output in ((_RUN, ("-o", "out.npz")), (_COMPILE, ("-o", "out.o")),
                                    (("opt",), ("-o", "out.txt")))
            for file, words in (("dir", "dir: is a directory"), ("none.hlo", "no such file"),
                                ("empty.hlo", "the text is empty"), ("binary.hlo", "not UTF-8"))
        ),
        ((*_RUN, "m.hlo", "-o", "none/out.npz"), "cannot write none/out.npz: no such file"),
        ((*_RUN, "m.hlo", "-o", "m.hlo/out.npz"), "cannot write m.hlo/out.npz: not a directory"),
        ((*_RUN, "m.hlo", "--inputs", "in.npz", "-o", "./in.npz"), "./in.npz is an input"),
        ((*_RUN, "m.hlo", "dir/../m.hlo", "-o", "dir"), "dir/m.npz would be written twice"),
        ((*_COMPILE, "m.hlo", "-o", "none/m.o"), "cannot write none/m.o: no such file"),
        ((*_COMPILE, "m.hlo", "--header", "dir"), "cannot write dir: is a directory"),
        ((*_COMPILE, "m.hlo", "--header", "m.hlo"), "m.hlo is an input"),
        ((*_COMPILE, "m.hlo", "-o", "m.o", "--header", "./m.o"), "./m.o would be written twice"),
        ((*_COMPILE, "out.hlo", "--header", "hlo_ffi.h"), "hlo_ffi.h would be written twice"),
        ((*_COMPILE, "m.hlo", "--example", "m.hlo"), "cannot make m.hlo: file exists"),
        (("opt", "m.hlo", "-o", "dir"), "cannot write dir: is a directory"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_or_written(args: tuple[str, ...], words: str) -> None:
    before = contents()
    result = run(*args)
    assert result.exit_code == 1 and words in result.stderr, result.stderr
    assert result.stderr.count("error:") == 1 and contents() == before


@pytest.mark.parametrize(
    "args",
    [
        (*_RUN, "m.hlo", "-i", "zeros", "-o", "in.npz"),
        (*_COMPILE, "m.hlo", "-o", "m.o", "--header", "m.h"),
    ],
)
def test_a_full_disk(args: tuple[str, ...]) -> None:
    resource = pytest.importorskip("resource")
    before = contents()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        result = run(*args, *(["--no-cache"] if args[0] == "run" else []))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.exit_code == 1 and "error: cannot write " in result.stderr
    assert result.stderr.count("error:") == 1 and contents() == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_standard_output_on_a_full_disk() -> None:
    script = "from hlo_tools.run.command import main; main()"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script, "m.hlo", "-i", "zeros", "-o", "-"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write to standard output: no space left on device")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh")
@pytest.mark.parametrize(
    ("closed", "file", "words"),
    [("<&-", "-", "cannot read standard input: it is closed"),
     (">&-", "m.hlo", "cannot write to standard output: it is closed"), ("2>&-", "empty.hlo", "")],
)  # fmt: skip
def test_closed_streams(closed: str, file: str, words: str) -> None:
    script = "from hlo_tools.opt.command import main; main()"
    closing = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    done = subprocess.run(
        [*closing, sys.executable, "-c", script, file],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and words in done.stderr and len(done.stderr.splitlines()) < 2


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh")
def test_memory_that_the_process_may_not_have() -> None:
    Path("big.hlo").write_text(MODULE.replace("20000", "700000000"))
    script = "from hlo_tools.run.command import main; main()"
    limited = ["sh", "-c", f'ulimit -v {2 << 20}; exec "$@"', "sh"]
    done = subprocess.run(
        [*limited, sys.executable, "-c", script, "big.hlo", "-i", "zeros", "m.hlo"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "error: input x, f32[700000000], takes 2.6 GiB of memory" in done.stderr
    assert "1 of 2 files ran" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh")
@pytest.mark.parametrize("command", ["run", "opt"])
@pytest.mark.parametrize("kilobytes", [40_000, 300_000])
def test_less_memory_than_libraries_need(command: str, kilobytes: int) -> None:
    script = f"from hlo_tools.{command}.command import main; main()"
    limited = ["sh", "-c", f'ulimit -v {kilobytes}; exec "$@"', "sh"]
    done = subprocess.run(
        [*limited, sys.executable, "-c", script, "m.hlo"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "of memory (ulimit -v)" in done.stderr and "[out-of-memory]" in done.stderr


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh")
@pytest.mark.parametrize("name", ["parse", "compile", "Host"])
def test_less_memory_than_libraries_need_in_python(name: str) -> None:
    code = f"import hlo\ntry:\n  hlo.{name}\nexcept hlo.HloError as e:\n  print(e)"
    limited = ["sh", "-c", 'ulimit -v 100000; exec "$@"', "sh"]
    done = subprocess.run(
        [*limited, sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "of memory (ulimit -v), hlo needs 381.5 MiB at least [out-of-memory]" in done.stdout


@pytest.mark.parametrize("backend", ["compiled", "reference"])
def test_memory_is_added_up_before_anything_is_made(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hlo.support.memory.available_bytes", lambda: 3 << 30)
    Path("sum.hlo").write_text(
        "HloModule m\nENTRY e { w = f32[300000000] parameter(0) b = f32[300000000] parameter(1)\n"
        "  s = s8[] parameter(2)\n  ROOT r = f32[300000000] add(w, b) }"
    )
    result = run("run", "sum.hlo", "--no-cache", "--backend", backend)
    assert result.exit_code == 1
    assert "the run takes 3.4 GiB of memory, 3.0 GiB are free: random inputs 2.2 GiB (" in (
        result.stderr
    )
    assert "w 1.1 GiB" in result.stderr and "results 1.1 GiB" in result.stderr


def test_a_tile_larger_than_memory() -> None:
    Path("tile.hlo").write_text(
        "HloModule m\nENTRY e { ROOT a = s32[]{:T(2147483647)} parameter(0) }"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hlo.support.memory.available_bytes", lambda: 3 << 30)
        result = run("run", "tile.hlo", "--no-cache")
    assert result.exit_code == 1 and "arguments in their layouts 16.0 GiB" in result.stderr


@pytest.mark.skipif(os.name != "posix", reason="there are no signals")
@pytest.mark.parametrize(
    "at", ["hlo.compiler.pipeline.compile_text", "numpy.lib.format.write_array"]
)
def test_what_ends_a_command_leaves_nothing_behind(at: str) -> None:
    """SIGTERM while it compiles, and while it writes."""
    module, _, name = at.rpartition(".")
    script = (
        f"import os, signal, {module} as m\nfrom hlo_tools.run.command import main\n"
        f"m.{name} = lambda *args, **options: os.kill(os.getpid(), signal.SIGTERM)\nmain()"
    )
    before = contents()
    done = subprocess.run(
        [sys.executable, "-c", script, "m.hlo", "-i", "zeros", "--no-cache", "-o", "in.npz"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGTERM and not done.stderr and contents() == before


@pytest.mark.skipif(os.name != "posix", reason="there are no signals")
@pytest.mark.parametrize("args", [["m.hlo"], ["empty.hlo"], ["--nonesuch"], ["--help"]])
def test_commands_called_from_python_leave_sigterm_as_it_was(args: list[str]) -> None:
    def own(*_: object) -> None: ...

    for handler in (own, signal.SIG_IGN):
        before = signal.signal(signal.SIGTERM, handler)
        try:
            run("opt", *args)
            assert signal.getsignal(signal.SIGTERM) is handler
        finally:
            signal.signal(signal.SIGTERM, before)


@pytest.mark.skipif(os.name != "posix", reason="there are no signals")
def test_sigterm_comes_to_the_handler_of_who_called(monkeypatch: pytest.MonkeyPatch) -> None:
    came = []
    before = signal.signal(signal.SIGTERM, lambda *_: came.append("own"))

    def ended(*args: object, **options: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        came.append("not unwound")

    monkeypatch.setattr("hlo.compiler.pipeline.compile_text", ended)
    try:
        assert run("run", "m.hlo", "-i", "zeros", "--no-cache").exit_code == 143
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == ["own"]


@pytest.mark.parametrize(
    "at", ["hlo.compiler.pipeline.compile_text", "numpy.lib.format.write_array"]
)
def test_ctrl_c(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    before = contents()
    monkeypatch.setattr(at, interrupted)
    result = run(*_RUN, "m.hlo", "-i", "zeros", "-o", "in.npz")
    assert (result.exit_code, result.stderr) == (130, "interrupted\n") and contents() == before
