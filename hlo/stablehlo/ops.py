"""Operations of StableHLO as instructions: a table of names, and a function where more is to say.

The pretty form of an operation and the generic one have different names for some attributes; both
are read. Source: the StableHLO specification.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hlo.errors import InferError, TextError
from hlo.ir import Computation, Instruction
from hlo.ir.builder import Builder
from hlo.ops import OPS
from hlo.ops.attrs import CONV_DIMS, OutputAlias, PadDim, SliceDim, WindowDim
from hlo.ops.custom import API_VERSIONS
from hlo.replica_groups import ListedGroups
from hlo.scan import Scanner
from hlo.sharding_text import read_sharding
from hlo.stablehlo.syntax import Block, Op, Tagged, free_names
from hlo.stablehlo.types import dense_array, read_dense
from hlo.types import F32, ArrayShape, Layout, Shape, TupleShape, array

if TYPE_CHECKING:
    from hlo.stablehlo.convert import Converter


def shape_of(op: Op) -> Shape:
    """Return what an operation says its result is: a tuple where it has several."""
    types = op.result_types
    if op.operand_types is None and sum(n for _, n in op.results) <= 1:
        types = types[-1:]
    return types[0] if len(types) == 1 else TupleShape(tuple(types))


@dataclass(frozen=True)
class Context:
    """An operation that is being converted."""

    converter: Converter
    b: Builder
    op: Op
    operands: list[Instruction]
    values: dict[str, list[Instruction]]

    @property
    def shape(self) -> Shape:
        return shape_of(self.op)

    def attr(self, *names: str, default: Any = None) -> Any:
        """Return an attribute by the first of its names that is there."""
        for name in names:
            if name in self.op.attrs:
                return self.op.attrs[name]
        if default is None:
            raise InferError(f"{names[-1]} is missing", code="missing-attribute")
        return default

    def operand(self, index: int) -> Instruction:
        """Return an operand that is an array."""
        if index >= len(self.operands):
            raise InferError(f"{len(self.operands)} operands are too few", code="operand-count")
        if not isinstance(self.operands[index].shape, ArrayShape):
            raise InferError(f"operand {index} is no array", code="type-mismatch")
        return self.operands[index]

    def ints(self, *names: str, default: Any = None) -> tuple[int, ...]:
        """Return an attribute that is a list of integers."""
        value = self.attr(*names, default=default)
        if isinstance(value, Tagged) and value.type is not None:
            value = dense_array(value.text, value.type, value.start).reshape(-1).tolist()
        return integers(value, names[0])

    def flag(self, name: str) -> bool:
        """Return an attribute that is true or false, false where it is absent."""
        value = self.op.attrs.get(name, False)
        if not isinstance(value, bool):
            raise InferError(f"{name} is true or false, not {value!r}", code="bad-value")
        return value

    def integer(self, *names: str, default: Any = None) -> int:
        """Return an attribute that is one integer."""
        value = self.attr(*names, default=default)
        if type(value) is not int:
            raise InferError(f"{names[0]} is an integer, not {value!r}", code="bad-value")
        return value

    def word(self, index: int, *names: str, default: Any = None) -> str:
        """Return a word: in the pretty form that at a place, else an attribute's last one."""
        if len(self.op.words) > index and names[0] not in self.op.attrs:
            return self.op.words[index]
        value = self.attr(*names, default=default)
        words = (value.text if isinstance(value, Tagged) else str(value)).split()
        return words[-1] if words else ""

    def tagged(self, *names: str) -> dict[str, Any]:
        """Return the pairs inside an attribute such as `#stablehlo.gather<...>`."""
        value = self.attr(*names)
        if not isinstance(value, Tagged):
            raise InferError(f"{names[0]} is an attribute in brackets", code="bad-value")
        return value.pairs()

    def listed(self, name: str) -> list[Tagged]:
        """Return an attribute that is a list of attributes in brackets, empty where absent."""
        values = self.op.attrs.get(name, [])
        if not isinstance(values, list) or not all(isinstance(v, Tagged) for v in values):
            raise InferError(f"{name} is a list of attributes in brackets", code="bad-value")
        return values

    def make(self, opcode: str, **attrs: Any) -> Instruction:
        """Append an instruction on the operands, of the shape that the operation says."""
        OPS[opcode].check_arity(len(self.operands))
        return self.b.op(opcode, *self.operands, shape=self.shape, **attrs)

    def reducer(self, index: int = 0) -> Computation:
        """Return the computation of a region on scalars."""
        op = self.op
        if op.regions:
            if index >= len(op.regions):
                raise InferError("a region is missing", code="bad-computation")
            block = op.regions[index]
            shapes = [s for _, s in block.arguments]
            return self.converter.region(block, "region", shapes, op, self.values)
        # `applies stablehlo.add`.
        if len(op.words) < 2 or op.words[0] != "applies":
            raise InferError("a region is missing", code="bad-computation")
        scalar = array(self.operand(0).array_shape.element_type, ())
        inner = Op(op.words[1], op.start, op.end, [("r", 1)], ["x", "y"], [op.start, op.start])
        inner.result_types = [scalar]
        last = Op("return", op.start, op.end, operands=["r"], operand_starts=[op.start])
        block = Block([("x", scalar), ("y", scalar)], [inner, last])
        return self.converter.region(block, "region", [scalar, scalar], op, {})


