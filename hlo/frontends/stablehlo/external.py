"""Communication with the outside: custom calls, host queues, sends and receives."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from hlo.errors import InferError
from hlo.frontends.stablehlo.collective import channel_id, pairs_of
from hlo.frontends.stablehlo.constants import dense_array
from hlo.frontends.stablehlo.context import Context, integers
from hlo.frontends.stablehlo.cursor import Cursor, Tagged
from hlo.frontends.stablehlo.sdy import note
from hlo.frontends.stablehlo.types import FUTURE
from hlo.ir import Instruction
from hlo.ops.attrs import OutputAlias, SliceDim
from hlo.ops.host.custom import API_VERSIONS
from hlo.ops.host.sharding_rules import ATTRIBUTE, CUSTOM_PARTITIONING
from hlo.values.types import TOKEN, U32, ArrayShape, Layout, Shape, TupleShape, array


def _with_order(shape: Shape, order: list[int], what: str) -> Shape:
    if not isinstance(shape, ArrayShape):
        if order:
            raise InferError(f"{what} has {order} for {shape}", code="bad-layout")
        return shape
    if sorted(order) != list(range(shape.rank)):
        raise InferError(f"{what} has {order} for {shape}", code="bad-layout")
    return shape.with_layout(Layout(tuple(order)))


def _layouts(c: Context, key: str, shapes: list[Shape]) -> list[Shape]:
    """Return shapes with the layouts in an attribute."""
    if key not in c.op.attrs:
        return shapes
    orders = c.listed(key)
    if len(orders) != len(shapes):
        raise InferError(f"{key} has {len(orders)} layouts for {len(shapes)} values",
                         code="bad-layout")  # fmt: skip
    found = []
    for shape, order in zip(shapes, orders, strict=True):
        if order.type is not None:
            numbers = dense_array(order.text, order.type, order.start).reshape(-1).tolist()
            shape = _with_order(shape, numbers, key)
        found.append(shape)
    return found


def custom_call(c: Context) -> Instruction:
    """Append a custom call."""
    attrs = c.op.attrs
    results = list(c.op.result_types)
    alone = results[0] if len(results) == 1 else None
    if isinstance(alone, TupleShape):
        elements = _layouts(c, "result_layouts", list(alone.elements))
        shape: Shape = TupleShape(tuple(elements))
    else:
        results = _layouts(c, "result_layouts", results)
        shape = results[0] if len(results) == 1 else TupleShape(tuple(results))
    version = c.integer("api_version", default=1)
    _check_config(c, version)
    config = attrs.get("backend_config")
    if version == 1 and "mhlo.backend_config" in attrs:
        # As in XLA: a dictionary as configuration means the newest API version.
        version, config = len(API_VERSIONS) - 1, attrs["mhlo.backend_config"]
    if not 0 <= version < len(API_VERSIONS):
        raise InferError(f"api_version {version} is not known", code="bad-value")
    _check_layouts(c)
    aliases = []
    for alias in c.listed("output_operand_aliases"):
        found = alias.pairs()
        (operand,) = integers([found.get("operand_index", 0)], "operand_index")
        output, inside = (integers(found.get(k, ()), k)
                          for k in ("output_tuple_indices", "operand_tuple_indices"))  # fmt: skip
        aliases.append(OutputAlias(output, operand, inside))
    called = attrs.get("called_computations", [])
    if not isinstance(called, list) or not all(isinstance(name, str) for name in called):
        raise InferError("called_computations is a list of symbols", code="bad-value")
    inst = c.b.op(
        "custom-call", *c.operands, shape=shape,
        custom_call_target=str(c.attr("call_target_name")),
        custom_call_has_side_effect=c.flag("has_side_effect"),
        api_version=API_VERSIONS[version],
        output_to_operand_aliasing=tuple(aliases),
        operand_layout_constraints=_constraints(c),
        **_called(c, called),
    )  # fmt: skip
    if config:
        inst.annotations["backend_config"] = str(config)
    rule = attrs.get("sdy.sharding_rule")
    if isinstance(rule, Tagged) and inst.custom_call_target == CUSTOM_PARTITIONING:
        note(inst, ATTRIBUTE, rule)  # those of other targets are known here
    return inst


def _constraints(c: Context) -> tuple[Shape, ...] | None:
    """Return operands' shapes with their layouts. As in XLA, there are none beside a future."""
    if "operand_layouts" not in c.op.attrs:
        return None
    shapes = tuple(_layouts(c, "operand_layouts", [o.shape for o in c.operands]))
    return None if FUTURE in c.op.operand_types else shapes


