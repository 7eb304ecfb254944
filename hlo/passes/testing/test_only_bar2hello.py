"""Names of instructions, for tests of tools."""

from __future__ import annotations

from hlo.ir import Module
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites
from hlo.passes.testing._rename import rename_all


@module_pass
def test_only_bar2hello(module: Module, rewrites: Rewrites) -> None:
    """Rename instructions called `bar` to `hello`."""
    rename_all(module, rewrites, "test_only_bar2hello", "bar", "hello")
