"""XLA's debug options, `--xla_...=value`, on the command line of a command or in a file.

`XLA_FLAGS` in the environment holds more of them. Those about dumps are followed. The others steer
parts of XLA that are not here: they are named on standard error, and change nothing.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import note

if TYPE_CHECKING:
    from hlo.ir import Module
    from hlo.passes import Observer, PassRun, Step

_FLAG = re.compile(r"--?(xla_\w+)(?:=(.*))?", re.DOTALL)
_FILE = re.compile(r"--?debug_options_file=(.*)", re.DOTALL)
_LINE = re.compile(r'(xla_\w+)\s*:\s*(?:"(.*)"|(\S+))\s*')
_TO, _PASSES, _LARGE = "xla_dump_to", "xla_dump_hlo_pass_re", "xla_dump_large_constants"
_NO_METADATA, _SUGAR = "xla_dump_disable_metadata", "xla_syntax_sugar_async_ops"
_FOLLOWED = (_TO, _PASSES, _LARGE, _NO_METADATA, _SUGAR)
# XLA's name for a pipeline that consists of the passes asked for.
_PIPELINE = "transforms_pipeline"


@dataclass
class DebugOptions:
    """values: of the options that were given, by name, as text; a flag alone is `true`."""

    values: dict[str, str] = field(default_factory=dict)

    @classmethod
    def take(cls, args: Sequence[str]) -> tuple[DebugOptions, list[str]]:
        """Return the debug options among arguments of a command, and the other arguments.

        What the command line says goes before what the environment says, and that before a file.
        Raises HloError for a file that cannot be read, UsageError for a pattern that is none.
        """
        stated: dict[str, str] = {}
        given: dict[str, str] = {}
        rest: list[str] = []
        for arg in args:
            if found := _FLAG.fullmatch(arg):
                given[found[1]] = "true" if found[2] is None else found[2]
            elif found := _FILE.fullmatch(arg):
                stated |= _read(found[1])
            else:
                rest.append(arg)
        # The environment is for other programs too: what is not for us there goes without a note.
        options = cls(stated | _environment() | given)
        try:
            re.compile(options.values.get(_PASSES, ""))
        except re.error as e:
            raise click.UsageError(f"--{_PASSES}: {e}") from None
        unknown = [f"--{k}" for k in stated | given if k not in _FOLLOWED]
        if unknown:
            note(f"note: these change nothing here: {', '.join(unknown)}")
        return options, rest

    def print_changes(self) -> dict[str, Any]:
        """Return the fields of PrintOptions that are not XLA's default ones."""
        changes: dict[str, Any] = {}
        if self._is(_LARGE):
            changes["constant_limit"] = None
        if self._is(_NO_METADATA):
            changes["metadata"] = False
        if self.values.get(_SUGAR) == "false":
            changes["async_sugar"] = False
        return changes

    def _is(self, name: str) -> bool:
        return self.values.get(name) in ("true", "1")

    @property
    def dumps(self) -> bool:
        """True if modules are to be written."""
        return bool(self.values.get(_TO))

    def dump(self, module: Module, number: int) -> XlaDump | None:
        """Return what dumps a module as the options say, None if they do not.

        number: of the module in its file.
        """
        return XlaDump(self, module, number) if self.dumps else None


class XlaDump:
    """Writes a module before and after a pipeline, and each pass's result if asked for.

    The names of the files are those of XLA's tool.
    """

    def __init__(self, options: DebugOptions, module: Module, number: int) -> None:
        from hlo.frontends.text import PrintOptions
        from hlo.io.files import make_folder

        self._options, self._module = options, module
        self._folder = Path(options.values[_TO])
        self._stem = f"module_{number:04}.{re.sub(r'[^A-Za-z0-9._-]', '_', module.name)[:100]}"
        self._form = replace(PrintOptions.xla(), **options.print_changes())
        self._wanted = options.values.get(_PASSES)
        self._count = 0
        self._after = "pipeline-start"
        self._changed = True
        make_folder(self._folder)
        self._write("before_optimization.txt")
        self._write_options()

    def observers(self) -> list[Observer]:
        return [self] if self._wanted is not None else []

    def before(self, module: Module, step: Step) -> None:
        self._between(step.spec.name)

    def after(self, module: Module, run: PassRun) -> None:
        self._after, self._changed = run.name, run.changed

    def done(self) -> None:
        """Write what the pipeline left."""
        if self._wanted is not None:
            self._changed = True
            self._between("pipeline-end")
        self._write("after_optimization.txt")

    def _between(self, following: str) -> None:
        names = (_PIPELINE, self._after, following)
        if self._changed and any(re.search(self._wanted or "", name) for name in names):
            what = f"{_PIPELINE}.after_{self._after}.before_{following}"
            self._write(f"{self._count:04}.{what}.txt")
            self._count += 1

    def _write(self, what: str) -> None:
        from hlo.frontends.text import print_module
        from hlo.io.files import write_text

        write_text(self._folder / f"{self._stem}.{what}", print_module(self._module, self._form))

    def _write_options(self) -> None:
        from hlo.io.files import write_text

        values = self._options.values
        # As in XLA's file, what is about dumps comes last.
        names = sorted(values, key=lambda name: name in (_TO, _PASSES, _LARGE))
        lines = (f"{name}: {_quoted(values[name])}\n" for name in names)
        write_text(self._folder / f"{self._stem}.debug_options", "".join(lines))


def _environment() -> dict[str, str]:
    """Return the options in the environment: arguments, or the name of a file of them."""
    flags = os.environ.get("XLA_FLAGS", "")
    if flags.strip() and not flags.lstrip().startswith("-"):
        from hlo.io.files import decode, read_bytes

        flags = decode(read_bytes(flags.strip()), flags.strip())
    found = (_FLAG.fullmatch(word) for word in shlex.split(flags))
    return {m[1]: "true" if m[2] is None else m[2] for m in found if m is not None}


def _quoted(value: str) -> str:
    is_word = re.fullmatch(r"true|false|-?\d+(\.\d+)?|[A-Z][A-Z0-9_]*", value)
    return value if is_word else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read(path: str) -> dict[str, str]:
    """Return the options in a file of lines `name: value`."""
    from hlo.errors import HloError
    from hlo.io.files import decode, read_bytes

    found = {}
    for number, line in enumerate(decode(read_bytes(path), path).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise HloError.at("bad-file", f"{path}:{number}: not `name: value`: {line.strip()}")
        quoted = None if match[2] is None else re.sub(r"\\(.)", r"\1", match[2])
        found[match[1]] = match[3] if quoted is None else quoted
    return found
