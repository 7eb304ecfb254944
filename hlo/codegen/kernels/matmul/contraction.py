"""dot as a product of strided matrices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hlo.analysis.fusion.roles import Role
from hlo.codegen.kernels.matmul.arithmetic import Arithmetic
from hlo.codegen.kernels.matmul.gemm import Steps, add_product
from hlo.codegen.kernels.matmul.product import (
    Computed,
    Dim,
    Dims,
    Leaf,
    Product,
    Source,
    SumTypes,
    count,
    is_exact,
    sums_of,
)
from hlo.codegen.kernels.matmul.scheduler import best_schedule, computes_seldom
from hlo.codegen.kernels.views import StridedView, common_digits, view_of, whole_view
from hlo.codegen.llvm import Index, Val
from hlo.codegen.loops.element import Indices, physical_index
from hlo.codegen.loops.kernel import Kernel, loop_nest, over_elements, split_index
from hlo.codegen.plan.liveness import collect_leaves
from hlo.codegen.scalar import operations as scalar
from hlo.codegen.scalar.operations import Cplx
from hlo.codegen.targets.base import Extent, Plan, Target
from hlo.ir import Instruction
from hlo.values.types import ArrayShape, ElementType, complex_of

# Of each dimension of an array, what it is called: equal names are counted together.
Labels = Sequence[str]


def plan_dot(inst: Instruction, roles: Mapping[Instruction, Role], target: Target) -> Plan:
    """Materialize operands that are not in memory, then multiply."""
    lhs, rhs = (o.array_shape for o in inst.operands)
    result = inst.array_shape
    if result.num_elements == 0:
        return Plan(())
    if lhs.num_elements == 0:
        return Plan((fill_with_zeros,))
    sums = sums_of(lhs.element_type, rhs.element_type, result.element_type)
    steps = Steps()
    product = _packed_product(inst, roles, sums, target)
    if product is not None:
        add_contraction(steps, product, sums, inst, target)
        return steps.plan()
    views = [operand_view(steps, inst, n, roles, sums, target) for n in (0, 1)]
    product = product_of(inst, views, [source_of(v, inst, roles) for v in views], sums)
    if product is None:
        views = [settled(steps, inst, n, sums, target) for n in (0, 1)]
        product = product_of(inst, views, [source_of(v, inst, roles) for v in views], sums)
        assert product is not None
    add_contraction(steps, product, sums, inst, target)
    return steps.plan()


def product_of(
    inst: Instruction,
    views: Sequence[StridedView],
    sources: Sequence[Source],
    sums: SumTypes,
    c: StridedView | None = None,
) -> Product | None:
    """Return the product of two views of operands, None if they do not count dimensions alike.

    c: where the result goes, if that is not an array of its own.
    """
    lhs, rhs = (o.array_shape for o in inst.operands)
    c = c or whole_view(inst, inst.array_shape)
    loops = _loops([*views, c], _labels(inst, lhs.rank, rhs.rank))
    if loops is None:
        return None
    a, b = sources
    parts = {kind: tuple(d for k, d in loops if k == kind) for kind in "bmnk"}
    return Product(
        a, b, parts["b"], parts["m"], parts["n"], parts["k"], Arithmetic(sums.total), sums.store,
        exact=is_exact(inst),
    )  # fmt: skip


def _packed_product(
    inst: Instruction, roles: Mapping[Instruction, Role], sums: SumTypes, target: Target
) -> Product | None:
    """Return a product whose fused operands are computed while they are packed.

    None if there is none such, or if they would be computed too often, or not in runs.
    """
    if sums.is_complex or not sums.total.is_float:
        return None
    views, sources = list[StridedView](), list[Source]()
    for number, operand in enumerate(inst.operands):
        view = view_of(operand, roles)
        if view is None and roles[operand] is Role.FUSED:
            shape = operand.array_shape
            views.append(whole_view(-1, shape))
            sources.append(Source(Computed((number,)), shape.element_type))
        elif view is None:
            return None
        else:
            views.append(view)
            sources.append(source_of(view, inst, roles))
    if not any(isinstance(s.memory, Computed) for s in sources):
        return None
    product = product_of(inst, views, sources, sums)
    if product is None:
        return None
    whole = replace(product, is_whole=True)
    return product if computes_seldom(best_schedule(whole, target), inst) else None


def _labels(inst: Instruction, lhs_rank: int, rhs_rank: int) -> tuple[Labels, Labels, Labels]:
    """Return the labels of both operands and the result: batch, contracting (k), free (m, n)."""
    named = []
    for side, rank, free in (("lhs", lhs_rank, "m"), ("rhs", rhs_rank, "n")):
        labels = [""] * rank
        for kind, key in (("b", "batch"), ("k", "contracting")):
            for i, d in enumerate(inst.attrs[f"{side}_{key}_dims"]):
                labels[d] = f"{kind}{i}"
        frees = (f"{free}{i}" for i in range(rank))
        named.append([label or next(frees) for label in labels])
    lhs, rhs = named
    batch = [f"b{i}" for i in range(len(inst.lhs_batch_dims))]
    kept = [label for label in (*lhs, *rhs) if label[0] in "mn"]
    return lhs, rhs, [*batch, *kept]


def _loops(views: Sequence[StridedView], labels: Sequence[Labels]) -> list[tuple[str, Dim]] | None:
    """Return the dimensions of a product's loops by kind, if all arrays count them alike."""
    result: list[tuple[str, Dim]] = []
    for label in dict.fromkeys(name for names in labels for name in names):
        sides = [n for n, names in enumerate(labels) if label in names]
        digits = common_digits([views[n].dims[labels[n].index(label)] for n in sides])
        if digits is None:
            return None
        for size, *strides in digits:
            by_side = dict(zip(sides, strides, strict=True))
            dim = Dim(size, by_side.get(0, 0), by_side.get(1, 0), by_side.get(2, 0))
            result.append((label[0], dim))
    return result


