"""Kernels that are more than a loop over independent elements: one file for each family."""

from hlo.codegen.kernels.conv import convolution
from hlo.codegen.kernels.fft import fft
from hlo.codegen.kernels.linalg import cholesky, triangular_solve
from hlo.codegen.kernels.matmul import contraction
from hlo.codegen.kernels.random import bits
from hlo.codegen.kernels.reduce import reduction, select_scatter, window
from hlo.codegen.kernels.sort import sorting, topk
from hlo.codegen.kernels.update import in_place, scatter
