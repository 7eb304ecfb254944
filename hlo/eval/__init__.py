"""The reference interpreter."""

from hlo.eval.interpreter import (
    Interpreter,
    error_at,
    interpret,
    interpret_devices,
    run_values,
)
from hlo.host import Host

__all__ = ["Host", "Interpreter", "error_at", "interpret", "interpret_devices", "run_values"]


def __dir__() -> list[str]:
    return sorted(__all__)
