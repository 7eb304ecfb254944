"""Exchange with the host and with other programs: infeed, outfeed, send, receive.

A handle is the number of a channel: a send and a receive with one number belong together.
"""

from __future__ import annotations

from typing import Any

from hlo.errors import InferError
from hlo.frontends.builder import control, tuples
from hlo.frontends.builder.checks import check_shape
from hlo.frontends.builder.coercion import ShapeLike, shape_of
from hlo.frontends.builder.core import BuilderCore, XlaOp, emit, operation
from hlo.values.types import TOKEN, U32, TupleShape, array

# --- infeed, outfeed ------------------------------------------------------------------------


@operation
def infeed(builder: BuilderCore[XlaOp], shape: ShapeLike, config: str = "") -> XlaOp:
    """Append the next value of the device's infeed.

    shape: an array, or a tuple of values; nothing is read for an empty tuple. Values are those
    of `Host.infeed`, in the order in which infeeds run. config: text that goes with it.

    Source: "Infeed" (004, 000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> x = b.infeed("f32[2]")
    >>> host = hlo.Host()
    >>> host.infeed.append(np.float32([1, 2]))
    >>> hlo.interpret(b.build().module(), host=host)
    array([1., 2.], dtype=float32)
    """
    return tuples.get_tuple_element(
        builder, infeed_with_token(builder, control.create_token(builder), shape, config), 0
    )


@operation
def infeed_with_token(
    builder: BuilderCore[XlaOp], token: XlaOp, shape: ShapeLike, config: str = ""
) -> XlaOp:
    """Append the next value of the device's infeed after a token: a tuple of it and a token.

    shape, config and errors as for `infeed`.

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.infeed_with_token(b.create_token(), "f32[2]").shape)
    (f32[2]{0}, token[])
    """
    result = TupleShape((shape_of(shape), TOKEN))
    return emit(builder, "infeed", token, shape=result, infeed_config=config)


@operation
def outfeed(
    builder: BuilderCore[XlaOp],
    operand: XlaOp,
    shape_with_layout: ShapeLike | None = None,
    outfeed_config: str = "",
) -> XlaOp:
    """Append the writing of a value to the device's outfeed; returns a token.

    shape_with_layout: the operand's shape, in the layout in which the host gets it.
    outfeed_config: text that goes with it.

    Raises HloError for another shape than the operand's. Source: "Outfeed" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.outfeed(b.parameter(0, "f32[2]")).shape)
    token[]
    """
    token = control.create_token(builder)
    return outfeed_with_token(builder, operand, token, shape_with_layout, outfeed_config)


@operation
def outfeed_with_token(
    builder: BuilderCore[XlaOp],
    operand: XlaOp, token: XlaOp, shape_with_layout: ShapeLike | None = None,
    outfeed_config: str = "",
) -> XlaOp:  # fmt: skip
    """Append the writing of a value to the device's outfeed after a token; returns a token.

    shape_with_layout: the operand's shape, in the layout in which the host gets it.
    outfeed_config: text that goes with it.

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.outfeed_with_token(b.parameter(0, "f32[2]"), b.create_token()).shape)
    token[]
    """
    shape = operand.shape if shape_with_layout is None else shape_of(shape_with_layout)
    return emit(
        builder, "outfeed", operand, token, outfeed_shape=shape, outfeed_config=outfeed_config,
    )  # fmt: skip


@operation
def trace(builder: BuilderCore[XlaOp], tag: str, operand: XlaOp) -> XlaOp:
    """Append the writing of a value to the outfeed under a tag; returns a token.

    Source: "C++ interface" (004).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.trace("step", b.parameter(0, "f32[2]")).shape)
    token[]
    """
    return outfeed(builder, operand, outfeed_config=tag)


# --- send, receive --------------------------------------------------------------------------


@operation
def send(builder: BuilderCore[XlaOp], operand: XlaOp, handle: int) -> XlaOp:
    """Append the sending of a value to another program; returns a token.

    handle: the number that its `recv` has too.

    Source: "Send" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.send(b.parameter(0, "f32[2]"), 7).shape)
    token[]
    """
    return send_with_token(builder, operand, control.create_token(builder), handle)


@operation
def send_with_token(
    builder: BuilderCore[XlaOp], operand: XlaOp, token: XlaOp, handle: int
) -> XlaOp:
    """Append the sending of a value after a token; returns a token.

    handle: the number that the receipt has too.

    Source: "Send" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.send_with_token(b.parameter(0, "f32[2]"), b.create_token(), 7).shape)
    token[]
    """
    return send_done(builder, create_send(builder, operand, token, handle))


