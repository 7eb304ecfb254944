"""Products, convolutions and linear algebra: what is not there is zero, or a batch of its own.

Operands come at their bounds, with sizes. `hlo.eval.dynamic_rules` says what each operation means.
"""

from __future__ import annotations

from hlo.expansions.dynamic.draft import SizedDraft, shared_size, sized, unsupported, zero
from hlo.expansions.dynamic.reduction import positions
from hlo.expansions.dynamic.sized import Size, Sized, Value, static_array
from hlo.ir import Instruction


def _dense_operands(inst: Instruction, args: list[Value]) -> tuple[Sized, Sized]:
    """Return the two operands. Raises InferError for sparse and scaled ones."""
    if len(args) == 2 and isinstance(args[0], Sized) and isinstance(args[1], Sized):
        return args[0], args[1]
    raise unsupported(inst, "sparse or scaled operands")


@sized("dot")
def _dot(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    x, y = _dense_operands(inst, args)
    batch = list(zip(inst.lhs_batch_dims, inst.rhs_batch_dims, strict=True))
    contracted = list(zip(inst.lhs_contracting_dims, inst.rhs_contracting_dims, strict=True))
    bounds_x: list[Size] = list(x.shape.dims)
    bounds_y: list[Size] = list(y.shape.dims)
    for i, j in contracted:
        bounds_x[i] = bounds_y[j] = shared_size(d, [x.sizes[i], y.sizes[j]])
    sizes = [shared_size(d, [x.sizes[i], y.sizes[j]]) for i, j in batch]
    sizes += [
        n for i, n in enumerate(x.sizes) if i not in dict(batch) and i not in dict(contracted)
    ]
    used = {j for _, j in (*batch, *contracted)}
    sizes += [n for j, n in enumerate(y.sizes) if j not in used]
    # What is not there may be NaN: both sides are covered.
    left = d.covered(x.data, bounds_x, zero(d, x.shape.element_type))
    right = d.covered(y.data, bounds_y, zero(d, y.shape.element_type))
    return Sized(d.clone(inst, [left, right]), tuple(sizes))


@sized("convolution")
def _convolution(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    x, kernel = _dense_operands(inst, args)
    labels, window = inst.dim_labels, inst.window
    groups = inst.feature_group_count * inst.batch_group_count
    if any(kernel.is_varying(k) for k in labels.kernel_spatial):
        raise unsupported(inst, "kernels")
    grouped = (
        x.is_varying(labels.input_feature), x.is_varying(labels.input_batch),
        kernel.is_varying(labels.kernel_input), kernel.is_varying(labels.kernel_output),
    )  # fmt: skip
    if groups != 1 and any(grouped):
        raise unsupported(inst, "groups")
    features = x.sizes[labels.input_feature]
    bounds: list[Size] = list(kernel.shape.dims)
    if groups == 1:
        features = shared_size(d, [features, kernel.sizes[labels.kernel_input]])
        bounds[labels.kernel_input] = features
    covered: list[Size] = list(x.sizes)
    covered[labels.input_batch] = x.shape.dims[labels.input_batch]
    covered[labels.input_feature] = features
    sizes: list[Size] = list(static_array(inst.shape).dims)
    if groups == 1:
        sizes[labels.output_batch] = x.sizes[labels.input_batch]
        sizes[labels.output_feature] = kernel.sizes[labels.kernel_output]
    spatial = zip(window, labels.input_spatial, labels.output_spatial, strict=True)
    for dim, i, o in spatial:
        sizes[o] = positions(d, dim, x.sizes[i])
    data = d.covered(x.data, covered, zero(d, x.shape.element_type))
    weights = d.covered(kernel.data, bounds, zero(d, kernel.shape.element_type))
    return Sized(d.clone(inst, [data, weights]), tuple(sizes))


# --- linear algebra -----------------------------------------------------------------------------


@sized("fft")
def _fft(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    """Lines are transformed one by one, those in the padding too."""
    (x,) = args
    batch = x.shape.rank - len(inst.fft_length)
    if any(map(x.is_varying, range(batch, x.shape.rank))):
        raise unsupported(inst, "lines")
    dims = static_array(inst.shape).dims
    return Sized(d.clone(inst, [x.data]), (*x.sizes[:batch], *dims[batch:]))


@sized("cholesky", "triangular-solve")
def _matrices(d: SizedDraft, inst: Instruction, args: list[Value]) -> Value:
    """Matrices are those of the identity beyond their size, and what is solved for is zero there.

    Each is computed alone, those in the padding too.
    """
    a, *rest = args
    last = a.shape.rank - 1
    batch = tuple(shared_size(d, [x.sizes[dim] for x in args]) for dim in range(last - 1))
    shared = last - 1 if inst.left_side else last
    order = shared_size(d, [a.sizes[last - 1], a.sizes[last], *(b.sizes[shared] for b in rest)])
    operands = [_as_identity(d, a.data, order)]
    sizes = [order, order]
    for b in rest:
        bounds: list[Size] = list(b.shape.dims)
        bounds[shared] = order
        operands.append(d.covered(b.data, bounds, d.zero(b.shape.element_type)))
        sizes = list(b.sizes[-2:])
        sizes[shared - last - 1] = order
    return Sized(d.clone(inst, operands), (*batch, *sizes))


def _as_identity(d: SizedDraft, a: Instruction, order: Size) -> Instruction:
    """Return matrices with the identity's elements where a row or column is not below `order`."""
    shape = static_array(a.shape)
    last = shape.rank - 1
    bounds: list[Size] = [*shape.dims[:-2], order, order]
    there = d.meant(shape, bounds)
    if there is None:
        return a
    on_diagonal = d.compare(d.positions(shape, last - 1), d.positions(shape, last), "EQ")
    one, zero = (
        d.broadcast(x, shape)
        for x in (d.constant(shape.element_type, 1), d.zero(shape.element_type))
    )
    identity = d.op("select", on_diagonal, one, zero, shape=shape)
    return d.op("select", there, a, identity, shape=shape)
