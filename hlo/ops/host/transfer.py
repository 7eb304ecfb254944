"""Exchange with the host and between programs: infeed, outfeed, send, receive."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from hlo.errors import InferError
from hlo.ops.attrs import BOOL, INT, SHAPE, STRING, Attr
from hlo.ops.collective.device_groups import device_number, line_of, names_devices
from hlo.ops.factors import whole
from hlo.ops.host.outside import conforming, zeros
from hlo.ops.rules import need_compatible, need_token
from hlo.ops.spec import Category, EvalContext, OpSpec, OpView, Trait, register
from hlo.values.arrays import TOKEN_VALUE
from hlo.values.types import TOKEN, U32, Shape, TupleShape, array

_HANDLE = array(U32, ())
_TRANSFER = {"channel_id": Attr(INT), "is_host_transfer": Attr(BOOL, default=False)}
_EFFECTS = Trait.SIDE_EFFECT | Trait.NO_FOLD
_FACTORS = whole("what is exchanged is one value of one device")


def _data_of_result(op: OpView, length: int) -> Shape:
    """Return the first element of the declared result, which nothing else determines."""
    if not isinstance(op.shape, TupleShape) or len(op.shape.elements) != length:
        raise InferError(
            f"{op.opcode}: the result has shape {op.shape.to_string(False)}, "
            f"a tuple of {length} elements is needed",
        )
    return op.shape.elements[0]


# --- infeed, outfeed ------------------------------------------------------------------------------


def _infer_infeed(op: OpView) -> Shape:
    need_token(op, 0)
    return TupleShape((_data_of_result(op, 2), TOKEN))


def _infeed(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    shape = _data_of_result(op, 2)
    queue: deque[Any] = ctx.host.infeed
    if shape == TupleShape(()):  # nothing is read for nothing
        return (), TOKEN_VALUE
    if not queue:
        raise InferError(
            f"infeed: the queue is empty, {shape.to_string(False)} is next",
            code="empty-queue",
            hint="--infeed FILE provides the values; in Python append them to Host.infeed "
                 "before the run",
        )  # fmt: skip
    return conforming(op, queue.popleft(), shape, "the next value"), TOKEN_VALUE


register(
    OpSpec(
        "infeed",
        1,
        _infer_infeed,
        _infeed,
        Category.HOST,
        "003 Infeed",
        (
            """HloModule infeed_example
ENTRY e {
  t = token[] after-all()
  ROOT i = ((f32[2], s32[]), token[]) infeed(t), infeed_config="a"
}
""",
        ),
        attrs={"infeed_config": Attr(STRING, default="")},
        traits=_EFFECTS,
        factors=_FACTORS,
    )
)


def _infer_outfeed(op: OpView) -> Shape:
    need_token(op, 1)
    declared = op.outfeed_shape
    if declared is not None:
        need_compatible(
            op, declared, op.operand_shapes[0], "outfeed_shape and operand 0", attr="outfeed_shape"
        )
    return TOKEN


def _outfeed(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    ctx.host.outfeed.append(args[0])
    return TOKEN_VALUE


register(
    OpSpec(
        "outfeed",
        2,
        _infer_outfeed,
        _outfeed,
        Category.HOST,
        "003 Outfeed",
        (
            """HloModule outfeed_example
