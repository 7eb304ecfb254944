"""Modules from the programs of other libraries."""

from __future__ import annotations

from typing import Any

from hlo.errors import HloError
from hlo.ir import Module
from hlo.proto import from_proto


def from_jax(function: Any, *args: Any, **kwargs: Any) -> Module:
    """Return the module that JAX makes of a function, called with these arguments.

    function: a Python function on arrays, one that `jax.jit` made, or what its `lower` returned,
    which has its arguments already. Arguments are arrays, `jax.ShapeDtypeStruct`s, or trees of
    them, and become parameters in the order of their leaves, with JAX's names for them; a jitted
    function leaves out those that it does not use. Errors of the function itself are JAX's.
    Raises HloError, code `missing-extra`, where JAX is not installed.
    """
    try:
        import jax
    except ImportError:
        raise HloError.at(
            "missing-extra", "from_jax needs JAX, which is not installed", None,
            "pip install 'hlo-tools[jax]'",
        ) from None  # fmt: skip
    lowered = function
    if not hasattr(function, "compiler_ir"):
        jitted = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True)
        lowered = jitted.lower(*args, **kwargs)
    elif args or kwargs:
        raise TypeError("a lowered program has its arguments already")
    computation = lowered.compiler_ir(dialect="hlo")
    module = from_proto(computation.as_serialized_hlo_module_proto(), "JAX's program")
    entry = module.entry
    for parameter in entry.parameters:
        # The number that XLA adds to make names unique says nothing where they are already.
        base, _, number = parameter.name.rpartition(".")
        if base and number.isdecimal() and entry.get(base) is None:
            entry.rename(parameter, base)
    return module
