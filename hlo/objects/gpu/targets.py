"""GPUs by their names on the command line: `nvptx64` and `sm_90`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hlo.codegen.targets.gpu import ARCHITECTURES, Gpu
from hlo.errors import HloError, did_you_mean
from hlo.gpu.model import DEVICES

# Output formats by file suffix: of every GPU, and of those that the C launcher drives.
_KINDS = {".ll": "LLVM IR", ".s": "assembly"}
_CUDA_KINDS = {
    ".ptx": "PTX",
    ".cubin": "machine code",
    ".c": "C source that runs the program",
    ".o": "object file of that",
    ".a": "archive of that",
}
# Later than any.
_LAST_CAPABILITY = 9999


@dataclass(frozen=True)
class GpuPlatform:
    """A GPU as a target. target: in the terms of code generation."""

    target: Gpu

    @property
    def kinds(self) -> Mapping[str, str]:
        """What can be written for it, by the end of a file's name."""
        return {**_CUDA_KINDS, **_KINDS} if self.is_cuda else _KINDS

    @property
    def is_cuda(self) -> bool:
        """True for what the CUDA driver runs."""
        return self.target.name == "nvptx64"

    def capabilities(self, *, is_machine_code: bool) -> tuple[int, int]:
        """Return ten times the compute capability of the first and last device that runs the code.

        PTX runs on later devices too, machine code and `f` models on those of the family, `a`
        models on the very one.
        """
        cpu = self.target.cpu
        first = int("".join(c for c in cpu if c.isdigit()))
        if cpu.endswith("a"):
            return first, first
        if cpu.endswith("f") or is_machine_code:
            return first, first // 10 * 10 + 9
        return first, _LAST_CAPABILITY


def _hint(name: str, arch: type[Gpu]) -> str:
    """Return what may have been meant by a model that there is not."""
    if name.lower() in arch.models:
        return f"--cpu {name.lower()}"
    known = DEVICES.get(name.lower())
    if known is not None and known.cpu in arch.models:
        return f"--cpu {known.cpu}, for the {known.name}"
    if 0 < _number(name) < _number(arch.models[0]):
        return f"{arch.models[0]} is the oldest that is supported"
    return did_you_mean(name, arch.models) or f"there are {', '.join(arch.models)}"


def _number(model: str) -> int:
    """Return the number in the name of a model, 0 for none."""
    found = re.match(r"[a-z]+_?(\d+)", model)
    return int(found[1]) if found else 0


def is_gpu(triple: str | None) -> bool:
    """True for a triple of a GPU: `nvptx64`, `nvptx64-nvidia-cuda`."""
    return triple is not None and triple.split("-")[0].lower() in ARCHITECTURES


def gpu_platform(triple: str, cpu: str | None = None, features: str = "") -> GpuPlatform:
    """Return a GPU by LLVM's names.

    cpu: the model, `sm_90`; by default, and for `generic`, the oldest one that is supported, whose
    PTX later ones run too. Raises HloError.
    """
    arch = ARCHITECTURES[triple.split("-")[0].lower()]
    full = arch.triple
    if triple.lower() not in (arch.name, full):
        raise HloError.at(
            "bad-target", f"target {triple!r}: this GPU's triple is {full}, {arch.name} for short"
        )
    if features.strip():
        raise HloError.at(
            "bad-target", f"features {features!r}: what a GPU has, --cpu says",
            hint=f"--cpu {arch.models[0]}",
        )  # fmt: skip
    name = arch.models[0] if cpu in (None, "generic") else str(cpu)
    if name not in arch.models:
        wrong = "for GPUs one model is named" if "," in name else "no model of this name"
        raise HloError.at("bad-target", f"cpu {name!r}: {wrong}", hint=_hint(name, arch))
    return GpuPlatform(arch(name))
