"""What all commands share: exit codes, errors, standard input, progress.

Exit codes: 0 fine, 1 bad input, 2 bad usage, 3 a bug of ours. Results go to standard output,
everything else to standard error. Only click is imported here, so that `--help` is quick.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

import hlo

from .completion import answer_shell, complete_files, install_option
from .options import Choice, check_combinations
from .spelling import spelled, suggest

if TYPE_CHECKING:
    from hlo.errors import HloError
    from hlo.ir import Module

BAD_INPUT, BAD_USAGE, BUG, INTERRUPTED, TERMINATED = 1, 2, 3, 130, 143

# The forms of modules in files, as `--format` names them.
SOURCE_FORMS = ("hlo", "txt", "pb", "pbtxt", "mlir")
REPORT_AT = "please report it, with the input, as an issue of hlo-tools"


_EXIT_CODES = (
    "Exit status: 0 success; 1 an error in the input, or results that differ; 2 wrong usage; 3 "
    "a bug in this program; 130 interrupted."
)


class Tool(click.Command):
    """A command that ends in one of our exit codes, whatever happens."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{"epilog": _EXIT_CODES, **settings})
        complete_files(self)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, spelled(self.params, args))
        except click.NoSuchOption as e:
            suggestion = suggest(self, e.option_name)
            message = f"No such option {e.option_name!r}. {suggestion}".rstrip()
            raise click.UsageError(message, e.ctx) from None
        check_combinations(ctx, self.params)
        for param in self.params:
            value = ctx.params.get(param.name or "")
            if isinstance(value, float) and math.isnan(value):  # it is in any range
                raise click.BadParameter("nan is not a number.", ctx, param)
            if "--format" in param.opts and ctx.meta.get(_FUNCTION) is not None:
                ctx.params[param.name or ""] = None  # `read_source` gives HLO text then
        return rest

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, **rest: Any
    ) -> NoReturn:
        """Run with `args` (by default those of the process) and exit."""
        args = list(sys.argv[1:] if args is None else args)
        sys.exit(self._exit_code(args))

    def _exit_code(self, args: list[str]) -> int:
        from hlo.errors import HloError
        from hlo.support.memory import need_address_space

        global _shows_traceback
        _shows_traceback = "--debug" in args
        if sys.stderr is None:  # closed by whoever started us
            sys.stderr = open(os.devnull, "w")
        try:
            with _sigterm_unwinds():
                if (answered := answer_shell(self)) is not None:
                    return answered
                need_address_space(self.name or "this command")
                # Not click's own main(), which ends in status 0 when our output is cut off.
                with self.make_context(self.name, args) as context:
                    result = self.invoke(context)
                if sys.stdout is not None and not sys.stdout.closed:
                    sys.stdout.flush()
        except click.exceptions.Exit as e:
            return e.exit_code
        except click.UsageError as e:
            e.show()
            return BAD_USAGE
        except HloError as e:
            show_error(e)
            return BAD_INPUT
        except MemoryError:
            note("error: out of memory")
            return BAD_INPUT
        except (KeyboardInterrupt, click.Abort):
            note("interrupted")
            return INTERRUPTED
        except _Terminated:
            # Now to whoever took it before: by default it ends the process.
            os.kill(os.getpid(), signal.SIGTERM)
            return TERMINATED
        except BrokenPipeError:
            # Whoever read our output has had enough.
            _drop_output()
            return BAD_INPUT
        except Exception as e:
            _show_traceback(e)
            note(f"internal error: {type(e).__name__}: {e}")
            note(f"This is a bug in {self.name}; {REPORT_AT}. --debug shows the traceback.")
            return BUG
        return result if isinstance(result, int) else 0


class _Terminated(BaseException):
    """Somebody asks the process to end."""