ENTRY e {
  x = f32[2] parameter(0)
  t = token[] after-all()
  ROOT o = token[] outfeed(x, t), outfeed_shape=f32[2]{0}, outfeed_config="a"
}
""",
        ),
        attrs={
            "outfeed_shape": Attr(SHAPE, implied=lambda shapes: shapes[0]),
            "outfeed_config": Attr(STRING, default=""),
        },
        traits=_EFFECTS,
        factors=_FACTORS,
    )
)

# --- send, recv -----------------------------------------------------------------------------------

_SEND_EXAMPLE = """HloModule send_example
ENTRY e {
  x = f32[2] parameter(0)
  t = token[] after-all()
  s = (f32[2], u32[], token[]) send(x, t), channel_id=7, is_host_transfer=true
  ROOT d = token[] send-done(s), channel_id=7, is_host_transfer=true
}
"""
_RECV_EXAMPLE = """HloModule recv_example
ENTRY e {
  t = token[] after-all()
  r = (f32[2], u32[], token[]) recv(t), channel_id=8, is_host_transfer=true
  ROOT d = (f32[2], token[]) recv-done(r), channel_id=8, is_host_transfer=true
}
"""


def _channel(op: OpView, ctx: EvalContext) -> deque[Any]:
    queue: deque[Any] = ctx.host.channels.setdefault(op.channel_id or 0, deque())
    return queue


def _is_between_programs(op: OpView, ctx: EvalContext) -> bool:
    """True for a transfer of one device's program to another's: a channel has two ends."""
    return ctx.host.exchange is not None and not op.is_host_transfer


def _infer_send(op: OpView) -> Shape:
    need_token(op, 1)
    return TupleShape((op.operand_shapes[0], _HANDLE, TOKEN))


def _send(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    if not names_devices(op):
        if _is_between_programs(op, ctx):
            ctx.host.exchange.send_on(op.channel_id or 0, device_number(ctx), args[0])
        else:
            _channel(op, ctx).append(args[0])
    elif (line := line_of(op, ctx, sends=True)) is not None:
        if line.source == line.target:
            _channel(op, ctx).append(args[0])
        else:
            ctx.host.exchange.send(line, args[0])
    return args[0], zeros(_HANDLE), TOKEN_VALUE


def is_open_transfer(shape: Shape) -> bool:
    """True for the shape of what send and recv begin, and their done ends, as a whole."""
    return (
        isinstance(shape, TupleShape)
        and len(shape.elements) == 3
        and shape.elements[1].to_string(False) == "u32[]"
        and shape.elements[2].is_token
    )


def _need_open_transfer(op: OpView) -> Shape:
    """Return the data of operand 0, which has to be `(data, u32[], token[])`."""
    shape = op.operand_shapes[0]
    if not (isinstance(shape, TupleShape) and is_open_transfer(shape)):
        raise InferError(
            f"{op.opcode}: operand 0 has shape {shape.to_string(False)}, "
            "(data, u32[], token[]) is needed",
            operand=0, code="type-mismatch",
        )  # fmt: skip
    return shape.elements[0]


def _infer_send_done(op: OpView) -> Shape:
    _need_open_transfer(op)
    return TOKEN


def _send_done(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    return TOKEN_VALUE


def _infer_recv(op: OpView) -> Shape:
    need_token(op, 0)
    return TupleShape((_data_of_result(op, 3), _HANDLE, TOKEN))


def _recv(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    if names_devices(op):
        # Its done need not say again from whom.
        channel = op.channel_id or 0
        ctx.host.receiving.setdefault(channel, deque()).append(line_of(op, ctx, sends=False))
    # The data arrives by the time of recv-done: what sends it may run in between.
    return zeros(op.shape)


def _infer_recv_done(op: OpView) -> Shape:
    return TupleShape((_need_open_transfer(op), TOKEN))


def _recv_done(op: OpView, args: Sequence[Any], ctx: EvalContext) -> Any:
    queue, shape = _channel(op, ctx), _need_open_transfer(op)
    lines: deque[Any] = ctx.host.receiving.get(op.channel_id or 0, deque())
    if lines:
        line = lines.popleft()
        if line is None:  # no one sends to this device
            return zeros(shape), TOKEN_VALUE
        if line.source != line.target:
            value = ctx.host.exchange.receive(op, line)
            return conforming(op, value, shape, f"the value of device {line.source}"), TOKEN_VALUE
    elif _is_between_programs(op, ctx):
        channel = op.channel_id or 0
        value = ctx.host.exchange.receive_on(op, channel, device_number(ctx))
        return conforming(op, value, shape, f"the value on channel {channel}"), TOKEN_VALUE
    if not queue:
        raise InferError(
            f"recv-done: nothing was sent on channel {op.channel_id or 0}, "
            f"{shape.to_string(False)} is next",
            code="empty-queue", hint="put values into Host.channels before the run",
        )  # fmt: skip
    return conforming(op, queue.popleft(), shape, "the value on the channel"), TOKEN_VALUE


for _name, _arity, _infer, _evaluate, _source, _example in (
    ("send", 2, _infer_send, _send, "003 Send", _SEND_EXAMPLE),
    ("send-done", 1, _infer_send_done, _send_done, "003 SendDone", _SEND_EXAMPLE),
    ("recv", 1, _infer_recv, _recv, "003 Recv", _RECV_EXAMPLE),
    ("recv-done", 1, _infer_recv_done, _recv_done, "003 RecvDone", _RECV_EXAMPLE),
):
    register(
        OpSpec(
            _name,
            _arity,
            _infer,
            _evaluate,
            Category.HOST,
            _source,
            (_example,),
            attrs=_TRANSFER,
            traits=_EFFECTS,
            factors=_FACTORS,
            continued_by=() if _name.endswith("-done") else (f"{_name}-done",),
        )
    )
