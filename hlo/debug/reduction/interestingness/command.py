"""A command that says whether a module is still wrong: by default it ends with exit status 0."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path

from hlo.debug.reduction.interestingness.base import ValidModules
from hlo.errors import HloError
from hlo.ir import Module

PLACE = "{}"
VARIABLE = "HLO_FILE"


class Command(ValidModules):
    """A shell command on the module's file.

    The file's path takes the place of `{}`; without one it is the last argument. It is in the
    variable HLO_FILE as well. status: the exit status of a module that is still wrong.
    """

    def __init__(self, command: str, status: int = 0) -> None:
        self.command, self.status = command, status
        program = _program(command)
        if program and shutil.which(program) is None:
            raise HloError.at(
                "bad-command", f"there is no command {program}",
                hint=f"a script in this folder is ./{program}" if os.path.exists(program) else None,
            )  # fmt: skip
        # Tests that are ended leave their files in it.
        self._folder = tempfile.mkdtemp(prefix="hlo-reduce-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def wrong(self, module: Module) -> str:
        return f"exit status {self.status}" if self.ended(module) == self.status else ""

    def ended(self, module: Module) -> int:
        """Write a module to a file of its own and run the command on it; returns its exit status.

        A signal that ends it is the negative number. What it writes is dropped.
        """
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            path = Path(folder) / "module.hlo"
            path.write_text(str(module))
            file = shlex.quote(str(path))
            command = self.command
            line = command.replace(PLACE, file) if PLACE in command else f"{command} {file}"
            ended = subprocess.run(
                ["/bin/sh", "-c", line], env={**os.environ, VARIABLE: str(path)},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                check=False,
            )  # fmt: skip
        return ended.returncode

    def __str__(self) -> str:
        return f"{self.command} = {self.status}"


def _program(command: str) -> str:
    """Return the program of a plain command; "" for what only a shell understands."""
    try:
        words = shlex.split(command)
    except ValueError as e:
        raise HloError.at("bad-command", f"{command!r}: {e}") from None
    if not words:
        raise HloError.at("bad-command", "the command is empty")
    if any(c in command for c in "|&;<>()$`\\\"'*?[#~=%!\n") or words[0] in _OF_THE_SHELL:
        return ""
    return words[0]


_OF_THE_SHELL = frozenset("if for while case { ! cd test [ export set unset exec eval".split())
