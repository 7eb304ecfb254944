"""A process that dies: of a signal, or by an error of the program itself."""

from __future__ import annotations

import os
import signal
import sys

from hlo.debug.reduction.interestingness.command import Command
from hlo.debug.reduction.interestingness.values import Inputs, OnInputs, need_one_device
from hlo.errors import HloError
from hlo.ir import Module

# The exit status of our commands, and of LLVM's tools, for what is a bug of theirs; the shell adds
# the number of a signal to 128.
_BUG, _SIGNAL = 3, 128


class Crashes(OnInputs):
    """A module on which a process dies, or ends with exit status 3.

    command: a shell command on the module's file, as of `Command`; by default the module is
    compiled and run as `hlo-run` does, on inputs.
    """

    def __init__(
        self, command: str = "", inputs: Inputs | None = None, passes: str = "default"
    ) -> None:
        self._command, self._passes = Command(command) if command else None, passes
        super().__init__(inputs)

    def check(self, module: Module) -> None:
        super().check(module)
        if self._command is None:
            need_one_device(module)

    def wrong(self, module: Module) -> str:
        if self._command is not None:
            status = self._command.exit_status(module, self.inputs)
            if status > _SIGNAL:
                status = _SIGNAL - status
        else:
            return _ended(module, self.inputs, self._passes)
        if status < 0:
            return _signal(-status)
        return "an internal error" if status == _BUG else ""

    def __str__(self) -> str:
        how = self._passes if self._command is None else self._command.command
        return f"crash {how} {self.inputs}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _ended(module: Module, inputs: Inputs, passes: str) -> str:
    """Compile and run a module in a process of its own; returns how that died, or ""."""
    outlet, inlet = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(outlet)
        _run_and_exit(module, inputs, passes, inlet)
    os.close(inlet)
    with os.fdopen(outlet, "rb") as pipe:
        said = pipe.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return _signal(-status) if status < 0 else said


def _run_and_exit(module: Module, inputs: Inputs, passes: str, inlet: int) -> None:
    said = ""
    try:
        from hlo.compiler.pipeline import compile

        compile(module, cache=False, threads=1, passes=passes)(*inputs.of(module))
    except (HloError, MemoryError):
        pass  # an error of the module, or of the machine, that is told
    except Exception as e:  # what commands call an internal error
        said = f"{type(e).__name__} in {_place(sys.exc_info()[2])}"
    os.write(inlet, said.encode())
    os._exit(0)


def _place(trace: object) -> str:
    """Return the function that an exception comes from."""
    while getattr(trace, "tb_next", None) is not None:
        trace = trace.tb_next  # type: ignore[attr-defined]
    code = trace.tb_frame.f_code  # type: ignore[attr-defined]
    return f"{os.path.basename(code.co_filename)}:{code.co_name}"