def control_dependence(c: Context) -> Instruction:
    """Let the second operand run after the first: JAX's `control_dep`, which has no result."""
    if len(c.operands) != 2 or c.op.result_types:
        raise InferError("control_dep has two operands and no result", code="operand-count")
    before, after = c.operands
    if after.operands:  # parameters and constants do not run
        if _depends(before, after):
            raise InferError("the first operand of control_dep needs the second", code="cycle")
        after.add_control_predecessor(before)
    return c.b.tuple()


def _depends(inst: Instruction, on: Instruction) -> bool:
    seen, stack = {inst}, [inst]
    while stack:
        inst = stack.pop()
        if inst is on:
            return True
        for before in (*inst.operands, *inst.control_predecessors):
            if before not in seen:
                seen.add(before)
                stack.append(before)
    return False


def _check_config(c: Context, version: int) -> None:
    """Raise InferError unless the configuration is what the version of the interface has."""
    kind = c.op.attrs.kinds.get("backend_config")
    wanted = "dictionary" if version == len(API_VERSIONS) - 1 else "string"
    if kind not in (None, wanted):
        raise InferError(f"backend_config of api_version {version} is a {wanted}, not a {kind}",
                         code="bad-value")  # fmt: skip


def _check_layouts(c: Context) -> None:
    """Raise InferError unless operands and results both have layouts, or none have."""
    keys = {"operand_layouts", "result_layouts"} & c.op.attrs.keys()
    if len(keys) == 1:
        raise InferError(f"there are {keys.pop()} only: operands and results have them, or none",
                         code="bad-layout")  # fmt: skip
    tuples = [x for x in c.op.operand_types if isinstance(x, TupleShape) and x != FUTURE]
    if keys and tuples:
        raise InferError("operands with layouts are not tuples", code="bad-layout")


def approx_top_k(c: Context) -> Instruction:
    """Append an approximate top-k, which is computed exactly.

    The operands are arrays and as many initial values, which only its partial form uses.
    """
    count = len(c.operands) // 2
    config = Cursor(
        str(c.op.attrs.get("mhlo.backend_config") or c.attr("backend_config"))
    ).attribute()
    dim = config.get("reduction_dim") if isinstance(config, dict) else None
    names = c.op.attrs.get("called_computations")
    shapes = c.op.result_types
    if (
        type(dim) is not int
        or not isinstance(names, list)
        or len(names) != 1
        or (len(shapes) != count or not 0 <= dim < c.operand(0).array_shape.rank)
    ):
        raise InferError("ApproxTopK has a reduction_dim and one computation", code="bad-value")
    comparator = c.converter.function(str(names[0]), c.op.start)
    arrays = c.operands[:count]
    shape = TupleShape(tuple(a.shape for a in arrays)) if count > 1 else arrays[0].shape
    ordered = c.b.op("sort", *arrays, shape=shape, dimensions=(dim,), to_apply=comparator)
    parts = [c.b.element(ordered, i) for i in range(count)] if count > 1 else [ordered]
    found = []
    for part, result in zip(parts, shapes, strict=True):
        if not isinstance(result, ArrayShape) or result.rank != part.array_shape.rank:
            raise InferError("its results are parts of its operands", code="shape-mismatch")
        bounds = tuple(SliceDim(0, n, 1) for n in result.dims)
        found.append(c.b.op("slice", part, slice=bounds))
    return found[0] if count == 1 else c.b.tuple(*found)


def _called(c: Context, names: list[str]) -> dict[str, Any]:
    comps = [c.converter.function(name, c.op.start) for name in names]
    if len(comps) == 1:
        return {"to_apply": comps[0]}
    return {"called_computations": tuple(comps)}


# --- send, recv ---------------------------------------------------------------------------------


def after_all(c: Context) -> Instruction:
    """Append a token that joins others."""
    if not all(o.shape.is_token for o in c.operands):
        raise InferError("its operands are tokens", code="type-mismatch")
    return c.make("after-all")


# Kinds of channels: among devices, from a device to its host, and back.
_AMONG_DEVICES, _TO_HOST, _FROM_HOST = 1, 2, 3


def _transfer(c: Context, to_or_from_host: int) -> dict[str, Any]:
    is_of_host = c.flag("is_host_transfer")
    kind = c.tagged("channel_handle").get("type")
    wanted = to_or_from_host if is_of_host else _AMONG_DEVICES
    if kind != wanted:
        raise InferError(f"the type of channel_handle is {wanted} with is_host_transfer = "
                         f"{str(is_of_host).lower()}, not {kind}", code="bad-value")  # fmt: skip
    return {"channel_id": channel_id(c), "is_host_transfer": c.flag("is_host_transfer")}


