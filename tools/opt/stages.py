"""The stages of `hlo-opt --stage`: every form of a module from the text to machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef

    from hlo.codegen.targets.base import LlvmTarget
    from hlo.compiler.translation import Machines
    from hlo.ir import Module
    from hlo.objects.code import Code
    from hlo.objects.gpu.code import GpuCode

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
    "launches": "for GPUs: what the host does, in order, with the memory of each step",
    "ptx": "for GPUs of NVIDIA: the kernels in PTX",
}
# The extensions of files that a stage other than HLO is written to.
_DOT, _JSON, _LLVM = (".dot", ".gv"), (".json",), (".ll",)
_EXTENSIONS = {
    "dot": _DOT, "html": (".html", ".htm"), "json": _JSON, "model-explorer": _JSON,
    "llvm-before-optimizations": _LLVM, "llvm": _LLVM, "asm": (".s", ".asm"), "ptx": (".ptx",),
}  # fmt: skip
_OBJECT = (".o", ".obj")
# What only GPUs have.
GPU_STAGES = ("launches", "ptx")
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


def extensions(stage: str | None) -> tuple[str, ...]:
    """Return the extensions of files that a stage may be written to."""
    from hlo.io.formats import MODULES

    if is_hlo(stage):
        return MODULES
    return _OBJECT if stage == "obj" else (*_EXTENSIONS.get(str(stage), ()), ".txt")


def is_compiled(stage: str | None) -> bool:
    """True for stages that show what code generation makes of a module, or takes."""
    return stage == "hlo-backend" or (
        stage is not None and not is_hlo(stage) and stage not in _GRAPHS
    )


@dataclass(frozen=True)
class Machine:
    """What code is for: a triple, by default that of this machine, and a processor or GPU."""

    triple: str | None = None
    cpu: str | None = None

    @cached_property
    def found(self) -> Machines:
        """The target of these names. Raises HloError."""
        from hlo.compiler.translation import machines_of

        return machines_of(self.triple, self.cpu or (None if self.triple else "native"), "")

    @property
    def target(self) -> LlvmTarget:
        """The same, as code generation sees it."""
        return self.found[-1].target if isinstance(self.found, Sequence) else self.found.target


def stage_content(module: Module, stage: str, machine: Machine) -> bytes:
    """Return a module, on which passes have run, in the form of a stage that is not HLO."""
    from hlo.values.scan import to_bytes

    content = _FORMS[stage](module, machine)
    return content if isinstance(content, bytes) else to_bytes(content)


def _json(module: Module, machine: Machine) -> str:
    from hlo.frontends.proto import to_json

    return to_json(module)


def _dot(module: Module, machine: Machine) -> str:
    from hlo.reports.graph import to_dot

    return to_dot(module)


def _html(module: Module, machine: Machine) -> str:
    from hlo.reports.graph import to_html

    return to_html(module)


def _model_explorer(module: Module, machine: Machine) -> str:
    from hlo.reports.graph import to_model_explorer

    return to_model_explorer(module)


def _of_codegen(wanted: str) -> Callable[[Module, Machine], str]:
    """Return what prints a stage of `hlo.codegen.pipeline`."""

    def form(module: Module, machine: Machine) -> str:
        found: dict[str, str] = {}

        def observe(stage: str, text: Callable[[], str]) -> None:
            if stage == wanted:
                found[stage] = text()

        from hlo.compiler.lowering import Clock, plan

        plan(module, machine.target, Clock(), passes="", verify=_VERIFIED, observe=observe)
        return found[wanted]

    return form


def _llvm_before(module: Module, machine: Machine) -> str:
    from hlo.compiler.lowering import Clock, emit

    if not isinstance(machine.found, Sequence):
        return _gpu_code(module, machine).module.to_text()
    return emit(
        module, _SYMBOL, machine.target, Clock(), is_located=True, passes="", verify=_VERIFIED
    ).llvm


def _llvm(module: Module, machine: Machine) -> str:
    if isinstance(machine.found, Sequence):
        return str(_optimized(module, machine))
    return _code(module, machine).write(".ll", "hlo").decode()


def _asm(module: Module, machine: Machine) -> str:
    if isinstance(machine.found, Sequence):
        return machine.found[-1].machine.assembly(_optimized(module, machine))
    return _code(module, machine).write(".s", "hlo").decode()


def _optimized(module: Module, machine: Machine) -> ModuleRef:
    """Return the entry function and the kernels, without what `hlo-compile` adds for C."""
    from hlo.compiler.lowering import Clock, emit

    assert isinstance(machine.found, Sequence)
    program = emit(module, _SYMBOL, machine.target, Clock(), passes="", verify=_VERIFIED)
    program.module.source_name = module.name
    return machine.found[-1].machine.optimize(program.llvm)


def _obj(module: Module, machine: Machine) -> bytes:
    is_gpu = not isinstance(machine.found, Sequence)
    return _code(module, machine).write(_suffix(machine, ".cubin" if is_gpu else ".o"), "hlo")


def _ptx(module: Module, machine: Machine) -> str:
    return _gpu_code(module, machine).write(_suffix(machine, ".ptx"), "hlo").decode()


def _launches(module: Module, machine: Machine) -> str:
    from hlo.gpu.text import plan_text

    return plan_text(_gpu_code(module, machine).plan)


def _suffix(machine: Machine, suffix: str) -> str:
    """Return the suffix of what is to be written. Raises HloError if the machine has no such."""
    from hlo.compiler.translation import kinds_of
    from hlo.errors import HloError

    if suffix not in kinds_of(machine.found):
        raise HloError.at("bad-target", f"target {machine.triple}: it has no {suffix[1:]}")
    return suffix


def _code(module: Module, machine: Machine) -> Code | GpuCode:
    from hlo.compiler.translation import translated

    return translated(module, machine.found, _SYMBOL, passes="", verify=_VERIFIED)


def _gpu_code(module: Module, machine: Machine) -> GpuCode:
    from hlo.errors import HloError
    from hlo.objects.gpu.code import GpuCode

    code = _code(module, machine) if machine.triple is not None else None
    if not isinstance(code, GpuCode):
        raise HloError.at(
            "bad-target", f"target {machine.triple or 'of this machine'}: it is no GPU",
            hint="--target nvptx64",
        )  # fmt: skip
    return code


_FORMS: dict[str, Callable[[Module, Machine], str | bytes]] = {
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
    "launches": _launches,
    "ptx": _ptx,
}
