"""One LLVM module of a program for several processors, and of the functions that choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm

from hlo.llvm import LlvmModule
from hlo.objects.parsing import parsed_for
from hlo.objects.processor import instructions
from hlo.objects.targets import Platform

_LOCAL = (llvm.Linkage.internal, llvm.Linkage.private)


@dataclass(frozen=True)
class Version:
    """A program for a processor. entry: the name of its function."""

    platform: Platform
    module: LlvmModule
    entry: str


def joined(
    front: LlvmModule, choice: str, versions: Sequence[Version], base: Platform
) -> llvm.ModuleRef:
    """Return the optimized module of all versions, and of what calls them.

    front: the exported functions, which any processor runs as code for `base`. choice: in LLVM IR,
    how they choose, see `processor.choice`; empty if they do not.
    """
    whole = base.machine.optimize(front.to_text() + choice)
    for version in versions:
        if version.platform is not base:
            _require(version.module, version.platform)
        module = version.platform.machine.optimize(version.module.to_text())
        if len(versions) > 1:
            _rename_locals(module, version.platform.symbol_suffix)
        whole.link_in(module)
        whole.get_function(version.entry).linkage = "internal"
    if choice:
        added = parsed_for(whole, instructions(base, choice))
        names = [f.name for f in added.functions]
        whole.link_in(added)
        for name in names:
            whole.get_function(name).linkage = "internal"
    return whole


def _require(module: LlvmModule, platform: Platform) -> None:
    """Have all functions of a module say for which processor they are."""
    machine = platform.machine
    number = len(module.attribute_groups)
    module.attribute_groups.append(
        f'"target-cpu"="{machine.cpu}" "target-features"="{machine.features}"'
    )
    for function in list(module.functions.values()):
        module.add(function.replace(attributes=(*function.attributes, f"#{number}")))


def _rename_locals(module: llvm.ModuleRef, suffix: str) -> None:
    """Give the local symbols of a version names that those of others do not have."""
    for value in (*module.functions, *module.global_variables):
        if value.linkage in _LOCAL and not value.is_declaration:
            value.name = f"{value.name}.{suffix}"
