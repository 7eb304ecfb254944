"""Row-by-row kernels: see `hlo.analysis.fusion.rows`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlo.analysis.fusion.rows import Rows, locals_of, rows_of
from hlo.codegen.kernels.reduce.combiner import Accumulators, element_type
from hlo.codegen.llvm import Index
from hlo.codegen.loops.element import Indices
from hlo.codegen.loops.kernel import Kernel, loop_nest, split_index
from hlo.codegen.scalar.operations import Value
from hlo.codegen.targets.base import Extent
from hlo.ir import Instruction
from hlo.values.layout.plain import loop_order
from hlo.values.types import ArrayShape


def emit_rows(k: Kernel) -> Extent:
    """Compute results row by row, after the values of the row that they depend on."""
    rows = rows_of(k.inst, k.roles)
    assert rows is not None
    b, dims = k.b, rows.space.dims
    with b.loop(k.begin, k.end) as number:
        row = split_index(b, number, [dims[d] for d in rows.order[: rows.outer]])
        prepare_row(k, rows, row)
        over_row(k, rows, row, k.shape, lambda at: k.store(k.elements.compute(k.inst, at), at))
    return Extent(rows.row_count, 2.0 * rows.length * len(locals_of(rows, k.roles)))


def prepare_row(k: Kernel, rows: Rows, row: Sequence[Index]) -> None:
    """Compute the values of a row, and materialize the arrays that are used more than once."""
    for inst, is_array in locals_of(rows, k.roles):
        if is_array:
            _keep(k, rows, row, inst)
        else:
            # The value is reused inside the row's loop.
            (places,) = rows.uses[inst]
            at: list[Index] = [0] * len(inst.array_shape.dims)
            for place, i in zip(places, row, strict=False):
                if place is not None:
                    at[place] = i
            k.elements.at(inst, tuple(at))


def over_row(
    k: Kernel,
    rows: Rows,
    row: Sequence[Index],
    shape: ArrayShape,
    body: Callable[[Indices], None],
) -> None:
    """Emit the body for the elements of a row of an array that lies like the row space."""
    order = loop_order(shape)

    def visit(found: tuple[str, ...]) -> None:
        place = dict(zip(order, [*row, *found], strict=True))
        body(tuple(place.get(d, 0) for d in range(shape.rank)))

    loop_nest(k.b, [(0, shape.dims[d]) for d in order[rows.outer :]], visit)


def _keep(k: Kernel, rows: Rows, row: Sequence[Index], inst: Instruction) -> None:
    """Materialize an array's row on the stack, from where it is read from now on."""
    b, shape = k.b, inst.array_shape
    buffer = Accumulators(b, [element_type(inst)], rows.length)

    def position(at: Indices) -> Index:
        linear: Index = 0
        for d in loop_order(shape)[rows.outer :]:
            linear = b.add(b.mul(linear, shape.dims[d]), at[d])
        return linear

    def read(at: Indices) -> Value:
        return buffer.get(position(at))[0]

    over_row(
        k, rows, row, shape, lambda at: buffer.put([k.elements.compute(inst, at)], position(at))
    )
    k.elements.kept[inst] = read