@operation
def send_to_host(
    builder: BuilderCore[XlaOp],
    operand: XlaOp,
    token: XlaOp,
    shape_with_layout: ShapeLike,
    handle: int,
) -> XlaOp:
    """Append the sending of a value to the host after a token; returns a token.

    shape_with_layout: the operand's shape, in the layout in which the host gets it.
    handle: the number of the channel.

    Source: "Send" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> x = b.parameter(0, "f32[2]")
    >>> print(b.send_to_host(x, b.create_token(), "f32[2]", 7).shape)
    token[]
    """
    shape = shape_of(shape_with_layout)
    operand = check_shape(builder, operand, shape)
    if operand.shape != shape:
        operand = emit(builder, "copy", operand, shape=shape)
    return send_done(builder, create_send(builder, operand, token, handle, is_host_transfer=True))


@operation
def recv(builder: BuilderCore[XlaOp], shape: ShapeLike, handle: int) -> XlaOp:
    """Append the value that another program sends.

    shape: of the value.
    handle: the number that its `send` has too.

    Source: "Recv" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.recv("f32[2]", 7).shape)
    f32[2]{0}
    """
    return tuples.get_tuple_element(
        builder, recv_with_token(builder, control.create_token(builder), shape, handle), 0
    )


@operation
def recv_with_token(
    builder: BuilderCore[XlaOp], token: XlaOp, shape: ShapeLike, handle: int
) -> XlaOp:
    """Append the value that another program sends, after a token: a tuple of it and a token.

    shape: of the value.
    handle: the number that the sending has too.

    Source: "Recv" (003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.recv_with_token(b.create_token(), "f32[2]", 7).shape)
    (f32[2]{0}, token[])
    """
    return recv_done(builder, create_recv(builder, token, shape, handle))


@operation
def recv_from_host(
    builder: BuilderCore[XlaOp], token: XlaOp, shape: ShapeLike, handle: int
) -> XlaOp:
    """Append the value that the host sends, after a token: a tuple of it and a token.

    shape: of the value.
    handle: the number of the channel.

    Source: "Recv" (003), as RecvToHost.

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.recv_from_host(b.create_token(), "f32[2]", 7).shape)
    (f32[2]{0}, token[])
    """
    return recv_done(builder, create_recv(builder, token, shape, handle, is_host_transfer=True))


# The newest document's spellings.
send_with_tokens = send_with_token
recv_with_tokens = recv_with_token
recv_to_host = recv_from_host

# --- the halves of a transfer ---------------------------------------------------------------


@operation
def create_send(
    builder: BuilderCore[XlaOp],
    operand: XlaOp,
    token: XlaOp,
    channel_id: int,
    is_host_transfer: bool = False,
) -> XlaOp:
    """Append the start of a sending after a token: a context for `send_done` alone.

    channel_id: the number that the receipt has too.
    is_host_transfer: whether it is the host that receives.

    Source: "Send" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.create_send(b.parameter(0, "f32[2]"), b.create_token(), 7).shape)
    (f32[2]{0}, u32[], token[])
    """
    return emit(
        builder, "send", operand, token, channel_id=channel_id, is_host_transfer=is_host_transfer
    )


@operation
def send_done(builder: BuilderCore[XlaOp], context: XlaOp) -> XlaOp:
    """Append the end of a sending; returns a token.

    context: what `create_send` gave, and nothing else.

    Source: "SendDone" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.send_done(b.create_send(b.parameter(0, "f32[2]"), b.create_token(), 7)).shape)
    token[]
    """
    return emit(builder, "send-done", context, **_channel_of(context, "send"))


@operation
def create_recv(
    builder: BuilderCore[XlaOp],
    token: XlaOp,
    shape: ShapeLike,
    channel_id: int,
    is_host_transfer: bool = False,
) -> XlaOp:
    """Append the start of a receipt after a token: a context for `recv_done` alone.

    shape: of the value.
    channel_id: the number that the sending has too.
    is_host_transfer: whether it is the host that sends.

    Source: "Recv" (002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.create_recv(b.create_token(), "f32[2]", 7).shape)
    (f32[2]{0}, u32[], token[])
    """
    result = TupleShape((shape_of(shape), array(U32, ()), TOKEN))
    return emit(
        builder,
        "recv",
        token,
        shape=result,
        channel_id=channel_id,
        is_host_transfer=is_host_transfer,
    )


@operation
def recv_done(builder: BuilderCore[XlaOp], context: XlaOp) -> XlaOp:
    """Append the end of a receipt: a tuple of the value and a token.

    context: what `create_recv` gave, and nothing else.

    Source: "RecvDone" (000, 002, 003).

    >>> b = hlo.XlaBuilder("m")
    >>> print(b.recv_done(b.create_recv(b.create_token(), "f32[2]", 7)).shape)
    (f32[2]{0}, token[])
    """
    return emit(builder, "recv-done", context, **_channel_of(context, "recv"))


def _channel_of(context: XlaOp, opcode: str) -> dict[str, Any]:
    """Return the channel of the start of a transfer."""
    start = context.instruction
    if start.opcode != opcode:
        raise InferError(
            f"{opcode}-done: operand 0 is {start.name}, the {opcode} itself is needed",
            operand=0, code="bad-value",
        )  # fmt: skip
    return {key: start.attrs[key] for key in ("channel_id", "is_host_transfer")}
