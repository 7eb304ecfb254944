"""Propagation: the sharding of each value from those that it is computed from, and with.

Rounds are nested as Shardy's are: by the priorities that users gave, then by operation, what only
passes its elements on first, then cautiously before boldly: where two shardings contradict each
other, first none propagates, then that of the largest array. A round ends when nothing changes; in
each, axes are only ever added, so all end. Source: Shardy's propagation document and
`op_priority_propagation.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.ops import Trait
from hlo.ops.factors import Factor, FactorKind
from hlo.spmd.mesh import Axes, DeviceMesh
from hlo.spmd.propagation.annotations import ANNOTATION
from hlo.spmd.propagation.state import Direction, Edge, Graph, Value

# Whether by operation everything passes, only what passes elements on, or what is like a copy.
_COPIES, _PASS_THROUGH, _ALL = range(3)
_LIKE_COPIES = frozenset({"reshape", "transpose", "bitcast", "copy"})
_SLICES = frozenset({"dynamic-slice", "dynamic-update-slice"})


def propagate_shardings(graph: Graph) -> None:
    """Cut the values of a graph as far as their annotations reach."""
    for priority in sorted({0, *(p for p, *_ in graph.later)}):
        for at, value, dim, axes, is_open in graph.later:
            if at == priority:
                value.cut(dim, axes, ANNOTATION)
                value.open[dim] = is_open
        for level in (_COPIES, _PASS_THROUGH, _ALL):
            for is_bold in (False, True):
                _run(graph, level, is_bold)


def directions(edge: Edge, level: int) -> list[Direction]:
    """Return where shardings may go along each factor of an edge."""
    inst = edge.inst
    base = Direction.NONE
    if edge.is_flow or inst.spec.has(Trait.ELEMENTWISE) or inst.opcode in _LIKE_COPIES:
        base = Direction.BOTH
    elif inst.opcode in _SLICES:
        base = Direction.FORWARD
    passing = Direction.BACKWARD if inst.opcode == "broadcast" else Direction.BOTH
    found = []
    for factor in edge.table:
        here = base
        if level >= _PASS_THROUGH and factor.kind is FactorKind.PASS_THROUGH:
            here |= passing
        if level >= _ALL:
            here = Direction.BOTH
        if factor.kind is FactorKind.NEED_REPLICATION or factor.size == 1:
            here = Direction.NONE
        found.append(here & edge.allowed)
    return found


def _run(graph: Graph, level: int, is_bold: bool) -> None:
    """Visit edges, in the order of the program and back, until none changes a value."""
    edges = graph.edges
    dirty = [not e.is_settled for e in edges]
    is_forward = True
    while any(dirty):
        for at in range(len(edges)) if is_forward else range(len(edges) - 1, -1, -1):
            if not dirty[at]:
                continue
            dirty[at] = False
            if edges[at].is_settled:
                continue
            allowed = directions(edges[at], level)
            for value in visit(edges[at], allowed, graph.mesh, is_bold=is_bold):
                for other in value.edges:
                    dirty[other] = True
        is_forward = not is_forward


def visit(
    edge: Edge, allowed: Sequence[Direction], mesh: DeviceMesh, *, is_bold: bool
) -> list[Value]:
    """Propagate along the factors of one edge; returns the values that changed.

    allowed: the directions of each factor. is_bold: where shardings contradict each other, take
    that of the largest array.
    """
    offers: dict[int, list[tuple[int, Axes]]] = {}
    for i in range(len(edge.arrays)):
        for factor, axes in factor_axes(edge, i, mesh).items():
            offers.setdefault(factor, []).append((i, axes))
    wanted: list[tuple[int, int, int, Axes]] = []  # bytes, factor, array, axes
    for factor, sources in offers.items():
        direction = allowed[factor]
        if not direction:
            continue
        if direction is not Direction.BOTH:
            is_forward = direction is Direction.FORWARD
            sources = [s for s in sources if (s[0] < edge.num_operands) == is_forward]
        chosen = _choose(edge, sources, is_bold)
        if chosen is not None:
            i, axes = chosen
            wanted.append((edge.arrays[i].bytes, factor, i, axes))
    if is_bold:
        wanted.sort(key=lambda w: (-w[0], w[1]))
    proposals = {factor: axes for _, factor, _, axes in wanted}
    changed: list[Value] = []
    for _, factor, source, axes in wanted:
        direction = allowed[factor]
        for i, value in enumerate(edge.arrays):
            if direction is not Direction.BOTH:
                if (i < edge.num_operands) == (direction is Direction.FORWARD):
                    continue
            rivals = () if is_bold else _rivals(edge, i, factor, proposals)
            if _extend(edge, i, factor, axes, rivals, source, mesh):
                changed.append(value)
    return changed


def _choose(
    edge: Edge, sources: Sequence[tuple[int, Axes]], is_bold: bool
) -> tuple[int, Axes] | None:
    """Return the axes to cut a factor along, and the number of the array that has them."""
    if not sources:
        return None
    if is_bold:
        return min(sources, key=lambda s: (-edge.arrays[s[0]].bytes, -len(s[1]), s[0]))
    longest = max(sources, key=lambda s: (len(s[1]), -s[0]))
    length = len(longest[1])
    for _, axes in sources:
        same = 0
        while same < min(len(axes), length) and axes[same] == longest[1][same]:
            same += 1
        if same < len(axes):
            length = min(length, same)
    return (longest[0], longest[1][:length]) if length else None


def _extend(
    edge: Edge, i: int, factor: int, axes: Axes, rivals: Sequence[Axes], source: int,
    mesh: DeviceMesh,
) -> bool:  # fmt: skip
    """Cut a factor of an array further, as far as it can be; returns whether it could."""
    value, table = edge.arrays[i], edge.table
    dim = next((d for d, factors in enumerate(edge.factors[i]) if factor in factors), None)
    if dim is None or not value.open[dim]:
        return False
    factors = edge.factors[i][dim]
    before = value.dims[dim]
    prefix = edge.prefix[i][dim] if edge.prefix is not None else ()
    if before[: len(prefix)] != prefix:
        return False
    current, is_whole = factor_axes_of_dim(before[len(prefix) :], factors, table, mesh)
    have = current.get(factor, ())
    if not is_whole or axes[: len(have)] != have:
        return False
    at = factors.index(factor)
    if any(mesh.count(current.get(f, ())) != table[f].size for f in factors[:at]):
        return False
    if any(f in current for f in factors[at + 1 :]):
        return False
    size = table[factor].size
    must_divide = sum(table[f].size > 1 for f in factors) > 1
    new, count = list(have), mesh.count(have)
    for axis in axes[len(have) :]:
        count *= mesh.sizes[axis]
        if value.taken >> axis & 1 or any(axis in r for r in rivals):
            break
        if count > size or (must_divide and size % count):
            break
        new.append(axis)
    if len(new) == len(have):
        return False
    value.cut(dim, (*before, *new[len(have) :]), _origin(edge, source, factor))
    return True


def _rivals(edge: Edge, i: int, factor: int, proposals: dict[int, Axes]) -> Sequence[Axes]:
    """Return what else is proposed for an array: axes for its other factors."""
    if len(proposals) == 1:
        return ()
    return [
        proposals[f] for factors in edge.factors[i] for f in factors
        if f != factor and f in proposals
    ]  # fmt: skip


def factor_axes(edge: Edge, i: int, mesh: DeviceMesh) -> dict[int, Axes]:
    """Return the axes that cut the factors of an array of an edge, without those uncut."""
    found: dict[int, Axes] = {}
    for dim, (axes, factors) in enumerate(zip(edge.arrays[i].dims, edge.factors[i], strict=True)):
        if not axes:
            continue
        if edge.prefix is not None:
            axes = axes[len(edge.prefix[i][dim]) :]
        if len(factors) == 1:
            if axes:
                found[factors[0]] = axes
        elif factors:
            found.update(factor_axes_of_dim(axes, factors, edge.table, mesh)[0])
    return found


def factor_axes_of_dim(
    axes: Axes, factors: Sequence[int], table: Sequence[Factor], mesh: DeviceMesh
) -> tuple[dict[int, Axes], bool]:
    """Return the axes that cut each factor of a dimension, and whether these are all of them.

    A dimension of several factors that is cut is cut along the major ones first, in parts of equal
    size: along the next one only where the one before is cut into single elements. Axes that cut it
    otherwise cut no factor.
    """
    if len(factors) == 1:
        return ({factors[0]: axes} if axes else {}), True
    found: dict[int, Axes] = {}
    rest = list(axes)
    for factor in factors:
        left = table[factor].size
        mine: list[int] = []
        while rest and left > 1 and left % mesh.sizes[rest[0]] == 0:
            left //= mesh.sizes[rest[0]]
            mine.append(rest.pop(0))
        if mine:
            found[factor] = tuple(mine)
        if left > 1:
            break
    return found, not rest


_KINDS = {
    FactorKind.PASS_THROUGH: "",
    FactorKind.REDUCTION: " (reduced)",
    FactorKind.PERMUTATION: " (permuted)",
    FactorKind.NEED_REPLICATION: "",
}


def _origin(edge: Edge, source: int, factor: int) -> str:
    """Describe where axes came from: an operand or result of an instruction."""
    is_operand = source < edge.num_operands
    where = f"operand {edge.numbers[source]} of" if is_operand else "the result of"
    if edge.is_flow or edge.inst.spec.has(Trait.ELEMENTWISE):
        return f"from {where} {edge.inst.name}"
    kind = _KINDS[edge.table[factor].kind]
    return f"from {where} {edge.inst.name} by factor {factor}{kind}"
