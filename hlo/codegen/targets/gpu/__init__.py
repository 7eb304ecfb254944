"""GPUs: grids of blocks of threads. A file for each maker, kernels that all of them have."""

from __future__ import annotations

from hlo.codegen.targets.gpu.amdgcn import AmdGcn
from hlo.codegen.targets.gpu.base import Gpu
from hlo.codegen.targets.gpu.nvptx import Nvptx

ARCHITECTURES: dict[str, type[Gpu]] = {gpu.name: gpu for gpu in (Nvptx, AmdGcn)}