def integers(value: Any, what: str) -> tuple[int, ...]:
    """Return a list of integers. Raises InferError for anything else."""
    if not isinstance(value, list | tuple) or not all(type(v) is int for v in value):
        raise InferError(f"{what} is a list of integers, not {value!r}", code="bad-value")
    return tuple(value)


Handler = Callable[[Context], Instruction]


def _plain(opcode: str) -> Handler:
    return lambda c: c.make(opcode)


# --- data movement ------------------------------------------------------------------------------


def _constant(c: Context) -> Instruction:
    value = c.attr("value")
    if not isinstance(value, Tagged) or value.name != "dense" or value.type is None:
        raise InferError("its value is not dense<..>", code="bad-value")
    constant = c.b.literal(read_dense(value.text, value.type, value.start))
    assert isinstance(value.type, ArrayShape)
    return c.b.broadcast(constant, value.type) if constant.shape != value.type else constant


def _broadcast_in_dim(c: Context) -> Instruction:
    dims = c.ints("dims", "broadcast_dimensions")
    x, result = c.operand(0), c.shape
    if not isinstance(result, ArrayShape) or len(dims) != x.array_shape.rank:
        raise InferError("dims does not name a dimension for each of the operand's",
                         code="bad-dimension")  # fmt: skip
    if any(not 0 <= d < result.rank for d in dims):
        raise InferError(f"dims {list(dims)} are not all below {result.rank}", code="bad-dimension")
    # HLO's broadcast repeats no dimension of size one.
    sizes = x.array_shape.dims
    kept = [i for i, d in enumerate(dims) if sizes[i] == result.dims[d]]
    if len(kept) < len(dims):
        x = c.b.reshape(x, [sizes[i] for i in kept])
        dims = tuple(dims[i] for i in kept)
    return c.b.op("broadcast", x, shape=result, dimensions=dims)


def _slice(c: Context) -> Instruction:
    if "[" in c.op.attrs:
        dims = []
        for part in filter(str.strip, c.op.attrs["["].split(",")):
            numbers = [x.strip() for x in part.split(":")]
            if not (2 <= len(numbers) <= 3 and all(x.isdecimal() for x in numbers)):
                raise InferError(f"{part.strip()!r} is no start:limit:stride", code="bad-value")
            dims.append(SliceDim(*map(int, numbers)))
        return c.make("slice", slice=tuple(dims))
    parts = (c.ints("start_indices"), c.ints("limit_indices"), c.ints("strides"))
    return c.make("slice", slice=tuple(SliceDim(*d) for d in zip(*parts, strict=False)))