# --- operands -----------------------------------------------------------------------------------


def operand_view(
    steps: Steps,
    inst: Instruction,
    number: int,
    roles: Mapping[Instruction, Role],
    sums: SumTypes,
    target: Target,
    path: Sequence[int] = (),
) -> StridedView:
    """Return an operand as memory, computed by a step before if it is not there.

    path: as of `settled`.
    """
    found = view_of(inst.operands[number], roles)
    if found is None or (sums.is_complex and found.et is not complex_of(sums.total)):
        return settled(steps, inst, number, sums, target, path)
    return found


def settled(
    steps: Steps,
    inst: Instruction,
    number: int,
    sums: SumTypes,
    target: Target,
    path: Sequence[int] = (),
) -> StridedView:
    """Return an operand as scratch memory, which a step before fills.

    path: the numbers of operands that lead from the kernel's instruction to this one.
    """
    shape = inst.operands[number].array_shape
    et = shape.element_type
    if sums.is_complex:
        et = complex_of(sums.total)
    elif sums.total.is_float and not _has_unit(target, et, sums.total):
        et = sums.total
    memory = steps.memory(shape.num_elements * et.byte_width)
    steps.emitters.append(_Settle((*path, number), et, memory))
    return whole_view(memory, shape, et)


def _has_unit(target: Target, et: ElementType, total: ElementType) -> bool:
    """True when products of a type are computed without converting it to that of sums."""
    return any(kernel.lhs.element is et for kernel in target.microkernels(et, et, total))


def source_of(view: StridedView, inst: Instruction, roles: Mapping[Instruction, Role]) -> Source:
    """Return where the elements of a view of an operand are."""
    memory = view.memory
    if isinstance(memory, Instruction):
        return Source(Leaf(collect_leaves(inst, roles).index(memory)), view.et, view.offset)
    return Source(memory, view.et, view.offset)


@dataclass(frozen=True)
class _Settle:
    """Computes a fused operand, in another type if that is what sums are taken in."""

    path: tuple[int, ...]
    et: ElementType
    scratch: int

    def __call__(self, k: Kernel) -> Extent:
        inst = k.inst
        for number in self.path:
            inst = inst.operands[number]
        shape = inst.array_shape

        def body(at: Indices) -> None:
            value = k.elements.at(inst, at)
            value = scalar.convert(k.b, value, shape.element_type, self.et)
            place = physical_index(k.b, shape, at)
            scalar.store(k.b, self.et, value, k.scratch[self.scratch], place)

        return over_elements(k, shape, body)


def fill_with_zeros(k: Kernel) -> Extent:
    """Write empty sums: zeros."""
    et = k.shape.element_type
    zero = scalar.constant(et, et.dtype.type(0))
    return over_elements(k, k.shape, lambda at: k.store(zero, at))


