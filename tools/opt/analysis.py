"""The signature of a module, as `hlo-opt --signature` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo.ir import Module


def signature(module: Module) -> dict[str, Any]:
    """Return names and shapes of the entry's parameters, and the shape of its result."""
    shapes, result = module.program_shapes
    named = zip(module.entry.parameters, shapes, strict=True)
    return {
        "module": module.name,
        "entry": module.entry.name,
        "parameters": [{"name": p.name, "shape": str(s)} for p, s in named],
        "result": str(result),
    }


def signature_text(found: dict[str, Any]) -> str:
    """Return a signature as lines."""
    lines = [f"{found['module']}: {found['entry']}"]
    lines += [f"  {n:4}  {p['name']}: {p['shape']}" for n, p in enumerate(found["parameters"])]
    return "\n".join([*lines, f"  ->    {found['result']}"])