def _pad(c: Context) -> Instruction:
    parts = (
        c.ints("low", "edge_padding_low"), c.ints("high", "edge_padding_high"),
        c.ints("interior", "interior_padding"),
    )  # fmt: skip
    return c.make("pad", padding=tuple(PadDim(*d) for d in zip(*parts, strict=False)))


_GATHER = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
           "start_indices_batching_dims")  # fmt: skip
_SCATTER = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims",
            "input_batching_dims", "scatter_indices_batching_dims")  # fmt: skip


def _dimension_numbers(found: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    attrs: dict[str, Any] = {name: integers(found.get(name, ()), name) for name in names}
    (vector,) = integers([found.get("index_vector_dim", 0)], "index_vector_dim")
    return attrs | {"index_vector_dim": vector}


def _gather(c: Context) -> Instruction:
    return c.make(
        "gather", **_dimension_numbers(c.tagged("dimension_numbers"), _GATHER),
        slice_sizes=c.ints("slice_sizes"),
        indices_are_sorted=c.flag("indices_are_sorted"),
    )  # fmt: skip


def _scatter(c: Context) -> Instruction:
    return c.make(
        "scatter", **_dimension_numbers(c.tagged("scatter_dimension_numbers"), _SCATTER),
        indices_are_sorted=c.flag("indices_are_sorted"),
        unique_indices=c.flag("unique_indices"), to_apply=c.reducer(),
    )  # fmt: skip


# --- contractions and windows -------------------------------------------------------------------


def _precision(c: Context) -> tuple[str, ...]:
    words = c.attr("precision", "precision_config", default=[])
    if not isinstance(words, list):
        raise InferError("precision is a list of words", code="bad-value")
    found = tuple(
        (w.text if isinstance(w, Tagged) else str(w)).rpartition(" ")[2].lower() for w in words
    )
    if not set(found) <= {"default", "high", "highest"}:
        raise InferError(f"precision is {', '.join(found)}", code="bad-value")
    return found or ("default", "default")


def _dot_general(c: Context) -> Instruction:
    if "dot_dimension_numbers" in c.op.attrs:
        found = c.tagged("dot_dimension_numbers")
    else:
        batch, contracting = (c.attr(k, default=([], []))
                              for k in ("batching_dims", "contracting_dims"))  # fmt: skip
        if not all(isinstance(p, tuple) and len(p) == 2 for p in (batch, contracting)):
            raise InferError("dimensions are two lists, [..] x [..]", code="bad-value")
        found = {f"{side}_{kind}_dimensions": pair[i]
                 for kind, pair in (("batching", batch), ("contracting", contracting))
                 for i, side in enumerate(("lhs", "rhs"))}  # fmt: skip
    return c.make(
        "dot", operand_precision=_precision(c),
        **{f"{side}_{short}_dims": integers(found.get(f"{side}_{long}_dimensions", ()), long)
           for side in ("lhs", "rhs")
           for short, long in (("batch", "batching"), ("contracting", "contracting"))},
    )  # fmt: skip


def _dot(c: Context) -> Instruction:
    rank = c.operand(0).array_shape.rank
    return c.make("dot", lhs_contracting_dims=(rank - 1,), rhs_contracting_dims=(0,),
                  operand_precision=_precision(c))  # fmt: skip


def _window(
    sizes: tuple[int, ...], strides: Any, pads: Any, base: Any, dilation: Any, reverse: Any
) -> tuple[WindowDim, ...]:
    rank = len(sizes)
    columns = [list(x) if x else [n] * rank
               for x, n in ((strides, 1), (base, 1), (dilation, 1), (reverse, False))]  # fmt: skip
    flat = [n for p in pads or () for n in (p if isinstance(p, list) else [p])] or [0] * 2 * rank
    if len(flat) != 2 * rank or any(len(x) != rank for x in columns):
        raise InferError(f"a window of {rank} dimensions has others in one of its attributes",
                         code="bad-value")  # fmt: skip
    flat = list(integers(flat, "padding"))
    stride, lhs, rhs = (integers(x, "window") for x in columns[:3])
    flipped = columns[3]
    return tuple(
        WindowDim(sizes[i], stride[i], flat[2 * i], flat[2 * i + 1], lhs[i], rhs[i],
                  bool(flipped[i]))
        for i in range(rank)
    )  # fmt: skip


def _labels(text: str) -> str:
    """Return `[b, 0, f]x[0, i, o]->[b, 0, f]` as HLO writes it."""
    return "".join(ch for ch in text.replace("]x[", "_") if ch not in "[] ,\n\t")


def _convolution(c: Context) -> Instruction:
    window = c.op.attrs.get("window", {})
    if not isinstance(window, dict):
        raise InferError("window is {..}", code="bad-value")
    if "dim_numbers" in c.op.attrs:
        text = c.op.attrs["dim_numbers"]
    else:
        value = c.attr("dimension_numbers")
        text = value.text if isinstance(value, Tagged) else ""
    try:
        dims = CONV_DIMS.parse(_labels(text))
    except TextError as e:
        raise InferError(e.message, code=e.code) from None
    if any(d >= c.operand(1).array_shape.rank for d in dims.kernel_spatial):
        raise InferError("the kernel has fewer dimensions than labels", code="bad-dimension")
    sizes = tuple(c.operand(1).array_shape.dims[d] for d in dims.kernel_spatial)

    def part(short: str, long: str) -> Any:
        value = window.get(short, c.op.attrs.get(long, []))
        return list(c.ints(long)) if isinstance(value, Tagged) else value

    return c.make(
        "convolution",
        window=_window(
            sizes, part("stride", "window_strides"), part("pad", "padding"),
            part("lhs_dilate", "lhs_dilation"), part("rhs_dilate", "rhs_dilation"),
            part("reverse", "window_reversal"),
        ),
        dim_labels=dims,
        feature_group_count=c.integer("feature_group_count", default=1),
        batch_group_count=c.integer("batch_group_count", default=1),
        operand_precision=_precision(c),
    )  # fmt: skip


def _window_of(c: Context) -> tuple[WindowDim, ...]:
    none: tuple[int, ...] = ()
    return _window(
        c.ints("window_dimensions"), c.ints("window_strides", default=none),
        c.ints("padding", default=none), c.ints("base_dilations", default=none),
        c.ints("window_dilations", default=none), none,
    )  # fmt: skip


# --- reductions, sorting ------------------------------------------------------------------------


def _reduce(c: Context) -> Instruction:
    return c.make("reduce", dimensions=c.ints("dimensions"), to_apply=c.reducer())


def _sort(c: Context) -> Instruction:
    dim = c.integer("dimension", default=-1)
    return c.make(
        "sort", dimensions=(dim + c.operand(0).array_shape.rank if dim < 0 else dim,),
        is_stable=c.flag("is_stable"), to_apply=c.reducer(),
    )  # fmt: skip


def _top_k(c: Context) -> Instruction:
    return c.make("topk", k=c.integer("k"), largest=True)


# --- control flow -------------------------------------------------------------------------------


def _call(c: Context) -> Instruction:
    callee = c.converter.function(str(c.attr("@", "callee")), c.op.start)
    return c.b.op("call", *c.operands, to_apply=callee)


def _captured(c: Context, *blocks: Block) -> tuple[list[str], list[Instruction]]:
    """Return the values that regions use from outside: their names inside, and what they are."""
    names: list[str] = []
    values: list[Instruction] = []
    for name in dict.fromkeys(n for block in blocks for n in free_names(block)):
        known = c.values.get(name, [])
        for i, inst in enumerate(known):
            if inst not in values:
                names.append(f"{name}#{i}")
                values.append(inst)
    return names, values


def _with_state(c: Context, block: Block) -> Block:
    """Return a region of a loop with its arguments, which the pretty form names once for both."""
    names = c.op.state or _names(block)
    if len(names) != len(c.operands):
        raise InferError(f"{len(c.operands)} values have {len(names)} names", code="operand-count")
    return Block([(n, o.shape) for n, o in zip(names, c.operands, strict=True)], block.ops)


def _names(block: Block) -> list[str]:
    return [name for name, _ in block.arguments]


def _while(c: Context) -> Instruction:
    if len(c.op.regions) != 2:
        raise InferError("a loop has two regions", code="bad-computation")
    cond, body = (_with_state(c, block) for block in c.op.regions)
    names, captured = _captured(c, cond, body)
    elements = [*c.operands, *captured]
    shape = TupleShape(tuple(o.shape for o in elements))
    start = c.b.tuple(*elements)
    make = c.converter.unpacking
    loop = c.b.op(
        "while", start, shape=shape,
        condition=make(cond, "condition", [*_names(cond), *names], shape, c.op, -1),
        body=make(body, "body", [*_names(body), *names], shape, c.op, len(captured)),
    )  # fmt: skip
    results = [c.b.element(loop, i) for i in range(len(c.operands))]
    return results[0] if len(results) == 1 else c.b.tuple(*results)


def _conditional(c: Context) -> Instruction:
    branches, arguments = [], []
    several = len(c.op.result_types) != 1
    for block in c.op.regions:
        names, captured = _captured(c, block)
        argument = c.b.tuple(*captured)
        shape = TupleShape(tuple(v.shape for v in captured))
        branches.append(
            c.converter.unpacking(block, "branch", names, shape, c.op, 0 if several else -1)
        )
        arguments.append(argument)
    if c.op.name == "stablehlo.if":
        if len(branches) != 2:
            raise InferError("two regions are due", code="bad-computation")
        attrs = {"true_computation": branches[0], "false_computation": branches[1]}
    else:
        attrs = {"branch_computations": tuple(branches)}  # type: ignore[dict-item]
    return c.b.op("conditional", *c.operands, *arguments, shape=c.shape, **attrs)


# --- others -------------------------------------------------------------------------------------


def _compare(c: Context) -> Instruction:
    kind = c.word(1, "compare_type", default="NOTYPE")
    return c.make("compare", direction=c.word(0, "comparison_direction"),
                  type="TOTALORDER" if kind == "TOTALORDER" else None)  # fmt: skip


def _reduce_precision(c: Context) -> Instruction:
    form = str(c.op.attrs.get("format", ""))
    if form:
        exponent, _, mantissa = form.removeprefix("e").partition("m")
        if not (exponent.isdecimal() and mantissa.isdecimal()):
            raise InferError(f"{form!r} is no format such as e5m2", code="bad-value")
        bits = int(exponent), int(mantissa)
    else:
        bits = c.integer("exponent_bits"), c.integer("mantissa_bits")
    return c.make("reduce-precision", exponent_bits=bits[0], mantissa_bits=bits[1])


def _rng_bit_generator(c: Context) -> Instruction:
    word = c.word(0, "algorithm", "rng_algorithm")
    return c.make("rng-bit-generator", algorithm=f"rng_{word.lower()}")


def _layouts(c: Context, key: str, shapes: list[Shape]) -> list[Shape]:
    """Return shapes in the layouts that an attribute gives them."""
    if key not in c.op.attrs:
        return shapes
    found = []
    for shape, order in zip(shapes, c.listed(key), strict=False):
        if isinstance(shape, ArrayShape) and order.type is not None:
            numbers = dense_array(order.text, order.type, order.start).reshape(-1).tolist()
            if sorted(numbers) != list(range(shape.rank)):
                raise InferError(f"{key} has {numbers} for {shape}", code="bad-layout")
            shape = shape.with_layout(Layout(tuple(numbers)))
        found.append(shape)
    return found


def _custom_call(c: Context) -> Instruction:
    attrs = c.op.attrs
    results = _layouts(c, "result_layouts", list(c.op.result_types))
    version = c.op.attrs.get("api_version", 1)
    aliases = []
    for alias in c.listed("output_operand_aliases"):
        found = alias.pairs()
        (operand,) = integers([found.get("operand_index", 0)], "operand_index")
        output, inside = (integers(found.get(k, ()), k)
                          for k in ("output_tuple_indices", "operand_tuple_indices"))  # fmt: skip
        aliases.append(OutputAlias(output, operand, inside))
    inst = c.b.op(
        "custom-call", *c.operands,
        shape=results[0] if len(results) == 1 else TupleShape(tuple(results)),
        custom_call_target=str(c.attr("@", "call_target_name")),
        custom_call_has_side_effect=c.flag("has_side_effect"),
        api_version=API_VERSIONS[version - 1] if version in (1, 2, 3, 4) else API_VERSIONS[0],
        output_to_operand_aliasing=tuple(aliases),
        operand_layout_constraints=tuple(
            _layouts(c, "operand_layouts", [o.shape for o in c.operands])
        ) if "operand_layouts" in attrs else None,
    )  # fmt: skip
    config = attrs.get("mhlo.backend_config") or attrs.get("backend_config")
    if config:
        inst.annotations["backend_config"] = str(config)
    notes = attrs.get("mhlo.frontend_attributes")
    if isinstance(notes, dict):
        inst.annotations["frontend_attributes"] = MappingProxyType(
            {k: str(v) for k, v in sorted(notes.items())}
        )
    if "mhlo.sharding" in attrs:
        inst.annotations["sharding"] = read_sharding(Scanner(str(attrs["mhlo.sharding"])))
    return inst


def _get_tuple_element(c: Context) -> Instruction:
    text = str(c.op.attrs.get("[", c.op.attrs.get("index", "")))
    if not text.strip().isdecimal():
        raise InferError("its index is missing", code="missing-attribute")
    return c.b.op("get-tuple-element", *c.operands, index=int(text))


def _square(c: Context) -> Instruction:
    x = c.operand(0)
    return c.b.op("multiply", x, x)


# M. Giles, "Approximating the erfinv function", 2010: the polynomials in single precision.
_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
    -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def _erf_inv(c: Context) -> Instruction:
    """Append the inverse of erf, in f32, as polynomials in -log(1 - x^2) for its two parts."""
    b, result = c.b, c.operand(0).array_shape
    if result.element_type.name not in ("f32", "bf16", "f16"):
        raise InferError(f"there is none in {result.element_type}", code="type-mismatch")
    x = b.convert(c.operands[0], F32)
    shape = x.array_shape

    def number(value: float) -> Instruction:
        return b.filled(F32, shape.dims, value)

    w = b.op("negate", b.op("log-plus-one", b.op("negate", b.op("multiply", x, x))))
    central = b.compare(w, number(5), "LT")
    w = b.op(
        "select", central, b.op("subtract", w, number(2.5)),
        b.op("subtract", b.op("sqrt", w), number(3)),
    )  # fmt: skip
    p = b.op("select", central, number(_CENTRAL[0]), number(_TAIL[0]))
    for near, far in zip(_CENTRAL[1:], _TAIL[1:], strict=True):
        p = b.op("add", b.op("select", central, number(near), number(far)),
                 b.op("multiply", p, w))  # fmt: skip
    at_one = b.compare(b.op("abs", x), number(1), "EQ")
    inverse = b.op("multiply", b.op("select", at_one, number(float("inf")), p), x)
    return b.convert(inverse, result.element_type)


def _all_reduce(c: Context) -> Instruction:
    return c.make("all-reduce", to_apply=c.reducer(), **_collective(c))


def _collective(c: Context) -> dict[str, Any]:
    groups = c.attr("replica_groups")
    if not isinstance(groups, Tagged) or not isinstance(groups.type, ArrayShape):
        raise InferError("replica_groups is not dense<..>", code="bad-value")
    lists = dense_array(groups.text, groups.type, groups.start)
    if lists.ndim != 2 or lists.dtype != np.int64:
        raise InferError("replica_groups has two dimensions, of i64", code="bad-value")
    found: dict[str, Any] = {"replica_groups": ListedGroups(tuple(map(tuple, lists.tolist())))}
    handle = c.op.attrs.get("channel_handle")
    if isinstance(handle, Tagged):
        (channel,) = integers([handle.pairs().get("handle", 0)], "handle")
        found["channel_id"] = channel or None
    if "use_global_device_ids" in c.op.attrs:
        found["use_global_device_ids"] = True
    return found


_SAME = (
    "abs add and atan2 cbrt ceil clamp complex convert cosine count_leading_zeros divide "
    "exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum "
    "minimum multiply negate not or popcnt power real remainder round_nearest_afz "
    "round_nearest_even rsqrt select "
    "shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor "
    "bitcast_convert reshape replica_id partition_id after_all tuple dynamic_update_slice"
).split()
_CHLO = "erf acos acosh asin asinh atanh cosh sinh tan".split()

HANDLERS: dict[str, Handler] = {
    **{f"stablehlo.{name}": _plain(name.replace("_", "-")) for name in _SAME},
    **{f"chlo.{name}": _plain(name) for name in _CHLO},
    "chlo.erf_inv": _erf_inv,
    "call": _call,
    "chlo.square": _square,
    "chlo.top_k": _top_k,
    "func.call": _call,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.case": _conditional,
    "stablehlo.cholesky": lambda c: c.make("cholesky", lower=c.flag("lower")),
    "stablehlo.compare": _compare,
    "stablehlo.concatenate": lambda c: c.make(
        "concatenate", dimensions=(c.integer("dim", "dimension"),)
    ),
    "stablehlo.constant": _constant,
    "stablehlo.convolution": _convolution,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dynamic_slice": lambda c: c.make(
        "dynamic-slice", dynamic_slice_sizes=c.ints("sizes", "slice_sizes")
    ),
    "stablehlo.fft": lambda c: c.make(
        "fft", fft_type=c.word(9, "type", "fft_type"), fft_length=c.ints("length", "fft_length")
    ),
    "stablehlo.gather": _gather,
    "stablehlo.get_tuple_element": _get_tuple_element,
    "stablehlo.if": _conditional,
    "stablehlo.iota": lambda c: c.make("iota", iota_dimension=c.integer("dim", "iota_dimension")),
    "stablehlo.optimization_barrier": lambda c: (
        c.b.op("opt-barrier", c.b.tuple(*c.operands)) if len(c.operands) != 1
        else c.make("opt-barrier")
    ),
    "stablehlo.pad": _pad,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.reduce_window": lambda c: c.make(
        "reduce-window", window=_window_of(c), to_apply=c.reducer()
    ),
    "stablehlo.reverse": lambda c: c.make("reverse", dimensions=c.ints("dims", "dimensions")),
    "stablehlo.rng_bit_generator": _rng_bit_generator,
    "stablehlo.scatter": _scatter,
    "stablehlo.select_and_scatter": lambda c: c.make(
        "select-and-scatter", window=_window_of(c), select=c.reducer(), scatter=c.reducer(1)
    ),
    "stablehlo.slice": _slice,
    "stablehlo.sort": _sort,
    "stablehlo.transpose": lambda c: c.make(
        "transpose", dimensions=c.ints("dims", "permutation")
    ),
    "stablehlo.triangular_solve": lambda c: c.make(
        "triangular-solve", left_side=c.flag("left_side"),
        lower=c.flag("lower"), unit_diagonal=c.flag("unit_diagonal"),
        transpose_a=c.word(9, "transpose_a"),
    ),
    "stablehlo.while": _while,
}  # fmt: skip
