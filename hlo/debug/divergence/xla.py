"""XLA's CPU backend as a machine, by way of jaxlib."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.ir import Module


def need_xla() -> None:
    """Import all of it, and start nothing: forks can. Raises HloError without jax installed."""
    # XLA writes warnings and errors about itself to the terminal; fatal ones remain.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import jax._src.lax.linalg  # noqa: F401 (registers the LAPACK custom calls)
        import jaxlib._hlo
        import jaxlib._jax
        import jaxlib.xla_client  # noqa: F401
    except ImportError as e:
        raise HloError.at(
            "missing-extra", f"xla: {e}", hint="pip install 'hlo-tools[jax]'"
        ) from None


def runner() -> Callable[..., Any]:
    """Return what runs a module on values there. Raises HloError where jax is not installed."""
    need_xla()
    import jax
    import jaxlib._hlo
    import jaxlib.xla_client
    from jaxlib import _jax

    jax.config.update("jax_enable_x64", True)
    device = jax.devices("cpu")[0]
    devices = jaxlib.xla_client.DeviceList((device,))
    ready: dict[Module, Any] = {}

    def compiled(module: Module) -> Any:
        try:
            parsed = jaxlib._hlo.hlo_module_from_text(str(module))
            computation = jaxlib._hlo.XlaComputation(parsed.as_serialized_hlo_module_proto())
            text = _jax.mlir.xla_computation_to_mlir_module(computation)
            options = jaxlib.xla_client.CompileOptions()
            return device.client.compile_and_load(text, devices, options)
        except Exception as e:  # whatever XLA has against the module, in its words
            reason = str(e).strip().partition("\n")[0]
            raise HloError.at("xla-failed", f"XLA cannot compile {module.name}: {reason}") from None

    def run(module: Module, values: Sequence[Any]) -> Any:
        program = ready.get(module)
        if program is None:
            program = ready[module] = compiled(module)
        leaves = [leaf for value in values for leaf in _leaves(value)]
        buffers = [jax.device_put(a, device) for a in leaves]
        results = program.execute_sharded(buffers).disassemble_into_single_device_arrays()
        found = iter([np.asarray(r[0]) for r in results])
        return _nested(module.entry.result_shape, found)

    return run


def _leaves(value: Any) -> list[Any]:
    return [a for v in value for a in _leaves(v)] if isinstance(value, tuple) else [value]


def _nested(shape: Any, found: Any) -> Any:
    from hlo.values.types import TupleShape

    if isinstance(shape, TupleShape):
        return tuple(_nested(s, found) for s in shape.elements)
    return next(found)