@contextlib.contextmanager
def _sigterm_unwinds() -> Iterator[None]:
    """Have SIGTERM raise, so that what is half-written is removed first, as for Ctrl-C.

    Afterwards it is handled as before: commands are also called from Python.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminated(*_: object) -> NoReturn:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        # None is a handler that Python has not made and cannot put back.
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that every command has."""
    command = click.option(
        "--debug", is_flag=True, expose_value=False,
        help="Show the Python traceback of an error as well.",
    )(command)  # fmt: skip
    command = click.version_option(hlo.__version__, package_name="hlo-tools")(command)
    command = install_option(command)
    return click.help_option("-h", "--help")(command)


def verify_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that says how strict the verifier is."""
    return click.option(
        "--verify", type=Choice(["strict", "lenient"]), default="strict", show_default=True,
        help="Check every rule, or accept what XLA accepts if it cannot affect results.",
    )(command)  # fmt: skip


def strict_math_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that asks for strict arithmetic."""
    return click.option(
        "--strict-math", is_flag=True,
        help="Round each operation as the interpreter does: nothing is contracted or reassociated, "
        "functions and sums of f32 and narrower types are computed in f64. Slower.",
    )(command)  # fmt: skip


_FUNCTION = "hlo.function"


def function_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that says which function of StableHLO is the entry; `read_source` obeys it."""

    def keep(context: click.Context, _: click.Parameter, name: str | None) -> None:
        context.meta[_FUNCTION] = name.removeprefix("@") if name is not None else None

    return click.option(
        "--function", metavar="NAME", expose_value=False, callback=keep,
        help="The function of StableHLO that is the entry, instead of @main.",
    )(command)  # fmt: skip


def chosen_function() -> str | None:
    """Return the function that --function names, if it is given."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_FUNCTION)


@contextlib.contextmanager
def source_file(path: str) -> Iterator[str]:
    """Give a file with what `read_source` returns: the file itself without --function."""
    if chosen_function() is None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="hlo-function-") as folder:
        chosen = os.path.join(folder, os.path.basename(path) + ".hlo")
        with open(chosen, "wb") as file:
            file.write(read_source(path)[0])
        yield chosen


# --- output -------------------------------------------------------------------------------------


def emit(content: str | bytes) -> None:
    """Write to standard output, all of it or an error.

    With PYTHONUNBUFFERED the stream itself writes what a pipe takes and forgets the rest.
    """
    from hlo.errors import HloError
    from hlo.values.scan import to_bytes

    if sys.stdout is None:
        raise HloError.at("bad-file", "cannot write to standard output: it is closed")
    sys.stdout.flush()
    data = memoryview(to_bytes(content) if isinstance(content, str) else content)
    stream = sys.stdout.buffer
    try:
        while data:
            data = data[stream.write(data) :]
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as e:
        _drop_output()
        reason = (e.strerror or str(e)).lower()
        raise HloError.at("bad-file", f"cannot write to standard output: {reason}") from None


