"""XLA's CPU backend as a machine, by way of jaxlib."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo.debug.divergence.xla_callbacks import callbacks_of
from hlo.errors import HloError
from hlo.expansions import Draft
from hlo.host import Host
from hlo.ir import Computation, Instruction, Module
from hlo.passes import Rewrites
from hlo.passes.expand._inline import expand_instructions
from hlo.passes.registry import find_pass
from hlo.values.arrays import TOKEN_VALUE
from hlo.values.layout.bitcasts import is_order, layout_of
from hlo.values.types import array

# What stands for a token among arguments.
_TOKEN = np.zeros(0, bool)


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


def runner(host: Host | None = None) -> Callable[..., Any]:
    """Return what runs a module on values there. Raises HloError where jax is not installed.

    host: has functions for JAX's callbacks, besides those of the module.
    """
    need_xla()
    import jax
    import jaxlib._hlo
    import jaxlib.xla_client
    from jax._src.interpreters.mlir import make_ir_context
    from jax._src.lax.linalg import initialize_lapack
    from jaxlib import _jax
    from jaxlib.mlir import ir

    device = jax.devices("cpu")[0]
    initialize_lapack()  # its calls end the process otherwise
    devices = jaxlib.xla_client.DeviceList((device,))
    ready: dict[Module, Any] = {}

    def compiled(module: Module) -> Any:
        callbacks = callbacks_of(module, host or Host())
        try:
            parsed = jaxlib._hlo.hlo_module_from_text(str(_without_layouts(module)))
            computation = jaxlib._hlo.XlaComputation(parsed.as_serialized_hlo_module_proto())
            text = _jax.mlir.xla_computation_to_mlir_module(computation)
            options = jaxlib.xla_client.CompileOptions()
            if not callbacks:
                return device.client.compile_and_load(text, devices, options)
            with make_ir_context():
                return device.client.compile_and_load(
                    ir.Module.parse(text), devices, options, callbacks
                )
        except Exception as e:  # whatever XLA has against the module, in its words
            reason = str(e).strip().partition("\n")[0]
            raise HloError.at("xla-failed", f"XLA cannot compile {module.name}: {reason}") from None

    def run(module: Module, values: Sequence[Any]) -> Any:
        program = ready.get(module)
        if program is None:
            program = ready[module] = compiled(module)
        leaves = [leaf for value in values for leaf in _leaves(value)]
        with jax.enable_x64(True):  # 64 bits are kept here, and JAX's setting is the caller's
            buffers = [jax.device_put(_TOKEN if a is TOKEN_VALUE else a, device) for a in leaves]
        results = program.execute_sharded(buffers).disassemble_into_single_device_arrays()
        # Those of tokens hold nothing, and cannot be read.
        shapes = [shape for _, shape in module.entry.result_shape.leaves()]
        found = iter([
            TOKEN_VALUE if shape.is_token else np.asarray(r[0])
            for shape, r in zip(shapes, results, strict=True)
        ])  # fmt: skip
        return _nested(module.entry.result_shape, found)

    return run


def _without_layouts(module: Module) -> Module:
    """Return a copy without fusions and bitcasts, for which XLA needs layouts.

    MLIR, in which XLA takes the module, has none: XLA aborts on a fusion without them, and refuses
    the bitcasts.
    """
    module = module.clone()
    rewrites = Rewrites()
    find_pass("defuser").run(module, {}, rewrites)
    expand_instructions(module, rewrites, "xla.bitcast", ["bitcast"], _bitcast)
    return module


def _bitcast(inst: Instruction) -> Computation | None:
    """Return a bitcast as transposes and a reshape of the dimensions as they are in memory."""
    before, after = inst.operands[0].array_shape, inst.array_shape
    if not (is_order(before) and is_order(after)) or before.is_dynamic or after.is_dynamic:
        return None
    if before.element_type != after.element_type:
        return None
    d = Draft(inst)
    (x,) = d.parameters
    order = layout_of(before).minor_to_major[::-1]
    target = layout_of(after).minor_to_major[::-1]
    rows = d.op("transpose", x, dimensions=order)
    sizes = [after.dims[i] for i in target]
    rows = d.op("reshape", rows, shape=array(after.element_type, sizes))
    back = [target.index(i) for i in range(after.rank)]
    return d.done(d.op("transpose", rows, shape=after, dimensions=back))


def _leaves(value: Any) -> list[Any]:
    return [a for v in value for a in _leaves(v)] if isinstance(value, tuple) else [value]


def _nested(shape: Any, found: Any) -> Any:
    from hlo.values.types import TupleShape

    if isinstance(shape, TupleShape):
        return tuple(_nested(s, found) for s in shape.elements)
    return next(found)
