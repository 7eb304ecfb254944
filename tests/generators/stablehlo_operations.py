"""One example of each operation of StableHLO and CHLO, from which other forms of it are made."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Example:
    """An operation on arguments `%a0`, `%a1`, .. of a function.

    operands: the types of its operands. attrs: its attributes, as they are in the generic form.
    optional: names of those that may be left out. results: types. regions: texts in braces.
    short: the short form after the operation's name, `@` for an optional dictionary of attributes;
    empty where it has none. same: whether the short form has one type for operands and results.
    before: what else is in the file. constants: the values of operands that are constants, by
    their numbers.
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attrs: dict[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    short: str = ""
    same: bool = False
    before: str = ""
    constants: dict[int, str] = field(default_factory=dict)


def t(dims: str, element: str = "f32") -> str:
    """Return the type of an array: `t("2x3")` is `tensor<2x3xf32>`."""
    return f"tensor<{dims}x{element}>" if dims else f"tensor<{element}>"


def ints(*values: int) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def reducer(element: str = "f32", operation: str = "add", count: int = 1) -> str:
    """Return a region that combines `count` pairs of scalars."""
    names = [f"%x{i}" for i in range(count)] + [f"%y{i}" for i in range(count)]
    arguments = ", ".join(f"{n}: {t('', element)}" for n in names)
    lines = [f"  %z{i} = stablehlo.{operation} %x{i}, %y{i} : {t('', element)}"
             for i in range(count)]  # fmt: skip
    results = ", ".join(f"%z{i}" for i in range(count))
    types = ", ".join([t("", element)] * count)
    return "\n".join(
        [f"{{\n^bb0({arguments}):", *lines, f"  stablehlo.return {results} : {types}\n}}"]
    )


def comparator(element: str = "f32") -> str:
    s = t("", element)
    return (
        f"{{\n^bb0(%x: {s}, %y: {s}):\n"
        f"  %z = stablehlo.compare LT, %x, %y : ({s}, {s}) -> tensor<i1>\n"
        "  stablehlo.return %z : tensor<i1>\n}"
    )


def _same(name: str, count: int, element: str, **rest: object) -> Example:
    kind = t("2x3", element)
    values = ", ".join(f"%a{i}" for i in range(count))
    return Example(name, (kind,) * count, (kind,), short=f"{values}@ : {kind}", same=True, **rest)  # type: ignore[arg-type]


def _functional(operands: tuple[str, ...], results: tuple[str, ...]) -> str:
    result = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return f"({', '.join(operands)}) -> {result}"


def _to(name: str, operands: tuple[str, ...], result: str, short: str, **rest: object) -> Example:
    """Return an example whose short form ends in the types of operands and results."""
    text = f"{short}@ : {_functional(operands, (result,))}"
    return Example(name, operands, (result,), short=text, **rest)  # type: ignore[arg-type]


_ACCURACY = (
    "#stablehlo.result_accuracy<atol = 0.000000e+00, rtol = 1.000000e-05, ulps = 2, "
    "mode = #stablehlo.result_accuracy_mode<TOLERANCE>>"
)
_ACCURATE = (
    "cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan "
    "tanh"
).split()
_PLAIN = "abs ceil floor negate round_nearest_afz round_nearest_even sign".split()
_WHOLE = "count_leading_zeros not popcnt".split()
_BINARY = "add atan2 divide maximum minimum multiply power remainder subtract".split()
_BITS = "and or xor shift_left shift_right_arithmetic shift_right_logical".split()

ELEMENTWISE = [
    *(_same(f"stablehlo.{name}", 1, "f32", attrs={"result_accuracy": _ACCURACY},
            optional=("result_accuracy",)) for name in _ACCURATE),
    *(_same(f"stablehlo.{name}", 1, "f32") for name in _PLAIN),
    *(_same(f"stablehlo.{name}", 1, "i32") for name in _WHOLE),
    *(_same(f"stablehlo.{name}", 2, "f32") for name in _BINARY),
    *(_same(f"stablehlo.{name}", 2, "i32") for name in _BITS),
    _same("stablehlo.not", 1, "i1"),
    _same("stablehlo.and", 2, "i1"),
    _same("stablehlo.add", 2, "ui8"),
    _same("stablehlo.multiply", 2, "complex<f64>"),
    _same("stablehlo.maximum", 2, "bf16"),
    _same("stablehlo.negate", 1, "f8E4M3FN"),
    _same("stablehlo.clamp", 3, "f32"),
    _to("stablehlo.clamp", (t(""), t("4"), t("")), t("4"), "%a0, %a1, %a2"),
    _to("stablehlo.convert", (t("4", "i8"),), t("4", "f16"), "%a0"),
    _to("stablehlo.abs", (t("4", "complex<f32>"),), t("4"), "%a0"),
    _to("stablehlo.real", (t("4", "complex<f32>"),), t("4"), "%a0"),
    _to("stablehlo.imag", (t("4", "complex<f64>"),), t("4", "f64"), "%a0"),
    _to("stablehlo.is_finite", (t("4"),), t("4", "i1"), "%a0"),
    Example("stablehlo.complex", (t("4"), t("4")), (t("4", "complex<f32>"),),
            short=f"%a0, %a1@ : {t('4', 'complex<f32>')}"),
    _to("stablehlo.compare", (t("4"), t("4")), t("4", "i1"), "GE, %a0, %a1, TOTALORDER", attrs={
        "comparison_direction": "#stablehlo<comparison_direction GE>",
        "compare_type": "#stablehlo<comparison_type TOTALORDER>",
    }, optional=("compare_type",)),
    _to("stablehlo.compare", (t("4", "ui8"),) * 2, t("4", "i1"), "NE, %a0, %a1", attrs={
        "comparison_direction": "#stablehlo<comparison_direction NE>",
    }),
    Example("stablehlo.select", (t("4", "i1"), t("4"), t("4")), (t("4"),),
            short=f"%a0, %a1, %a2@ : {t('4', 'i1')}, {t('4')}"),
    _to("stablehlo.select", (t("", "i1"), t("4"), t("4")), t("4"), "%a0, %a1, %a2"),
    Example("stablehlo.reduce_precision", (t("4"),), (t("4"),), {
        "exponent_bits": "5 : i32", "mantissa_bits": "2 : i32",
    }, short=f"%a0, format = e5m2@ : {t('4')}", same=True),
    _to("stablehlo.bitcast_convert", (t("4"),), t("4x4", "i8"), "%a0"),
]  # fmt: skip

MOVEMENT = [
    Example("stablehlo.iota", (), (t("2x3", "i32"),), {"iota_dimension": "1 : i64"},
            short=f"dim = 1@ : {t('2x3', 'i32')}"),
    _to("stablehlo.reshape", (t("2x3"),), t("6"), "%a0"),
    _to("stablehlo.transpose", (t("2x3"),), t("3x2"), "%a0, dims = [1, 0]",
        attrs={"permutation": ints(1, 0)}),
    _to("stablehlo.broadcast_in_dim", (t("3"),), t("2x3"), "%a0, dims = [1]",
        attrs={"broadcast_dimensions": ints(1)}),
    _to("stablehlo.broadcast_in_dim", (t(""),), t("2x3"), "%a0, dims = []",
        attrs={"broadcast_dimensions": ints()}),
    _to("stablehlo.broadcast", (t("3"),), t("2x3"), "%a0, sizes = [2]",
        attrs={"broadcast_sizes": ints(2)}),
    _to("stablehlo.slice", (t("4x6"),), t("2x2"), "%a0 [1:3, 0:6:3]", attrs={
        "start_indices": ints(1, 0), "limit_indices": ints(3, 6), "strides": ints(1, 3),
    }),
    _to("stablehlo.pad", (t("3"), t("")), t("8"), "%a0, %a1, low = [1], high = [2], interior = [1]",
        attrs={"edge_padding_low": ints(1), "edge_padding_high": ints(2),
               "interior_padding": ints(1)}),
    _to("stablehlo.concatenate", (t("2x3"), t("4x3")), t("6x3"), "%a0, %a1, dim = 0",
        attrs={"dimension": "0 : i64"}),
    Example("stablehlo.reverse", (t("2x3"),), (t("2x3"),), {"dimensions": ints(0)},
            short=f"%a0, dims = [0]@ : {t('2x3')}", same=True),
    _to("stablehlo.dynamic_slice", (t("4x6"), t("", "i32"), t("", "i32")), t("2x6"),
        "%a0, %a1, %a2, sizes = [2, 6]", attrs={"slice_sizes": ints(2, 6)}),
    _to("stablehlo.dynamic_update_slice", (t("4x6"), t("2x2"), t("", "i64"), t("", "i64")),
        t("4x6"), "%a0, %a1, %a2, %a3"),
    Example("stablehlo.gather", (t("3x4x2"), t("2x3x2", "i64")), (t("2x3x2x2"),), {
        "dimension_numbers": "#stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], "
        "start_index_map = [1, 0], index_vector_dim = 2>",
        "slice_sizes": ints(1, 2, 2), "indices_are_sorted": "false",
    }, ("indices_are_sorted",)),
    Example("stablehlo.scatter", (t("3x4x2"), t("2x3x2", "i64"), t("2x3x2x2")), (t("3x4x2"),), {
        "scatter_dimension_numbers": "#stablehlo.scatter<update_window_dims = [2, 3], "
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>",
        "indices_are_sorted": "false", "unique_indices": "true",
    }, ("indices_are_sorted", "unique_indices"), (reducer(),)),
    Example("stablehlo.torch_index_select", (t("5x1x5", "i32"), t("2", "i32")),
            (t("2x1x5", "i32"),), {"dim": "0 : i64", "batch_dims": "0 : i64"}),
    Example("stablehlo.tuple", (t("2"), t("", "i32")), (f"tuple<{t('2')}, {t('', 'i32')}>",),
            short=f"%a0, %a1@ : tuple<{t('2')}, {t('', 'i32')}>"),
    _to("stablehlo.get_tuple_element", (f"tuple<{t('2')}, {t('', 'i32')}>",), t("", "i32"),
        "%a0[1]", attrs={"index": "1 : i32"}),
    Example("stablehlo.optimization_barrier", (t("2"), t("3", "i8")), (t("2"), t("3", "i8")),
            short=f"@%a0, %a1 : {t('2')}, {t('3', 'i8')}"),
    _to("stablehlo.get_dimension_size", (t("2x3"),), t("", "i32"), "%a0, dim = 1",
        attrs={"dimension": "1 : i64"}),
    _to("stablehlo.set_dimension_size", (t("2x3"), t("", "i32")),
        "tensor<?x3xf32, #stablehlo.bounds<2, ?>>", "%a0, %a1, dim = 0",
        attrs={"dimension": "0 : i64"}),
]  # fmt: skip

_SHAPE = {1: "dense<[2, 3]> : tensor<2xi64>"}
_CONV = {
    "dimension_numbers": "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>",
    "feature_group_count": "1 : i64", "batch_group_count": "1 : i64",
    "window_strides": ints(1, 1), "padding": "dense<1> : tensor<2x2xi64>",
    "lhs_dilation": ints(1, 1), "rhs_dilation": ints(1, 1),
    "window_reversal": "array<i1: false, false>",
    "precision_config": "[#stablehlo<precision HIGHEST>, #stablehlo<precision DEFAULT>]",
}  # fmt: skip
_OPTIONAL_CONV = (
    "window_strides", "padding", "lhs_dilation", "rhs_dilation", "window_reversal",
    "precision_config",
)  # fmt: skip

CONTRACTIONS = [
    _to("stablehlo.dot", (t("2x3"), t("3x4")), t("2x4"), "%a0, %a1, precision = [HIGH, DEFAULT]",
        attrs={"precision_config": "[#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]"},
        optional=("precision_config",)),
    _to("stablehlo.dot_general", (t("5x2x3"), t("5x3x4")), t("5x2x4"),
        "%a0, %a1, batching_dims = [0] x [0], contracting_dims = [2] x [1], "
        "precision = [DEFAULT, HIGHEST]", attrs={
            "dot_dimension_numbers": "#stablehlo.dot<lhs_batching_dimensions = [0], "
            "rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], "
            "rhs_contracting_dimensions = [1]>",
            "precision_config": "[#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]",
        }, optional=("precision_config",)),
    _to("stablehlo.dot_general", (t("2x3"), t("3x4")), t("2x4"),
        "%a0, %a1, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32, "
        "rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, "
        "rhs_component_count = 1, num_primitive_operations = 1, "
        "allow_imprecise_accumulation = false>", attrs={
            "dot_dimension_numbers": "#stablehlo.dot<lhs_contracting_dimensions = [1], "
            "rhs_contracting_dimensions = [0]>",
            "algorithm": "#stablehlo.dot_algorithm<lhs_precision_type = tf32, "
            "rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, "
            "rhs_component_count = 1, num_primitive_operations = 1, "
            "allow_imprecise_accumulation = false>",
        }, optional=("algorithm",)),
    _to("stablehlo.einsum", (t("2x3"), t("3x4")), t("2x4"), '%a0, %a1, config = "ij,jk->ik"',
        attrs={"einsum_config": '"ij,jk->ik"'}),
    _to("stablehlo.unary_einsum", (t("2x3"),), t("2"), '%a0, config = "ij->i"',
        attrs={"einsum_config": '"ij->i"'}),
    _to("stablehlo.convolution", (t("1x8x8x3"), t("3x3x3x4")), t("1x8x8x4"),
        "(%a0, %a1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = "
        "[1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = "
        "[0, 0]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}",
        attrs=_CONV, optional=_OPTIONAL_CONV),
    Example("stablehlo.cholesky", (t("3x3"),), (t("3x3"),), {"lower": "true"}, ("lower",),
            short=f"%a0, lower = true@ : {t('3x3')}", same=True),
    Example("stablehlo.triangular_solve", (t("3x3"), t("3x2")), (t("3x2"),), {
        "left_side": "true", "lower": "true", "unit_diagonal": "false",
        "transpose_a": "#stablehlo<transpose NO_TRANSPOSE>",
    }),
    _to("stablehlo.fft", (t("9", "complex<f32>"),), t("9", "complex<f32>"),
        "%a0, type = FFT, length = [9]",
        attrs={"fft_type": "#stablehlo<fft_type FFT>", "fft_length": ints(9)}),
    _to("stablehlo.fft", (t("2x9"),), t("2x5", "complex<f32>"), "%a0, type = RFFT, length = [9]",
        attrs={"fft_type": "#stablehlo<fft_type RFFT>", "fft_length": ints(9)}),
    *(Example(f"stablehlo.batch_norm_{kind}", operands, results,
              {"epsilon": "1.000000e-03 : f32", "feature_index": "1 : i64"})
      for kind, operands, results in (
          ("inference", (t("4x2"), *[t("2")] * 4), (t("4x2"),)),
          ("training", (t("4x2"), t("2"), t("2")), (t("4x2"), t("2"), t("2"))),
          ("grad", (t("4x2"), *[t("2")] * 3, t("4x2")), (t("4x2"), t("2"), t("2"))),
      )),
]  # fmt: skip

_WINDOW = {
    "window_dimensions": ints(2, 1), "window_strides": ints(2, 1),
    "padding": "dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>",
}  # fmt: skip

REGIONS = [
    Example("stablehlo.reduce", (t("2x3"), t("")), (t("2"),), {"dimensions": ints(1)},
            regions=(reducer(),),
            short="(%a0 init: %a1) applies stablehlo.add across dimensions = [1]@ : "
            f"({t('2x3')}, {t('')}) -> {t('2')}"),
    Example("stablehlo.reduce", (t("2x3"), t("2x3"), t(""), t("")), (t("2"), t("2")),
            {"dimensions": ints(1)}, regions=(reducer(count=2),),
            short="(%a0 init: %a2), (%a1 init: %a3) across dimensions = [1]@ : "
            f"({t('2x3')}, {t('2x3')}, {t('')}, {t('')}) -> ({t('2')}, {t('2')})\n"
            f" reducer(%p: {t('')}, %q: {t('')}) (%r: {t('')}, %s: {t('')}) {{\n"
            f"  %u = stablehlo.add %p, %q : {t('')}\n  %v = stablehlo.maximum %r, %s : {t('')}\n"
            f"  stablehlo.return %u, %v : {t('')}, {t('')}\n}}"),
    Example("stablehlo.reduce_window", (t("4x2"), t("")), (t("3x2"),), {
        **_WINDOW, "base_dilations": ints(1, 1), "window_dilations": ints(1, 1),
    }, ("padding", "base_dilations", "window_dilations"), (reducer(operation="maximum"),)),
    Example("stablehlo.select_and_scatter", (t("4x2"), t("3x2"), t("")), (t("4x2"),), _WINDOW,
            (), (comparator().replace("LT", "GE"), reducer())),
    Example("stablehlo.sort", (t("4x2"), t("4x2", "i32")), (t("4x2"), t("4x2", "i32")),
            {"dimension": "0 : i64", "is_stable": "true"}, ("dimension", "is_stable"),
            ("{\n^bb0(%x: tensor<f32>, %y: tensor<f32>, %p: tensor<i32>, %q: tensor<i32>):\n"
             "  %z = stablehlo.compare LT, %x, %y, FLOAT : (tensor<f32>, tensor<f32>) -> "
             "tensor<i1>\n  stablehlo.return %z : tensor<i1>\n}",)),
    Example("stablehlo.map", (t("4"), t("4")), (t("4"),), {"dimensions": ints(0)},
            regions=(reducer(operation="multiply"),)),
    Example("stablehlo.if", (t("", "i1"), t("2")), (t("2"),), regions=(
        f"{{\n  stablehlo.return %a1 : {t('2')}\n}}",
        f"{{\n  %n = stablehlo.negate %a1 : {t('2')}\n  stablehlo.return %n : {t('2')}\n}}",
    )),
    Example("stablehlo.case", (t("", "i32"), t("2")), (t("2"), t("2")), regions=(
        f"{{\n  stablehlo.return %a1, %a1 : {t('2')}, {t('2')}\n}}",
        f"{{\n  %n = stablehlo.negate %a1 : {t('2')}\n"
        f"  stablehlo.return %n, %a1 : {t('2')}, {t('2')}\n}}",
    )),
    Example("stablehlo.while", (t("", "i32"), t("2")), (t("", "i32"), t("2")), regions=(
        f"{{\n^bb0(%i: {t('', 'i32')}, %x: {t('2')}):\n"
        "  %c = stablehlo.constant dense<3> : tensor<i32>\n"
        "  %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "  stablehlo.return %p : tensor<i1>\n}",
        f"{{\n^bb0(%i: {t('', 'i32')}, %x: {t('2')}):\n"
        "  %c = stablehlo.constant dense<1> : tensor<i32>\n"
        "  %j = stablehlo.add %i, %c : tensor<i32>\n"
        f"  stablehlo.return %j, %x : {t('', 'i32')}, {t('2')}\n}}",
    ), short=f"(%i = %a0, %x = %a1) : {t('', 'i32')}, {t('2')}\n cond {{\n"
        "  %c = stablehlo.constant dense<3> : tensor<i32>\n"
        "  %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "  stablehlo.return %p : tensor<i1>\n } do {\n"
        "  %c = stablehlo.constant dense<1> : tensor<i32>\n"
        "  %j = stablehlo.add %i, %c : tensor<i32>\n"
        f"  stablehlo.return %j, %x : {t('', 'i32')}, {t('2')}\n }}"),
]  # fmt: skip

