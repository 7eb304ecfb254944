"""Reductions of rows, and what needs their results for the same rows, as one kernel."""

from __future__ import annotations

from hlo.analysis.effects import Effects
from hlo.analysis.fusion.rows import absorb_rows
from hlo.ir import Module
from hlo.ir.calls import Calls
from hlo.passes.fusion._build import FusionBuilder, fusible_computations
from hlo.passes.fusion._kernels import inlined, with_constants
from hlo.passes.registry import module_pass
from hlo.passes.rewrites import Rewrites


@module_pass
def row_fusion(module: Module, rewrites: Rewrites) -> None:
    """Fuse loops over the same rows: row reductions into their users.

    A softmax or a normalization is such a chain: a row is reduced, changed by the result, and
    reduced again. One kernel does all of that to a row while it is in the cache, and then takes the
    next one. The rules are those of code generation: many rows, contiguous, of moderate length.
    """
    calls, effects = Calls(module), Effects()
    for comp in fusible_computations(module):
        flat = inlined(comp, rewrites)
        roles = dict(flat.roles)
        absorb_rows(flat.computation, roles)
        if roles == flat.roles:
            continue
        builder = FusionBuilder(comp, calls, effects)
        for root, parts in flat.kernels(roles):
            is_one = sum(p.opcode != "constant" for p in parts) == 1
            if not is_one and rewrites.allow("row_fusion", root):
                builder.fuse(with_constants(parts), [root])
        builder.finish()
