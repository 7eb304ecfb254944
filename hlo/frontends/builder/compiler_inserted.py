"""Operations that compilers append rather than people: the halves of asynchronous ones, fusions.

The documents list them as what a dump may hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo.frontends.builder.callee import Callee, callee_of
from hlo.frontends.builder.coercion import ShapeLike, array_shape_of, shape_of, sharding_of
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation
from hlo.frontends.builder.groups import Groups, groups_of, pairs_of, resized, split_tuple
from hlo.frontends.builder.movement import scalars
from hlo.ops.attrs import Domain
from hlo.values.sharding import Sharding
from hlo.values.types import U32, Layout, TupleShape, array


@operation
def add_dependency(builder: BuilderCore[XlaOp], operand: XlaOp, token: XlaOp) -> XlaOp:
    """Append a value that comes after a token.

    Source: "AddDependency" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> x = b.add_dependency(b.parameter(0, "f32[2]"), b.create_token())
    >>> print(x.shape)
    f32[2]{0}
    """
    return emit(builder, "add-dependency", operand, token)


@operation
def bitcast(builder: BuilderCore[XlaOp], operand: XlaOp, shape: ShapeLike) -> XlaOp:
    """Append the same bytes under another shape and layout.

    shape: of as many bytes.

    Raises HloError for others. Source: "Bitcast" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.bitcast(b.parameter(0, "f32[2,3]"), "f32[3,2]{0,1}").shape)
    f32[3,2]{0,1}
    """
    return emit(builder, "bitcast", operand, shape=array_shape_of(shape, "bitcast"))


@operation
def domain(
    builder: BuilderCore[XlaOp], operand: XlaOp, entry: Sharding | str, exit: Sharding | str
) -> XlaOp:
    """Append a border between a region of sharding `exit`, before it, and one of `entry`.

    Source: "Domain" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> x = b.domain(b.parameter(0, "f32[4]"), "{maximal device=1}", "{maximal device=0}")
    >>> print(x.shape)
    f32[4]{0}
    """
    sides = map(sharding_of, (entry, exit))
    return emit(builder, "domain", operand, domain=Domain("sharding", *sides))


@operation
def fusion(
    builder: BuilderCore[XlaOp], operands: Sequence[XlaOp], kind: str, computation: Callee
) -> XlaOp:
    """Append a computation that is one kernel.

    kind: kLoop, kInput, kOutput or kCustom.

    Raises HloError for another, and as for `call`. Source: "Fusion" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.fusion([b.parameter(0, "s32[]")], "kLoop", lambda x: x * x + 1)
    >>> hlo.interpret(b.build().module(), 3)
    array(10, dtype=int32)
    """
    callee = callee_of(builder, computation, [o.shape for o in operands], "fused")
    return emit(builder, "fusion", *operands, kind=kind, calls=callee)


@operation
def rng_get_and_update_state(
    builder: BuilderCore[XlaOp], delta: int, shape: ShapeLike = "u64[2]"
) -> XlaOp:
    """Append the device's 128-bit random state, which moves on by `delta`.

    shape: it has to be u64[2].

    Source: "RngGetAndUpdateState" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.rng_get_and_update_state(1).shape)
    u64[2]{0}
    """
    return emit(builder, "rng-get-and-update-state", shape=shape_of(shape), delta=delta)


# --- asynchronous ---------------------------------------------------------------------------


@operation
def async_start(
    builder: BuilderCore[XlaOp], operands: Sequence[XlaOp], computation: Callee,
    async_execution_thread: str = "main",
) -> XlaOp:  # fmt: skip
    """Append the start of a computation on another thread: a context for the others.

    async_execution_thread: the thread's name.

    Source: "Async" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> started = b.async_start([b.parameter(0, "f32[4]")], lambda x: -x)
    >>> print(started.shape, b.async_done(started).shape)
    ((f32[4]{0}), f32[4]{0}, u32[]) f32[4]{0}
    """
    callee = callee_of(builder, computation, [o.shape for o in operands], "wrapped")
    if callee.execution_thread != async_execution_thread:
        callee = callee.clone(callee.name)
        callee.execution_thread = async_execution_thread
    shapes = TupleShape(tuple(o.shape for o in operands))
    return emit(
        builder, "async-start", *operands,
        shape=TupleShape((shapes, callee.result_shape, array(U32, ()))),
        async_execution_thread=async_execution_thread, calls=callee,
    )  # fmt: skip


@operation
def async_update(builder: BuilderCore[XlaOp], context: XlaOp) -> XlaOp:
    """Append a point at which an asynchronous computation is still running.

    context: what `async_start`, or an update, returned.

    Source: "Async" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> started = b.async_start([b.parameter(0, "f32[4]")], lambda x: -x)
    >>> print(b.async_done(b.async_update(started)).shape)
    f32[4]{0}
    """
    return emit(builder, "async-update", context)


@operation
def async_done(builder: BuilderCore[XlaOp], context: XlaOp) -> XlaOp:
    """Append the result of an asynchronous computation.

    context: what `async_start`, or the last update, returned.

    Source: "Async" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> y = b.async_done(b.async_start([b.parameter(0, "s32[]")], lambda x: -x))
    >>> hlo.interpret(b.build().module(), 4)
    array(-4, dtype=int32)
    """
    return emit(builder, "async-done", context)


@operation
def copy_start(builder: BuilderCore[XlaOp], operand: XlaOp, layout: Layout | None = None) -> XlaOp:
    """Append the start of a copy, also into another layout or memory space.

    Source: "Copy" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.copy_start(b.parameter(0, "f32[4]")).shape)
    (f32[4]{0}, f32[4]{0}, u32[])
    """
    shape = operand.array_shape
    to = shape if layout is None else shape.with_layout(layout)
    return emit(builder, "copy-start", operand, shape=TupleShape((to, shape, array(U32, ()))))


@operation
def copy_done(builder: BuilderCore[XlaOp], context: XlaOp) -> XlaOp:
    """Append the copy that was started.

    context: what `copy_start` returned.

    Source: "Copy" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.copy_done(b.copy_start(b.parameter(0, "f32[4]"))).shape)
    f32[4]{0}
    """
    return emit(builder, "copy-done", context)


@operation
def all_gather_start(
    builder: BuilderCore[XlaOp], operand: XlaOp, all_gather_dimension: int, shard_count: int,
    replica_groups: Groups = (), channel_id: int | None = None,
    use_global_device_ids: bool = False,
) -> XlaOp:  # fmt: skip
    """Append the start of an `all_gather`, with the arguments and errors of that.

    Source: "AllGather" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> started = b.all_gather_start(b.parameter(0, "f32[4]"), 0, 2)
    >>> print(started.shape, b.all_gather_done(started).shape)
    (f32[4]{0}, f32[8]{0}) f32[8]{0}
    """
    parts, _ = split_tuple("all-gather-start", operand)
    gathered = resized(
        "all-gather-start",
        parts,
        all_gather_dimension,
        shard_count,
        smaller=False,
        layout=None,
    )
    return emit(
        builder, "all-gather-start", *parts, shape=TupleShape((operand.shape, gathered)),
        channel_id=channel_id, replica_groups=groups_of(replica_groups),
        dimensions=(all_gather_dimension,), use_global_device_ids=use_global_device_ids,
    )  # fmt: skip


@operation
def all_gather_done(builder: BuilderCore[XlaOp], context: XlaOp) -> XlaOp:
    """Append what an `all_gather_start` gathers.

    context: what that returned.

    Source: "AllGather" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> x = b.all_gather_done(b.all_gather_start(b.parameter(0, "f32[4]"), 0, 2))
    >>> print(x.shape)
    f32[8]{0}
    """
    return emit(builder, "all-gather-done", context)


@operation
def all_reduce_start(
    builder: BuilderCore[XlaOp], operand: XlaOp, computation: Callee, replica_groups: Groups = (),
    channel_id: int | None = None, use_global_device_ids: bool = False,
) -> XlaOp:  # fmt: skip
    """Append the start of an `all_reduce`, with the arguments and errors of that.

    Source: "AllReduce" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> started = b.all_reduce_start(b.parameter(0, "f32[4]"), lambda x, y: x + y)
    >>> print(b.all_reduce_done(started).shape)
    f32[4]{0}
    """
    parts, _ = split_tuple("all-reduce-start", operand)
    callee = callee_of(builder, computation, scalars([parts[0], parts[0]]), "reducer")
    return emit(
        builder, "all-reduce-start", *parts, channel_id=channel_id,
        replica_groups=groups_of(replica_groups), use_global_device_ids=use_global_device_ids,
        to_apply=callee,
    )  # fmt: skip


@operation
def all_reduce_done(builder: BuilderCore[XlaOp], context: XlaOp) -> XlaOp:
    """Append what an `all_reduce_start` reduces.

    context: what that returned.

    Source: "AllReduce" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> x = b.parameter(0, "f32[4]")
    >>> print(b.all_reduce_done(b.all_reduce_start(x, lambda x, y: x * y)).shape)
    f32[4]{0}
    """
    return emit(builder, "all-reduce-done", context)


@operation
def collective_permute_start(
    builder: BuilderCore[XlaOp], operand: XlaOp, source_target_pairs: Sequence[tuple[int, int]],
    channel_id: int | None = None,
) -> XlaOp:  # fmt: skip
    """Append the start of a `collective_permute`, with the arguments and errors of that.

    Source: "CollectivePermute" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> started = b.collective_permute_start(b.parameter(0, "f32[4]"), [(0, 1)])
    >>> print(b.collective_permute_done(started).shape)
    f32[4]{0}
    """
    return emit(
        builder, "collective-permute-start", operand,
        shape=TupleShape((operand.shape, operand.shape)), channel_id=channel_id,
        source_target_pairs=pairs_of("collective-permute-start", source_target_pairs),
    )  # fmt: skip


@operation
def collective_permute_done(builder: BuilderCore[XlaOp], context: XlaOp) -> XlaOp:
    """Append what a `collective_permute_start` sends.

    context: what that returned.

    Source: "CollectivePermute" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> x = b.parameter(0, "f32[4]")
    >>> print(b.collective_permute_done(b.collective_permute_start(x, [(1, 0)])).shape)
    f32[4]{0}
    """
    return emit(builder, "collective-permute-done", context)
