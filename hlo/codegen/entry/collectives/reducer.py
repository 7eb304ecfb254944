"""Reductions of arrays by a function of two elements: what collectives apply step by step."""

from __future__ import annotations

from hlo.analysis.patterns import single_binary_op
from hlo.codegen.llvm import Builder, ModuleBuilder
from hlo.codegen.loops.inline import inline
from hlo.codegen.loops.kernel import computation_key
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.targets.base import LlvmTarget
from hlo.ir import Computation
from hlo.llvm import Function
from hlo.values.types import ElementType

# HLO_REDUCE_*
_KNOWN = {"add": 1, "multiply": 2, "minimum": 3, "maximum": 4, "and": 5, "or": 6, "xor": 7}


def known_reduction(comp: Computation, et: ElementType) -> int:
    """Return the number of the operation that a function is on elements of a type, or 0."""
    opcode = single_binary_op(comp)
    if opcode is None or comp.parameters[0].array_shape.element_type is not et:
        return 0
    if et.is_pred and opcode == "add":
        opcode = "or"
    return _KNOWN.get(opcode, 0)


def define_reducer(
    module: ModuleBuilder, comp: Computation, et: ElementType, target: LlvmTarget
) -> str:
    """Add the function `out[i] = comp(a[i], b[i])` on arrays of a type; returns its name.

    Each element is computed in the types of `comp`, and rounded to `et`. `out` may be `a` or `b`.
    """
    function = Function(
        "", ["ptr %buf1", "ptr %buf2", "ptr %buf0", "i64 %count"], ("noinline", "nounwind"),
        linkage="internal",
    )  # fmt: skip
    b = Builder(module)
    b.vector_bits = target.vector_bits if target.has_vectors else 0
    types = [p.array_shape.element_type for p in comp.parameters]
    with b.loop(0, "%count") as i:
        values = [scalar.load(b, et, base, i) for base in ("%buf1", "%buf2")]
        args = [scalar.convert(b, v, et, t) for v, t in zip(values, types, strict=True)]
        (total,) = inline(b, comp, args)
        scalar.store(b, et, scalar.convert(b, total, types[0], et), "%buf0", i)
    b.ret()
    b.finish(function)
    key = f"hlo.reducer {et} {computation_key(comp)}"
    name = module.shared.get(key)
    if name is None:
        number = sum(1 for known in module.shared if known.startswith("hlo.reducer "))
        name = module.shared[key] = function.name = f"hlo.reducer.{number}"
        module.add(function)
    return name
