"""Calls of vendors' libraries in optimized modules, as computations of plain operations.

XLA replaces products, convolutions, attention, normalizations, sorts and solves by custom calls of
cuBLAS, cuDNN, cuSOLVER, CUB and oneDNN, whose `backend_config` says the rest. `expand_call` gives
the computation that such a call stands for: interpreter, passes, code generation and costs all
take it from here. A target is one function with `library_call` above it, in the file of its family.
"""

# These register targets.
from hlo.library_calls import (  # noqa: F401
    attention,
    attention_gradient,
    conv_graph,
    convolution,
    gemm,
    norm,
    onednn,
    onednn_convolution,
    scratch,
    solve,
    sort,
    threefry,
)
from hlo.library_calls.call import (
    expand_call,
    is_library_target,
    is_scratch,
    keep_call,
    need_expansion,
)

__all__ = ["expand_call", "is_library_target", "is_scratch", "keep_call", "need_expansion"]


def __dir__() -> list[str]:
    return sorted(__all__)