# --- types --------------------------------------------------------------------------------------


def add_contraction(
    steps: Steps, p: Product, sums: SumTypes, inst: Instruction, target: Target
) -> None:
    """Append the steps of a product of any element types, given in the arrays' own elements.

    inst: the instruction that it is a part of.
    """
    result = inst.array_shape
    elements = result.num_elements
    if sums.is_complex:
        p = _complex_product(steps, p, sums, result)
        elements *= 2 if result.element_type.is_complex else 1
    add_product(steps, replace(p, arithmetic=Arithmetic(sums.total)), elements, inst, target)


def _complex_product(steps: Steps, p: Product, sums: SumTypes, result: ArrayShape) -> Product:
    """Return a product of complex numbers as one of real numbers.

    A complex row of A is twice as long a row of its parts, as it lies in memory. Each element of B
    becomes a square: what its real part, and what its imaginary part, makes of the parts of A.
    """
    flip = p.a.bounds == () and (
        p.b.bounds != () or count(p.m) < count(p.n)
    )  # The smaller operand becomes four times its size.
    if flip:
        p = p.flipped()
    both = result.element_type.is_complex
    factor = 2 if both else 1
    own = [d for d in p.batch if d.b]
    # What an index of each dimension steps over in the new B.
    inner = list(_row_major([*own, *p.k, Dim(2), *p.n], factor))
    batch = iter(inner[: len(own)])
    number = steps.memory(math.prod([inner[0], ([*own, *p.k, Dim(2)])[0].size])
                          * sums.total.byte_width)  # fmt: skip
    steps.emitters.append(_Expand(p, tuple(own), sums.total, number, both))

    def turn(dims: Dims, strides: Iterable[int]) -> Dims:
        found = zip(dims, strides, strict=True)
        return tuple(replace(d, a=2 * d.a, b=s, c=factor * d.c) for d, s in found)

    b_batch = [next(batch) if d.b else 0 for d in p.batch]
    of_k, (of_part, *of_n) = inner[len(own) : -len(p.n) - 1], inner[-len(p.n) - 1 :]
    n = turn(p.n, of_n)
    return replace(
        p,
        a=replace(p.a, et=sums.total, offset=2 * p.a.offset),
        b=Source(number, sums.total),
        batch=turn(p.batch, b_batch),
        m=turn(p.m, [0] * len(p.m)),
        n=(*n, Dim(2, b=1, c=1)) if both else n,
        k=(*turn(p.k, of_k), Dim(2, a=1, b=of_part)),
        c_offset=factor * p.c_offset,
    )


def _row_major(dims: Sequence[Dim], unit: int) -> list[int]:
    """Return the strides of an array of these dimensions, outermost first."""
    strides: list[int] = []
    for d in reversed(dims):
        strides.insert(0, unit)
        unit *= d.size
    return strides


@dataclass(frozen=True)
class _Expand:
    """Writes complex B as [batch][k][part of A][n][part of C]."""

    p: Product
    batch: Dims
    part: ElementType
    scratch: int
    both: bool

    def __call__(self, k: Kernel) -> Extent:
        b, p = k.b, self.p
        rows = (*self.batch, *p.k)
        width = count(p.n)
        parts = 2 if self.both else 1
        base = p.b.address(k)
        with b.loop(k.begin, k.end) as row:
            start: Index = 0
            for d, i in zip(rows, split_index(b, row, [d.size for d in rows]), strict=False):
                start = b.add(start, b.mul(i, d.b))

            def element(found: tuple[str, ...], row: Index = row, start: Index = start) -> None:
                at: Index = start
                linear: Index = 0
                for d, i in zip(p.n, found, strict=True):
                    at = b.add(at, b.mul(i, d.b))
                    linear = b.add(b.mul(linear, d.size), i)
                value = scalar.load(b, p.b.et, base, at)
                assert isinstance(value, Cplx)
                minus = b.unary("fneg", value.im)
                square: list[list[Val]] = [[value.re, value.im], [minus, value.re]]
                for part, line in enumerate(square):
                    place = b.add(b.mul(b.add(b.mul(row, 2), part), width), linear)
                    for j in range(parts):
                        to = b.add(b.mul(place, parts), j)
                        scalar.store(b, self.part, line[j], k.scratch[self.scratch], to)

            loop_nest(b, [(0, d.size) for d in p.n], element)
        return Extent(count(rows), 4 * width)