_GROUPS = "dense<[[0, 1]]> : tensor<1x2xi64>"
_HANDLE = "#stablehlo.channel_handle<handle = 1, type = 0>"
_TOKEN = "!stablehlo.token"

DEVICES = [
    Example("stablehlo.all_gather", (t("2x4"),), (t("2x8"),), {
        "all_gather_dim": "1 : i64", "replica_groups": _GROUPS, "channel_handle": _HANDLE,
        "use_global_device_ids": "unit",
    }, ("channel_handle", "use_global_device_ids")),
    Example("stablehlo.all_reduce", (t("4"),), (t("4"),), {
        "replica_groups": _GROUPS, "channel_handle": _HANDLE, "use_global_device_ids": "unit",
    }, ("channel_handle", "use_global_device_ids"), (reducer(),)),
    Example("stablehlo.reduce_scatter", (t("4x8"),), (t("4x4"),), {
        "scatter_dimension": "1 : i64", "replica_groups": _GROUPS, "channel_handle": _HANDLE,
        "use_global_device_ids": "unit",
    }, ("channel_handle", "use_global_device_ids"), (reducer(),)),
    Example("stablehlo.all_to_all", (t("4x8"),), (t("8x4"),), {
        "split_dimension": "1 : i64", "concat_dimension": "0 : i64", "split_count": "2 : i64",
        "replica_groups": _GROUPS, "channel_handle": _HANDLE,
    }, ("channel_handle",)),
    Example("stablehlo.collective_permute", (t("4"),), (t("4"),), {
        "source_target_pairs": "dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>",
        "channel_handle": _HANDLE,
    }, ("channel_handle",)),
    Example("stablehlo.collective_broadcast", (t("4"),), (t("4"),), {
        "replica_groups": _GROUPS, "channel_handle": _HANDLE,
    }, ("channel_handle",)),
    Example("stablehlo.cross-replica-sum", (t("4"),), (t("4"),), {"replica_groups": _GROUPS}),
    Example("stablehlo.partition_id", (), (t("", "ui32"),), short=f"@ : {t('', 'ui32')}"),
    Example("stablehlo.replica_id", (), (t("", "ui32"),), short=f"@ : {t('', 'ui32')}"),
    Example("stablehlo.create_token", (), (_TOKEN,), short=f"@ : {_TOKEN}"),
    Example("stablehlo.after_all", (_TOKEN, _TOKEN), (_TOKEN,), short=f"%a0, %a1@ : {_TOKEN}",
            same=True),
    Example("stablehlo.infeed", (_TOKEN,), (t("3"), _TOKEN), {
        "infeed_config": '"x"', "layout": "[[0]]"}, ("infeed_config", "layout")),
    Example("stablehlo.outfeed", (t("3"), _TOKEN), (_TOKEN,), {"outfeed_config": '"x"'},
            ("outfeed_config",)),
    Example("stablehlo.send", (t("3"), _TOKEN), (_TOKEN,), {
        "channel_handle": "#stablehlo.channel_handle<handle = 5, type = 2>",
        "is_host_transfer": "true"}),
    Example("stablehlo.recv", (_TOKEN,), (t("3"), _TOKEN), {
        "channel_handle": "#stablehlo.channel_handle<handle = 5, type = 3>",
        "is_host_transfer": "true"}),
    _to("stablehlo.rng", (t(""), t(""), t("2", "i64")), t("2x3"),
        "%a0, %a1, %a2, distribution = UNIFORM",
        attrs={"rng_distribution": "#stablehlo<rng_distribution UNIFORM>"},
        constants={2: "dense<[2, 3]> : tensor<2xi64>"}),
    Example("stablehlo.rng_bit_generator", (t("2", "ui64"),), (t("2", "ui64"), t("4", "ui32")),
            {"rng_algorithm": "#stablehlo<rng_algorithm THREE_FRY>"},
            short=f"%a0, algorithm = THREE_FRY@ : ({t('2', 'ui64')}) -> ({t('2', 'ui64')}, "
            f"{t('4', 'ui32')})"),
    _to("stablehlo.custom_call", (t("2x3"),), t("2x3"), "@Sharding(%a0)", attrs={
        "call_target_name": '"Sharding"', "has_side_effect": "false", "backend_config": '""',
        "api_version": "2 : i32", "called_computations": "[]",
        "operand_layouts": "[dense<[1, 0]> : tensor<2xindex>]",
        "result_layouts": "[dense<[1, 0]> : tensor<2xindex>]",
    }, optional=("has_side_effect", "backend_config", "api_version", "called_computations")),
]  # fmt: skip

