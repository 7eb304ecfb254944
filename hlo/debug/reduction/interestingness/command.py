"""A command that says whether a module is still wrong: by default it ends with exit status 0."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path

from hlo.debug.reduction.interestingness.values import Inputs, OnInputs
from hlo.debug.trace.leaves import write_inputs
from hlo.errors import HloError
from hlo.ir import Module

MODULE, INPUTS = "{}", "{inputs}"
MODULE_VARIABLE, INPUTS_VARIABLE = "HLO_FILE", "HLO_INPUTS"


class Command(OnInputs):
    """A shell command on the module's file, and on a file of its inputs.

    `{}` in the command is replaced by the module's file; without it the file is the last argument.
    Its path is in the variable HLO_FILE as well. `{inputs}` and HLO_INPUTS are an npz of the
    module's inputs, where some are given or the command names it. status: the exit status of a
    module that is still wrong.
    """

    def __init__(self, command: str, status: int = 0, inputs: Inputs | None = None) -> None:
        super().__init__(inputs)
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
        ended = self.exit_status(module, self.inputs)
        return f"exit status {self.status}" if ended == self.status else ""

    def _takes_inputs(self, inputs: Inputs) -> bool:
        named = INPUTS in self.command or INPUTS_VARIABLE in self.command
        return named or bool(inputs.known)

    def exit_status(self, module: Module, inputs: Inputs) -> int:
        """Write a module, and its inputs, to files, and return the command's exit status on them.

        A signal that ends it is the negative number. What it writes is dropped.
        """
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            path = Path(folder) / "module.hlo"
            path.write_text(str(module))
            line, file = self.command, shlex.quote(str(path))
            line = line.replace(MODULE, file) if MODULE in line else f"{line} {file}"
            variables = {MODULE_VARIABLE: str(path)}
            if self._takes_inputs(inputs):
                archive = str(Path(folder) / "inputs.npz")
                write_inputs(archive, module, inputs.of(module))
                line = line.replace(INPUTS, shlex.quote(archive))
                variables[INPUTS_VARIABLE] = archive
            ended = subprocess.run(
                ["/bin/sh", "-c", line], env={**os.environ, **variables},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                check=False,
            )  # fmt: skip
        return ended.returncode

    def __str__(self) -> str:
        inputs = f" on {self.inputs}" if self._takes_inputs(self.inputs) else ""
        return f"{self.command} = {self.status}{inputs}"


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
