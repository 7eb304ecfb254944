"""XLA's platforms on the command line: what they mean here, and what would need another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .common import note

if TYPE_CHECKING:
    from hlo.errors import HloError

_GPU = frozenset({"gpu", "cuda", "rocm"})
_CPU = frozenset({"cpu", "host"})
_OTHERS = frozenset({"tpu", "sycl", "oneapi"})
_NONE = "transforms"
KNOWN = (_NONE, "cpu", "gpu", "CUDA", "ROCM", "Host")


def stage_of(platform: str | None, stage: str | None, passes: str | None) -> str | None:
    """Return the stage that is meant: a platform without passes stands for its pipeline, as in
    XLA's tool."""
    name = (platform or _NONE).lower()
    if stage is None and passes is None and name != _NONE:
        stage = "hlo"
    if name in _GPU and passes is None and stage is not None:
        note(f"note: --platform={name}: the passes are those of processors, not of GPUs")
    return stage


def target_of(platform: str | None, target: str | None, *, is_for_gpu: bool) -> str | None:
    """Return the triple that a platform stands for, where none is given; None is this machine's.

    is_for_gpu: what is asked for is of GPUs only.
    """
    name = (platform or _NONE).lower()
    if target is None and (is_for_gpu or name in _GPU):
        return "amdgcn" if name == "rocm" else "nvptx64"
    return target


def backend_of(platform: str) -> str:
    """Return what runs modules on a platform: `compiled`, `gpu` or `reference`.

    Raises HloError for what has other machines, UsageError for what there is not.
    """
    from hlo.errors import HloError

    name = platform.lower()
    if name == "interpreter":
        return "reference"
    if name in _CPU:
        return "compiled"
    if name in ("gpu", "cuda"):
        return "gpu"
    if name not in _GPU | _OTHERS:
        raise click.UsageError(f"unknown platform {platform!r}; use cpu, gpu or interpreter")
    raise HloError.at(
        "no-gpu", f"modules do not run on {platform} here",
        hint="--platform=cpu runs them on this processor, interpreter in the interpreter",
    )  # fmt: skip


def note_status(error: HloError) -> None:
    """Write what XLA's tool says of an error, for scripts that look for its words."""
    for diagnostic in error.diagnostics:
        if diagnostic.code == "unknown-pass":
            name = diagnostic.message.rpartition(" ")[2]
            note(f"INVALID_ARGUMENT: Pass {name} not found.")