_FUNCTION = (
    "func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
    "  %0 = stablehlo.negate %x : tensor<2xf32>\n  return %0 : tensor<2xf32>\n}"
)

CALLS = [
    Example("func.call", (t("2"),), (t("2"),), {"callee": "@f"},
            short=f"@f(%a0)@ : ({t('2')}) -> {t('2')}", before=_FUNCTION),
    Example("stablehlo.composite", (t("2"),), (t("2"),), {
        "name": '"my.op"', "decomposition": "@f", "composite_attributes": "{n = 1 : i64}",
        "version": "1 : i32",
    }, ("composite_attributes", "version"), short='"my.op" %a0 {decomposition = @f} : '
        f"({t('2')}) -> {t('2')}", before=_FUNCTION),
]  # fmt: skip

DYNAMIC = [
    _to("stablehlo.dynamic_reshape", (t("6"), t("2", "i64")), t("2x3"), "%a0, %a1",
        constants=_SHAPE),
    _to("stablehlo.dynamic_iota", (t("2", "i64"),), t("2x3"), "%a0, dim = 1",
        attrs={"iota_dimension": "1 : i64"}, constants={0: "dense<[2, 3]> : tensor<2xi64>"}),
    _to("stablehlo.dynamic_broadcast_in_dim", (t("3"), t("2", "i64")), t("2x3"),
        "%a0, %a1, dims = [1]", attrs={
            "broadcast_dimensions": ints(1), "known_expanding_dimensions": ints(),
            "known_nonexpanding_dimensions": ints(0)},
        optional=("known_expanding_dimensions", "known_nonexpanding_dimensions"),
        constants=_SHAPE),
    _to("stablehlo.dynamic_pad", (t("3"), t(""), *[t("1", "i64")] * 3), t("6"),
        "%a0, %a1, %a2, %a3, %a4", constants={
            2: "dense<1> : tensor<1xi64>", 3: "dense<2> : tensor<1xi64>",
            4: "dense<0> : tensor<1xi64>"}),
    _to("stablehlo.real_dynamic_slice", (t("6"), *[t("1", "i64")] * 3), t("2"),
        "%a0, %a1, %a2, %a3", constants={
            1: "dense<1> : tensor<1xi64>", 2: "dense<5> : tensor<1xi64>",
            3: "dense<2> : tensor<1xi64>"}),
    Example("stablehlo.dynamic_gather", (t("3x4"), t("5x1", "i32"), t("2", "i32")), (t("5x4"),), {
        "dimension_numbers": "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], "
        "start_index_map = [0], index_vector_dim = 1>", "indices_are_sorted": "false",
    }, ("indices_are_sorted",), constants={2: "dense<[1, 4]> : tensor<2xi32>"}),
    Example("stablehlo.dynamic_conv", (t("1x8x8x3"), t("3x3x3x4"), t("2x2", "i64")),
            (t("1x8x8x4"),), {k: v for k, v in _CONV.items() if k != "padding"}, _OPTIONAL_CONV,
            constants={2: "dense<1> : tensor<2x2xi64>"}),
]  # fmt: skip


