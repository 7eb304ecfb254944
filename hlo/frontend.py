"""Modules from the programs of other libraries."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from hlo.errors import HloError
from hlo.ir import Module
from hlo.proto import from_proto


def from_jax(function: Any, *args: Any, **kwargs: Any) -> Module:
    """Return the module that JAX makes of a function, called with these arguments.

    function: a Python function on arrays, one that `jax.jit` made, or one that was exported.
    Arguments are arrays, `jax.ShapeDtypeStruct`s, or trees of them, and become parameters in the
    order of their leaves, with JAX's names for them; a jitted function leaves out those that it
    does not use. What `trace`, `lower` and `compile` return has its arguments already, as an
    exported function has if none are given here; of what was compiled it is the module after XLA's
    optimizations. Errors of the function itself are JAX's. Raises TypeError for what is no
    function, HloError for a program that is no HLO, for arguments at which JAX itself fails, and,
    code `missing-extra`, without JAX.
    """
    try:
        import jax
        import jax.export
    except ImportError:
        raise HloError.at(
            "missing-extra", "from_jax needs JAX, which is not installed", None,
            "pip install 'hlo-tools[jax]'",
        ) from None  # fmt: skip
    if isinstance(function, jax.export.Exported):
        if not args and not kwargs:
            specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in function.in_avals]
            args, kwargs = jax.tree.unflatten(function.in_tree, specs)
        function = function.call
    stages = jax.stages
    if isinstance(function, stages.Traced | stages.Lowered | stages.Compiled):
        if args or kwargs:
            raise TypeError(f"a {type(function).__name__} program has its arguments already")
        program = function.lower() if isinstance(function, stages.Traced) else function
    elif callable(function):
        jitted = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True)
        program = _lowered(function, jitted, args, kwargs)
    else:
        raise TypeError(f"from_jax takes a function, not {type(function).__name__}")
    module = from_proto(_hlo_of(program), "JAX's program")
    entry = module.entry
    for parameter in entry.parameters:
        # The number that XLA adds to make names unique says nothing where they are already.
        base, _, number = parameter.name.rpartition(".")
        if base and number.isdecimal() and entry.get(base) is None:
            entry.rename(parameter, base)
    return module


def _lowered(function: Any, jitted: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what JAX lowers. Raises HloError where its own code fails before the function runs."""
    try:
        return jitted.lower(*args, **kwargs)
    except (OverflowError, SystemError) as e:
        code = getattr(inspect.unwrap(function), "__code__", None)
        if any(frame.f_code is code for frame, _ in traceback.walk_tb(e.__traceback__)):
            raise
        said = (str(e.__cause__ or e) or type(e).__name__).splitlines()[0]
        message = f"from_jax: JAX does not take the arguments: {said}"
        raise HloError.at("bad-value", message) from None


def _hlo_of(program: Any) -> bytes:
    """Return the HloModuleProto of what JAX lowered or compiled. Raises HloError."""
    import jax

    if isinstance(program, jax.stages.Compiled):
        executable = program.runtime_executable()
        modules = executable.hlo_modules() if executable is not None else []
        if len(modules) != 1:
            raise HloError.at(
                "unsupported", f"the compiled program has {len(modules)} modules, one is needed"
            )
        return bytes(modules[0].as_serialized_hlo_module_proto())
    try:
        return bytes(program.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto())
    except jax.errors.JaxRuntimeError as e:
        # Sizes that are not known yet, for example. What follows are places in JAX's own text.
        raise HloError.at("unsupported", f"JAX's program is no HLO: {str(e).splitlines()[0]}",
                          None, "sizes of arrays have to be numbers") from None  # fmt: skip
