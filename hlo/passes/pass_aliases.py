"""What passes are called in other compilers, for hints on unknown names."""

from __future__ import annotations

import difflib

# Our passes, and the names of the same ones elsewhere: XLA's classes, LLVM, MLIR and others.
_ALIASES = {
    "algsimp": "algebraic-simplifier algebraic-simplify algebra simplify simplifier instcombine "
    "inst-combine instsimplify aggressive-instcombine canonicalize canonicalizer peephole "
    "combine strength-reduction reassociate",
    "batchnorm-expander": "batch-norm batchnorm",
    "call-inliner": "inline inliner always-inline inlining inline-calls",
    "computation-deduplicator": "dedup deduplicate mergefunc merge-functions "
    "duplicate-function-elimination",
    "conditional-to-select": "if-conversion select-conversion",
    "constant-folding": "fold folding constant-fold constant-propagation constprop const-prop "
    "ipsccp sccp constant-folder",
    "copy-insertion": "copies insert-copies",
    "cse": "gvn early-cse newgvn hlo-cse common-subexpression-elimination gvn-hoist "
    "value-numbering",
    "dce": "adce bdce dead-code-elimination die globaldce symbol-dce hlo-dce remove-dead-values",
    "dot-decomposer": "dot-general-decomposer",
    "flatten-call-graph": "flatten clone-computations",
    "fusion": "instruction-fusion cpu-instruction-fusion gpu-instruction-fusion priority-fusion "
    "loop-fusion fuse elementwise-fusion linalg-fuse-elementwise-ops",
    "hlo-memory-scheduler": "scheduler schedule memory-scheduler hlo-scheduler list-scheduler",
    "latency-hiding-scheduler": "lhs overlap",
    "layout-assignment": "layout layouts cpu-layout-assignment gpu-layout-assignment",
    "logistic-expander": "sigmoid-expander",
    "multi-output-fusion": "mof sibling-fusion",
    "rematerialization": "remat hlo-rematerialization recompute checkpointing",
    "scatter-expander": "scatter-to-while",
    "sharding-propagation": "propagate-shardings gspmd sdy-propagation shardy-propagation",
    "simplify-conditional": "simplifycfg simplify-cfg conditional-simplifier branch-folding",
    "simplify-sorts": "sort-simplifier",
    "simplify-while-loops": "while-loop-simplifier loop-simplify loop-simplifycfg indvars "
    "loop-deletion",
    "spmd-partitioning": "spmd spmd-partitioner partition partitioner partitioning",
    "transpose-folding": "fold-transposes",
    "tuple-simplifier": "sroa mem2reg scalarrepl tuple-simplify",
    "while-loop-constant-sinking": "constant-sinking",
    "while-loop-invariant-code-motion": "licm loop-invariant-code-motion invariant-code-motion "
    "hoist-loop-invariants loop-hoist",
    "while-loop-unroller": "unroll unroller loop-unroll loop-unroller loop-unroll-full "
    "unroll-loops",
}
_BY_ALIAS = {
    alias.replace("-", "_"): name for name, aliases in _ALIASES.items() for alias in aliases.split()
}


def hint_of(key: str) -> str | None:
    """Return a hint for the name of a pass elsewhere, in lower case with underscores.

    A slip of the pen in a longer name is forgiven.
    """
    name = _BY_ALIAS.get(key.removesuffix("_pass").removeprefix("hlo_")) or _BY_ALIAS.get(key)
    if name is None:
        name = next(map(_BY_ALIAS.get, difflib.get_close_matches(key, _BY_ALIAS, 1, 0.9)), None)
    return None if name is None else f"did you mean {name!r}?"