def _arrow(name: str, count: int, element: str = "f32", result: str = "") -> Example:
    """Return an example of a CHLO operation, whose short form has types without parentheses."""
    kind, out = t("2x3", element), t("2x3", result or element)
    values = ", ".join(f"%a{i}" for i in range(count))
    text = f"{values}@ : {', '.join([kind] * count)} -> {out}"
    return Example(f"chlo.{name}", (kind,) * count, (out,), short=text)


_BROADCASTING = "add atan2 divide maximum minimum multiply next_after power remainder subtract zeta"

CHLO = [
    *(_arrow(name, 1) for name in (
        "acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc lgamma sinh "
        "square tan").split()),
    *(_arrow(name, 1, result="i1") for name in ("is_inf", "is_neg_inf", "is_pos_inf")),
    _arrow("conj", 1, "complex<f32>"),
    *(_arrow(name, 2) for name in ("next_after", "polygamma", "zeta")),
    _arrow("mulhi", 2, "i32"),
    *(_to(f"chlo.broadcast_{name}", (t("2x3"), t("3")), t("2x3"), "%a0, %a1",
          attrs={"broadcast_dimensions": ints(1)}, optional=("broadcast_dimensions",))
      for name in _BROADCASTING.split()),
    *(_to(f"chlo.broadcast_{name}", (t("2x3", "i32"), t("3", "i32")), t("2x3", "i32"), "%a0, %a1",
          attrs={"broadcast_dimensions": ints(1)}, optional=("broadcast_dimensions",))
      for name in ("and", "or", "xor", "shift_left", "shift_right_logical")),
    _to("chlo.broadcast_select", (t("2x3", "i1"), t("3"), t("2x3")), t("2x3"), "%a0, %a1, %a2"),
    Example("chlo.broadcast_compare", (t("2x3"), t("3")), (t("2x3", "i1"),), {
        "comparison_direction": "#chlo<comparison_direction LT>",
        "compare_type": "#chlo<comparison_type FLOAT>",
        "broadcast_dimensions": ints(1),
    }, ("compare_type", "broadcast_dimensions"),
        short="%a0, %a1 {comparison_direction = #chlo<comparison_direction LT>} : "
        f"({t('2x3')}, {t('3')}) -> {t('2x3', 'i1')}"),
    Example("chlo.constant_like", (t("2x3"),), (t("2x3"),), {"value": "1.000000e+00 : f32"}),
    Example("chlo.top_k", (t("2x8"),), (t("2x3"), t("2x3", "i32")), {"k": "3 : i64"},
            short=f"(%a0, k = 3)@ : {t('2x8')} -> ({t('2x3')}, {t('2x3', 'i32')})"),
]  # fmt: skip

EXAMPLES = [
    *ELEMENTWISE, *MOVEMENT, *CONTRACTIONS, *REGIONS, *DEVICES, *CALLS, *DYNAMIC, *CHLO,
]  # fmt: skip