def _drop_output() -> None:
    """Lead standard output nowhere: Python would complain again on closing it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def emit_json(value: Any) -> None:
    """Write a value to standard output as one line of JSON."""
    emit(json.dumps(value) + "\n")


def note(message: str) -> None:
    """Write a line to standard error."""
    click.echo(message, err=True)


# Whether `--debug` was given.
_shows_traceback = False


def _show_traceback(error: BaseException) -> None:
    if _shows_traceback:
        note("".join(traceback.format_exception(error)).rstrip())


def show_error(error: HloError) -> None:
    """Write all diagnostics of an error to standard error, in colour on a terminal."""
    _show_traceback(error)
    if _colour():
        lines = str(error).split("\n")
        note("\n".join(_coloured(line) for line in lines))
    else:
        note(str(error))
    count = len(error.diagnostics)
    if count > 1:
        note(f"{count} errors")


def _colour() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def _coloured(line: str) -> str:
    head, found, rest = line.partition("error: ")
    if found and not line.startswith(" "):
        return head + click.style("error: ", fg="red", bold=True) + click.style(rest, bold=True)
    if line.strip() and not line.strip(" \t^"):
        return click.style(line, fg="green")
    return click.style(line, fg="cyan") if line.startswith("  hint: ") else line


def fail(error: HloError, file: str, *, as_json: bool) -> int:
    """Report an error of one file in the form that was asked for; returns the exit code."""
    if as_json:
        emit_json({"file": file, "errors": diagnostics_json(error)})
    else:
        show_error(error)
    return BAD_INPUT


def diagnostics_json(error: HloError) -> list[dict[str, Any]]:
    """Return the diagnostics of an error as JSON objects."""
    found = []
    for d in error.diagnostics:
        entry: dict[str, Any] = {"code": d.code, "message": d.message}
        if d.span is not None:
            line, column = d.span.source.line_column(d.span.start)
            entry |= {"file": d.span.source.name, "line": line, "column": column}
        if d.hint is not None:
            entry["hint"] = d.hint
        found.append(entry)
    return found


# --- input --------------------------------------------------------------------------------------


def read_source(path: str) -> tuple[bytes, str]:
    """Return what is in a file, or on standard input for `-`, and what errors are to call it.

    `FILE#NAME` is one of the modules in a file. With --function it is HLO text: the module whose
    entry is that function.
    """
    data, name = _content(path)
    function = chosen_function()
    return (data, name) if function is None else _with_entry(data, name, function)


def _content(path: str) -> tuple[bytes, str]:
    from hlo.errors import HloError
    from hlo.io.compressed import unpacked
    from hlo.io.module_files import read_file

    if path != "-":
        return read_file(path)
    if sys.stdin is None:
        raise HloError.at("bad-file", "cannot read standard input: it is closed")
    return unpacked(sys.stdin.buffer.read(), "<stdin>"), "<stdin>"


def _with_entry(data: bytes, name: str, function: str) -> tuple[bytes, str]:
    from hlo.errors import HloError
    from hlo.frontends.sources import recognized
    from hlo.frontends.stablehlo import from_source

    form, content = recognized(data, name)
    if form != "mlir" or isinstance(content, bytes):
        raise HloError.at("bad-file", f"--function: {name} is not StableHLO")
    return str(from_source(content, function)).encode(), f"{name} (@{function})"


def modules_among(files: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of several files that may be modules; a line says what each other one is.

    A dump of XLA has many files besides modules. Raises HloError if no file is left.
    """
    from hlo.errors import HloError
    from hlo.io.archives import SAFETENSORS
    from hlo.io.module_files import foreign_file

    if len(files) < 2:
        return files
    kept = []
    for file in files:
        # Values of inputs have an error of their own.
        is_kept = file == "-" or file.endswith((".npy", ".npz", SAFETENSORS))
        if is_kept or (foreign := foreign_file(file)) is None:
            kept.append(file)
        else:
            note(f"{file}: skipped, it is {foreign.what}")
    if not kept:
        raise HloError.at("not-a-module", f"none of the {len(files)} files is a module")
    return tuple(kept)


def load(path: str, *, strict_math: bool = False) -> Module:
    """Return the module in a file, or on standard input for `-`."""
    from hlo.analysis.strict_math import ask_for_strict_math
    from hlo.frontends.sources import read_module

    module = read_module(*read_source(path))
    if strict_math:
        ask_for_strict_math(module)
    return module


# --- progress -----------------------------------------------------------------------------------

_PATIENCE_S = 1.0


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """Show a line with the time that has passed, from the first second on, on a terminal only."""
    _work.append(what)
    try:
        with _shown() if sys.stderr.isatty() else contextlib.nullcontext():
            yield
    finally:
        _work.pop()


# What `progress` is told is going on, the innermost last.
_work: list[str] = []


def tell(what: str) -> None:
    """Say what `progress` shows from now on."""
    if _work:
        _work[-1] = what


def current_work() -> str:
    """Return what is going on, or nothing."""
    return _work[-1] if _work else ""


@contextlib.contextmanager
def _shown() -> Iterator[None]:
    done = threading.Event()

    def show() -> None:
        start = time.monotonic()
        while not done.wait(_PATIENCE_S):
            passed = time.monotonic() - start
            click.echo(f"\r\x1b[K{current_work()} {passed:.0f} s", err=True, nl=False)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        click.echo("\r\x1b[K", err=True, nl=False)
