"""Kernels that are more than a loop over independent elements: one file for each family."""

from hlo.codegen.kernels.chain import chain  # noqa: F401
from hlo.codegen.kernels.conv import convolution  # noqa: F401
from hlo.codegen.kernels.fft import fft  # noqa: F401
from hlo.codegen.kernels.linalg import cholesky, triangular_solve  # noqa: F401
from hlo.codegen.kernels.random import bits  # noqa: F401
from hlo.codegen.kernels.reduce import reduction, select_scatter, window  # noqa: F401
from hlo.codegen.kernels.sort import sorting, topk  # noqa: F401
from hlo.codegen.kernels.update import in_place, scatter  # noqa: F401
