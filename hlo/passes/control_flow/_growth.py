"""How large a module grows when computations are copied to where they are called."""

from __future__ import annotations

from hlo.ir import Computation, Module

# Calls of computations that call others are copies of copies. What would have more instructions
# than this is not compiled either, and all passes would work on the copies.
_MAX_INSTRUCTIONS = 1_000_000
_COPIED = frozenset({"call", "conditional", "map"})


def grows_too_large(module: Module) -> bool:
    """True when a computation is too large with copies for its calls and for those in them.

    Of a conditional the largest branch counts.
    """
    sizes: dict[Computation, int] = {}
    for comp in module.callees_first():
        copied = (i.called_computations for i in comp if i.opcode in _COPIED)
        sizes[comp] = len(comp) + sum(max(sizes[c] for c in called) for called in copied)
        if sizes[comp] > _MAX_INSTRUCTIONS:
            return True
    return False
