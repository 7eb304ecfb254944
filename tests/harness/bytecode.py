"""Portable artifacts of StableHLO as jaxlib writes and reads them: not where it may crash."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple


class Artifact(NamedTuple):
    """A module as text in MLIR's generic form, and as bytecode, by version of StableHLO."""

    text: str
    bytecode: dict[str, bytes]


VERSIONS = ("0.19.0", "1.0.0", "1.8.0")


@cache
def _context() -> Any:
    from jax._src.interpreters import mlir

    return mlir.make_ir_context()


def artifact(text: str, versions: tuple[str, ...] = VERSIONS) -> Artifact | None:
    """Return a module in all forms, None if jaxlib refuses its text.

    The current version is added to those given; a version too old for the module is left out.
    """
    from jaxlib import _jax
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    context = _context()
    with context:
        try:
            module = ir.Module.parse(text, context)
        except ir.MLIRError:
            return None
        generic = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
        found = {}
        for version in (*versions, stablehlo.get_current_version()):
            try:
                if "sdy." in generic:
                    # As JAX does: operations of Shardy stay as they are.
                    found[version] = _jax.mlir.serialize_portable_artifact(generic, version, True)
                else:
                    # Serialization converts the module in place.
                    module = ir.Module.parse(generic, context)
                    found[version] = stablehlo.serialize_portable_artifact(module, version)
            except (ValueError, RuntimeError):
                continue
        return Artifact(generic, found)


def newest() -> str:
    """Return the version of StableHLO that jaxlib has."""
    from jaxlib.mlir.dialects import stablehlo

    return str(stablehlo.get_current_version())


def serializes(text: str, version: str) -> bool:
    """Whether jaxlib writes a text as an artifact for a version."""
    if "chlo." not in text:
        made = artifact(text, (version,))
        return made is not None and version in made.bytecode
    # It writes operations of CHLO as composites.
    try:
        composed(text, version)
    except (ValueError, RuntimeError):
        return False
    return True


def composed(text: str, version: str = "1.0.0") -> bytes:
    """Return a text as jaxlib's artifact, with composites for operations of CHLO."""
    from jaxlib import _jax

    data: bytes = _jax.mlir.serialize_portable_artifact(text, version, False)
    return data


def deserialized(data: bytes) -> str:
    """Return an artifact as text in the generic form. Raises ValueError if jaxlib refuses it."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    context = _context()
    with context:
        try:
            module = stablehlo.deserialize_portable_artifact(context, data)
            module.operation.verify()
        except (ir.MLIRError, RuntimeError) as e:
            raise ValueError(str(e)) from None
        text: str = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    return text
