"""The builder of programs and its handles: where functions of all families become methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hlo.errors import HloError
from hlo.frontends.builder import (
    binary,
    checks,
    collective,
    comparison,
    compiler_inserted,
    contraction,
    control,
    convolution,
    data,
    dynamic,
    elementwise,
    indexing,
    mathematical,
    movement,
    reduction,
    rng,
    slicing,
    transfers,
    tuples,
    unary,
)  # fmt: skip
from hlo.frontends.builder.core import BuilderCore
from hlo.frontends.builder.handle import Handle
from hlo.ir import Instruction
from hlo.values.types import ArrayShape

_Binary = Callable[["XlaOp", Any], "XlaOp"]


def _sides(operation: Callable[..., XlaOp]) -> tuple[_Binary, _Binary]:
    """Return the methods of an operator whose left, or right, operand is a handle."""

    def left(self: XlaOp, other: Any) -> XlaOp:
        return operation(self.builder, self, other)

    def right(self: XlaOp, other: Any) -> XlaOp:
        return operation(self.builder, other, self)

    return left, right


def _shift_right(builder: XlaBuilder, lhs: Any, rhs: Any) -> XlaOp:
    """Shift right: with copies of the sign for a signed type, with zeros for an unsigned."""
    # What is no array is left to the operation, whose error may have to wait for `build`.
    inst = next((o._instruction for o in (lhs, rhs) if isinstance(o, Handle)), None)
    shape = inst and inst.shape
    if isinstance(shape, ArrayShape) and not shape.element_type.is_signed:
        return builder.shift_right_logical(lhs, rhs)
    return builder.shift_right_arithmetic(lhs, rhs)


class XlaOp(Handle):
    """A value of the program that a builder builds: an operation, not a number.

    Operators append operations: `x + 1`, `-x`, `x < y` (a pred array), `x @ y` (dot), `x[1:3]`
    (slice), and on a tuple `t[0]` or `a, b = t`. A number on one side becomes a constant of the
    other side's element type, and so does a numpy array.

    >>> x = hlo.XlaBuilder("m").parameter(0, "f32[2,3]")
    >>> x.dims, (x > 0).shape, x[:, 1:].shape
    ((2, 3), <ArrayShape pred[2,3]{1,0}>, <ArrayShape f32[2,2]{1,0}>)
    """

    __slots__ = ()
    # An array on the left of an operator is one operand; numpy would take it element by element.
    __array_ufunc__ = None
    builder: XlaBuilder

    __add__, __radd__ = _sides(binary.add)
    __sub__, __rsub__ = _sides(binary.sub)
    __mul__, __rmul__ = _sides(binary.mul)
    __truediv__, __rtruediv__ = _sides(binary.div)
    # The remainder with the sign of the left side, as `rem` has it, not Python's.
    __mod__, __rmod__ = _sides(binary.rem)
    __pow__, __rpow__ = _sides(binary.pow_)
    __matmul__, __rmatmul__ = _sides(contraction.dot)
    __and__, __rand__ = _sides(binary.and_)
    __or__, __ror__ = _sides(binary.or_)
    __xor__, __rxor__ = _sides(binary.xor)
    __lshift__, __rlshift__ = _sides(binary.shift_left)
    __rshift__, __rrshift__ = _sides(_shift_right)
    __lt__, __gt__ = _sides(comparison.lt)[0], _sides(comparison.gt)[0]
    __le__, __ge__ = _sides(comparison.le)[0], _sides(comparison.ge)[0]
    __eq__ = _sides(comparison.eq)[0]  # type: ignore[assignment]
    __ne__ = _sides(comparison.ne)[0]  # type: ignore[assignment]

    def __neg__(self) -> XlaOp:
        return self.builder.neg(self)

    def __abs__(self) -> XlaOp:
        return self.builder.abs_(self)

    def __invert__(self) -> XlaOp:
        return self.builder.not_(self)

    def __hash__(self) -> int:
        return id(self)

    def __getitem__(self, index: Any) -> XlaOp:
        """Return an element of a tuple, or a part of an array as Python slices it."""
        if self._instruction is not None and self.shape.is_tuple:
            return self.builder.get_tuple_element(self, index)
        return self.builder.index(self, index)

    def __iter__(self) -> Iterator[XlaOp]:
        return (self.builder.get_tuple_element(self, i) for i in range(len(self)))


class XlaBuilder(BuilderCore[XlaOp]):
    """Builds a program, one operation after the other; shapes are inferred as it goes.

    Methods have the documents' names in Python's spelling: `BroadcastInDim` is `broadcast_in_dim`.
    One that is a word of Python, or the name of a built-in function, ends in an underscore: `and_`,
    `while_`, `max_`, `slice_`. `docs/operations.md` lists them all.

    Where a computation is called, a function from handles to a handle may be given in place of a
    built one. A broken rule raises HloError, which names the rule and the line that broke it; after
    `set_die_immediately_on_error(False)` `build` raises it. Operations that fail leave nothing
    behind. Sources are the documents of `docs/operations.md`, by their numbers there.

    Arguments that many methods have:

    broadcast_dimensions: for each dimension of the array of lower rank the dimension of the other
    that it is matched to. preferred_element_type: the element type of the result.
    precision_config: how exact multiplied numbers have to be; this implementation is exact whatever
    it says. feature_group_count: into how many groups input features and output features are split,
    each convolved by itself. batch_group_count: into how many batches and output features are; one
    of the two may be above 1. replica_groups: lists of the devices that work together; empty for
    all of them. channel_id: the same for operations of several programs, or partitions, that belong
    together. use_global_device_ids: the groups number devices over replicas and partitions. handle:
    the number of a channel; a send and a receive with one number belong together.

    Args:
        name: of the computation.
        client: who is to run the program, for those who pass builders around; `client` returns it.

    >>> b = hlo.XlaBuilder("axpy")
    >>> alpha, x, y = (b.parameter(i, s) for i, s in enumerate(["f32[]", "f32[3]", "f32[3]"]))
    >>> module = b.build(alpha * x + y).module()
    >>> hlo.interpret(module, 10, [1, 2, 3], [0.5, 0.5, 0.5])
    array([10.5, 20.5, 30.5], dtype=float32)
    """

    # unary
    abs_ = unary.abs_
    ceil = unary.ceil
    clz = unary.clz
    floor = unary.floor
    is_finite = unary.is_finite
    neg = unary.neg
    not_ = unary.not_
    population_count = unary.population_count
    round_ = unary.round_
    round_nearest_afz = unary.round_nearest_afz
    round_nearest_even = unary.round_nearest_even
    sign = unary.sign
    real = unary.real
    imag = unary.imag

    # mathematical
    acos = mathematical.acos
    acosh = mathematical.acosh
    asin = mathematical.asin
    asinh = mathematical.asinh
    atanh = mathematical.atanh
    cbrt = mathematical.cbrt
    cos = mathematical.cos
    cosh = mathematical.cosh
    erf = mathematical.erf
    exp = mathematical.exp
    exp2 = mathematical.exp2
    expm1 = mathematical.expm1
    log = mathematical.log
    log2 = mathematical.log2
    log1p = mathematical.log1p
    logistic = mathematical.logistic
    rsqrt = mathematical.rsqrt
    sin = mathematical.sin
    sinh = mathematical.sinh
    sqrt = mathematical.sqrt
    tan = mathematical.tan
    tanh = mathematical.tanh

    # binary
    add = binary.add
    and_ = binary.and_
    atan2 = binary.atan2
    complex_ = binary.complex_
    div = binary.div
    max_ = binary.max_
    min_ = binary.min_
    mul = binary.mul
    mulhi = binary.mulhi
    or_ = binary.or_
    pow_ = binary.pow_
    rem = binary.rem
    shift_left = binary.shift_left
    shift_right_arithmetic = binary.shift_right_arithmetic
    shift_right_logical = binary.shift_right_logical
    sub = binary.sub
    xor = binary.xor

    # comparison
    compare = comparison.compare
    eq = comparison.eq
    ne = comparison.ne
    ge = comparison.ge
    gt = comparison.gt
    le = comparison.le
    lt = comparison.lt
    eq_total_order = comparison.eq_total_order
    ne_total_order = comparison.ne_total_order
    ge_total_order = comparison.ge_total_order
    gt_total_order = comparison.gt_total_order
    le_total_order = comparison.le_total_order
    lt_total_order = comparison.lt_total_order

    # elementwise
    clamp = elementwise.clamp
    select = elementwise.select
    convert_element_type = elementwise.convert_element_type
    bitcast_convert_type = elementwise.bitcast_convert_type
    reduce_precision = elementwise.reduce_precision
    stochastic_convert = elementwise.stochastic_convert
    logical_and = elementwise.logical_and
    logical_or = elementwise.logical_or
    logical_not = elementwise.logical_not
    sqrt_f32 = elementwise.sqrt_f32
    square_f32 = elementwise.square_f32
    reciprocal_f32 = elementwise.reciprocal_f32

    # movement
    broadcast = movement.broadcast
    broadcast_in_dim = movement.broadcast_in_dim
    reshape = movement.reshape
    collapse = movement.collapse
    transpose = movement.transpose
    trans = movement.trans
    rev = movement.rev
    rotate = movement.rotate
    copy = movement.copy

    # slicing
    slice_ = slicing.slice_
    index = slicing.index
    pad = slicing.pad
    concat_in_dim = slicing.concat_in_dim
    concatenate = slicing.concatenate

    # indexing
    dynamic_slice = indexing.dynamic_slice
    dynamic_update_slice = indexing.dynamic_update_slice
    gather = indexing.gather
    scatter = indexing.scatter
    sort = indexing.sort
    top_k = indexing.top_k

    # contraction
    dot = contraction.dot
    dot_general = contraction.dot_general
    scaled_dot = contraction.scaled_dot
    ragged_dot = contraction.ragged_dot
    fft = contraction.fft
    cholesky = contraction.cholesky
    triangular_solve = contraction.triangular_solve

    # convolution
    create_default_conv_dimension_numbers = staticmethod(
        convolution.create_default_conv_dimension_numbers
    )
    create_conv_dimension_numbers = staticmethod(convolution.create_conv_dimension_numbers)
    conv = convolution.conv
    conv_with_general_padding = convolution.conv_with_general_padding
    conv_with_general_dimensions = convolution.conv_with_general_dimensions
    conv_general = convolution.conv_general
    conv_general_dilated = convolution.conv_general_dilated

    # reduction
    reduce = reduction.reduce
    reduce_all = reduction.reduce_all
    map_ = reduction.map_
    scan = reduction.scan
    reduce_window = reduction.reduce_window
    reduce_window_with_general_padding = reduction.reduce_window_with_general_padding
    select_and_scatter = reduction.select_and_scatter
    select_and_scatter_with_general_padding = reduction.select_and_scatter_with_general_padding
    batch_norm_training = reduction.batch_norm_training
    batch_norm_inference = reduction.batch_norm_inference
    batch_norm_grad = reduction.batch_norm_grad

    # data
    parameter = data.parameter
    constant = data.constant
    constant_literal = data.constant_literal
    constant_r0 = data.constant_r0
    constant_r1 = data.constant_r1
    constant_r2 = data.constant_r2
    constant_r2_from_array2d = data.constant_r2_from_array2d
    constant_r3_from_array3d = data.constant_r3_from_array3d
    constant_r4_from_array4d = data.constant_r4_from_array4d
    iota = data.iota
    is_constant = data.is_constant
    compute_constant = data.compute_constant

    # rng
    rng_normal = rng.rng_normal
    rng_uniform = rng.rng_uniform
    rng_bernoulli = rng.rng_bernoulli
    rng_bit_generator = rng.rng_bit_generator

    # dynamic
    get_dimension_size = dynamic.get_dimension_size
    set_dimension_size = dynamic.set_dimension_size
    dynamic_reshape = dynamic.dynamic_reshape

    # tuples
    tuple_ = tuples.tuple_
    get_tuple_element = tuples.get_tuple_element

    # control
    create_token = control.create_token
    after_all = control.after_all
    optimization_barrier = control.optimization_barrier
    call = control.call
    composite_call = control.composite_call
    custom_call = control.custom_call
    custom_call_op = control.custom_call_op
    conditional = control.conditional
    while_ = control.while_

    # collective
    all_gather = collective.all_gather
    all_reduce = collective.all_reduce
    cross_replica_sum = collective.cross_replica_sum
    reduce_scatter = collective.reduce_scatter
    all_to_all = collective.all_to_all
    ragged_all_to_all = collective.ragged_all_to_all
    collective_broadcast = collective.collective_broadcast
    collective_reduce = collective.collective_reduce
    collective_permute = collective.collective_permute
    replica_id = collective.replica_id
    partition_id = collective.partition_id

    # transfers
    infeed = transfers.infeed
    infeed_with_token = transfers.infeed_with_token
    outfeed = transfers.outfeed
    outfeed_with_token = transfers.outfeed_with_token
    trace = transfers.trace
    send = transfers.send
    send_with_token = transfers.send_with_token
    send_to_host = transfers.send_to_host
    recv = transfers.recv
    recv_with_token = transfers.recv_with_token
    recv_from_host = transfers.recv_from_host
    send_with_tokens = transfers.send_with_tokens
    recv_with_tokens = transfers.recv_with_tokens
    recv_to_host = transfers.recv_to_host
    create_send = transfers.create_send
    send_done = transfers.send_done
    create_recv = transfers.create_recv
    recv_done = transfers.recv_done

    # compiler inserted
    add_dependency = compiler_inserted.add_dependency
    bitcast = compiler_inserted.bitcast
    domain = compiler_inserted.domain
    fusion = compiler_inserted.fusion
    rng_get_and_update_state = compiler_inserted.rng_get_and_update_state
    async_start = compiler_inserted.async_start
    async_update = compiler_inserted.async_update
    async_done = compiler_inserted.async_done
    copy_start = compiler_inserted.copy_start
    copy_done = compiler_inserted.copy_done
    all_gather_start = compiler_inserted.all_gather_start
    all_gather_done = compiler_inserted.all_gather_done
    all_reduce_start = compiler_inserted.all_reduce_start
    all_reduce_done = compiler_inserted.all_reduce_done
    collective_permute_start = compiler_inserted.collective_permute_start
    collective_permute_done = compiler_inserted.collective_permute_done

    # checks
    check_shape = checks.check_shape
    check_same_shape = checks.check_same_shape

    def __repr__(self) -> str:
        return f"<XlaBuilder {self.name}: {len(self._computation)} operations>"

    def _handle(self, inst: Instruction | None, error: HloError | None = None) -> XlaOp:
        return XlaOp(self, inst, error)