def _with_pairs(c: Context) -> None:
    """Keep the source-target pairs, which are a frontend attribute in HLO."""
    if "source_target_pairs" not in c.op.attrs:
        return
    pairs = ",".join(f"{{{','.join(map(str, p))}}}" for p in pairs_of(c, "source_target_pairs"))
    for inst in c.b.built:
        known = dict(inst.annotations.get("frontend_attributes", {}))
        known["_xla_send_recv_source_target_pairs"] = f"{{{pairs}}}"
        inst.annotations["frontend_attributes"] = MappingProxyType(known)


def send(c: Context) -> Instruction:
    """Append a send and its done."""
    *values, token = _with_token(c)
    value = values[0] if len(values) == 1 else c.b.tuple(*values)
    shape = TupleShape((value.shape, array(U32, ()), TOKEN))
    transfer = _transfer(c, _TO_HOST)
    done = c.b.op("send-done", c.b.op("send", value, token, shape=shape, **transfer),
                  shape=TOKEN, **transfer)  # fmt: skip
    _with_pairs(c)
    return done


def recv(c: Context) -> Instruction:
    """Append a receive and its done."""
    *values, _ = _results_with_token(c)
    token = _only_token(c)
    value = values[0] if len(values) == 1 else TupleShape(tuple(values))
    transfer = _transfer(c, _FROM_HOST)
    start = c.b.op("recv", token, shape=TupleShape((value, array(U32, ()), TOKEN)), **transfer)
    done = c.b.op("recv-done", start, shape=TupleShape((value, TOKEN)), **transfer)
    if len(values) != 1:
        inside = c.b.element(done, 0)
        parts = [c.b.element(inside, i) for i in range(len(values))]
        done = c.b.tuple(*parts, c.b.element(done, 1))
    _with_pairs(c)
    return done


def _with_token(c: Context) -> list[Instruction]:
    """Return the operands: arrays, and a token."""
    if not c.operands or not c.operands[-1].shape.is_token:
        raise InferError("its last operand is a token", code="type-mismatch")
    if not all(isinstance(o.shape, ArrayShape) for o in c.operands[:-1]):
        raise InferError("its operands in front of the token are arrays", code="type-mismatch")
    return c.operands


def _only_token(c: Context) -> Instruction:
    if len(c.operands) != 1:
        raise InferError(f"a token is needed, not {len(c.operands)} operands", code="operand-count")
    return _with_token(c)[0]


def _results_with_token(c: Context) -> list[Shape]:
    """Return the shapes of the results: arrays, and a token."""
    results = list(c.op.result_types)
    if not results or not results[-1].is_token:
        raise InferError("its last result is a token", code="type-mismatch")
    if not all(isinstance(s, ArrayShape) for s in results[:-1]):
        raise InferError("its results in front of the token are arrays", code="type-mismatch")
    return results


# --- infeed, outfeed ----------------------------------------------------------------------------


def infeed(c: Context) -> Instruction:
    """Append an infeed of a tuple, whose elements are the results."""
    *shapes, _ = _results_with_token(c)
    orders = c.op.attrs.get("layout", [])
    if orders:
        if not isinstance(orders, list) or len(orders) != len(shapes):
            raise InferError("layout has a list for each result", code="bad-layout")
        # A scalar has one layout, whatever the text says: XLA accepts [0] too.
        shapes = [_with_order(s, list(integers(o, "layout")), "layout")
                  if isinstance(s, ArrayShape) and s.dims else s
                  for s, o in zip(shapes, orders, strict=True)]  # fmt: skip
    token = _only_token(c)
    shape = TupleShape((TupleShape(tuple(shapes)), TOKEN))
    fed = c.b.op(
        "infeed", token, shape=shape, infeed_config=str(c.op.attrs.get("infeed_config", ""))
    )
    if not shapes:
        return c.b.element(fed, 1)
    inside = c.b.element(fed, 0)
    return c.b.tuple(*(c.b.element(inside, i) for i in range(len(shapes))), c.b.element(fed, 1))


def outfeed(c: Context) -> Instruction:
    """Append an outfeed of a tuple."""
    *values, token = _with_token(c)
    value = c.b.tuple(*values)
    return c.b.op("outfeed", value, token, shape=TOKEN, outfeed_shape=value.shape,
                  outfeed_config=str(c.op.attrs.get("outfeed_config", "")))  # fmt: skip
