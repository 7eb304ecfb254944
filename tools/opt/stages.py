"""The stages of `hlo-opt --stage`: every form of a module from the text to machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo.codegen.pipeline import Observer, Program
    from hlo.ir import Module
    from hlo.objects.code import Code

# Name and description.
STAGES = {
    "parsed": "HLO as parsed",
    "hlo": "HLO after the passes, by default those of the default pipeline",
    "optimized": "the same as hlo",
    "hlo-backend": "HLO as code generation receives it: as hlo, without the fusion passes",
    "json": "the HloModuleProto after the passes, as JSON",
    "dot": "a graph of the HLO after the passes, for Graphviz",
    "html": "the same graph as a web page that opens offline: groups, search, costs, details",
    "model-explorer": "the same graph as JSON for Model Explorer",
    "flat": "one computation tree: calls inlined, operations expanded",
    "roles": "fusion: which instructions are kernels, and which are fused into them",
    "schedule": "execution order and live ranges",
    "kernels": "what each kernel computes and reads, its steps and scratch memory",
    "buffers": "buffers with offsets and live ranges",
    "buffer-assignment": "the same as buffers",
    "commands": "what the entry function does, in order, with the buffers of each step",
    "llvm-before-optimizations": "LLVM IR as generated",
    "llvm": "LLVM IR after LLVM's optimizations",
    "asm": "assembly",
    "obj": "an object file",
}
# What shows the HLO in another form.
_GRAPHS = ("dot", "html", "model-explorer", "json")
_SYMBOL = "hlo_entry"
# The module is valid as strictly as was asked for before.
_VERIFIED = "lenient"


def runs_passes(stage: str | None) -> bool:
    """True for stages that are reached through the default pipeline when no passes are named."""
    return stage is not None and stage != "parsed"


def is_hlo(stage: str | None) -> bool:
    return stage in (None, "parsed", "hlo", "optimized", "hlo-backend")


def is_compiled(stage: str | None) -> bool:
    """True for stages that show what code generation makes of a module, or takes."""
    return stage == "hlo-backend" or (
        stage is not None and not is_hlo(stage) and stage not in _GRAPHS
    )


def stage_content(module: Module, stage: str, target: str | None) -> bytes:
    """Return a module, on which passes have run, in the form of a stage that is not HLO."""
    from hlo.values.scan import to_bytes

    content = _FORMS[stage](module, target)
    return content if isinstance(content, bytes) else to_bytes(content)


def _json(module: Module, target: str | None) -> str:
    from hlo.frontends.proto import to_json

    return to_json(module)


def _dot(module: Module, target: str | None) -> str:
    from hlo.reports.graph import to_dot

    return to_dot(module)


def _html(module: Module, target: str | None) -> str:
    from hlo.reports.graph import to_html

    return to_html(module)


def _model_explorer(module: Module, target: str | None) -> str:
    from hlo.reports.graph import to_model_explorer

    return to_model_explorer(module)


def _of_codegen(wanted: str) -> Callable[[Module, str | None], str]:
    """Return what prints a stage of `hlo.codegen.pipeline`."""

    def form(module: Module, target: str | None) -> str:
        found: dict[str, str] = {}

        def observe(stage: str, text: Callable[[], str]) -> None:
            if stage == wanted:
                found[stage] = text()

        _emitted(module, target, observe=observe)
        return found[wanted]

    return form


def _llvm_before(module: Module, target: str | None) -> str:
    return _emitted(module, target, is_located=True).llvm


def _emitted(
    module: Module, target: str | None, *, is_located: bool = False,
    observe: Observer | None = None,
) -> Program:  # fmt: skip
    from hlo.compiler.lowering import Clock, emit
    from hlo.objects.targets import platform

    machine = platform(target).target
    return emit(
        module, _SYMBOL, machine, Clock(), is_located=is_located, passes="", verify=_VERIFIED,
        observe=observe,
    )  # fmt: skip


def _llvm(module: Module, target: str | None) -> str:
    return _code(module, target).write(".ll", "hlo").decode()


def _asm(module: Module, target: str | None) -> str:
    return _code(module, target).write(".s", "hlo").decode()


def _obj(module: Module, target: str | None) -> bytes:
    return _code(module, target).write(".o", "hlo")


def _code(module: Module, target: str | None) -> Code:
    from hlo.compiler.translation import translate
    from hlo.objects.targets import platform

    return translate(module, platform(target), _SYMBOL, passes="", verify=_VERIFIED)


_FORMS: dict[str, Callable[[Module, str | None], str | bytes]] = {
    "json": _json,
    "dot": _dot,
    "html": _html,
    "model-explorer": _model_explorer,
    **{name: _of_codegen(name) for name in ("flat", "roles", "kernels", "schedule", "commands")},
    "buffers": _of_codegen("buffers"),
    "buffer-assignment": _of_codegen("buffers"),
    "llvm-before-optimizations": _llvm_before,
    "llvm": _llvm,
    "asm": _asm,
    "obj": _obj,
}
