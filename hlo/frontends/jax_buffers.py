"""What `jax.experimental.buffer_callback` calls: functions that write to their results' memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlo.errors import InferError
from hlo.ir import Instruction
from hlo.values.types import ArrayShape, TupleShape

# XLA's targets for such calls, on CPUs and GPUs.
_NAMES = ("xla_buffer_python_cpu_callback", "xla_buffer_python_gpu_callback")


def takes_buffers(target: str) -> bool:
    """Return whether functions of a target of custom calls write to memory of their results."""
    return target.startswith(_NAMES)


class Buffer:
    """An operand or result of a call, like `jax.experimental.buffer_callback.Buffer`."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    shape = property(lambda self: self._array.shape)
    dtype = property(lambda self: self._array.dtype)
    ndim = property(lambda self: self._array.ndim)
    writeable = property(lambda self: self._array.flags.writeable)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._array, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class Context:
    """What a function is told of its run, like JAX's `ExecutionContext`."""

    @property
    def stage(self) -> Any:
        """The stage of the run: functions are called when the program executes."""
        from jax.experimental.buffer_callback import ExecutionStage

        return ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """The stream of a GPU; a CPU has none. Raises JAX's error for it."""
        from jax.errors import JaxRuntimeError

        raise JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available")


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def on_buffers(call: Instruction, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function on arrays that returns what a function on buffers writes.

    function: `f(context, *operands, *results)`. A result that is an operand's memory starts as that
    operand, and both are one buffer.
    """
    shape = call.shape
    shapes = shape.elements if isinstance(shape, TupleShape) else (shape,)
    aliases = {(*a.output, 0)[0]: a.operand for a in call.output_to_operand_aliasing}

    def run(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        operands, results = list(arrays), []
        for index, result in enumerate(shapes):
            if not isinstance(result, ArrayShape):
                raise InferError("custom-call: a buffer is an array", code="type-mismatch")
            made = np.empty(result.dims, result.element_type.dtype)
            if index in aliases:
                made[...] = operands[aliases[index]]
                operands[aliases[index]] = _read_only(made)
            results.append(made)
        function(Context(), *map(Buffer, operands), *map(Buffer, results))
        return tuple(results)

    return run
