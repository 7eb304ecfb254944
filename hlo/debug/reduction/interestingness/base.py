"""What a test is: it says what is wrong with a module, as long as there is something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hlo.errors import HloError
from hlo.ir import Module
from hlo.support.user_code import located
from hlo.verifier import verify


class Test(Protocol):
    """Says what is wrong with a module.

    It is called in a process of its own, which it may take down.
    """

    def prepare(self) -> None:
        """Import what calls need, so that each process has it from the start."""

    def check(self, module: Module) -> None:
        """Raise HloError for a module on which the test says nothing."""

    def wrong(self, module: Module) -> str:
        """Return what is wrong with a valid module, the same words for the same kind; or ""."""

    def __str__(self) -> str:
        """Return what identifies the test in the journal of a reduction."""


class ValidModules:
    """What tests of valid modules have in common."""

    def prepare(self) -> None:
        """Import nothing."""

    def check(self, module: Module) -> None:
        verify(module)


class Predicate(ValidModules):
    """A Python function: true if a module is still wrong."""

    def __init__(self, function: Callable[[Module], bool]) -> None:
        self._function = function

    def wrong(self, module: Module) -> str:
        """Return what is wrong. Raises HloError (`test-failed`) where the function raises."""
        try:
            return "it fails" if self._function(module) else ""
        except (HloError, MemoryError):
            raise
        except Exception as e:
            raise HloError.at("test-failed", f"the test {self} failed: {located(e)}") from e

    def __str__(self) -> str:
        return getattr(self._function, "__qualname__", type(self._function).__name__)


def problem(test: Test, module: Module) -> str:
    """Return what is wrong with a module by a test; "" for one that is not valid."""
    try:
        test.check(module)
    except HloError:
        return ""
    return test.wrong(module)
