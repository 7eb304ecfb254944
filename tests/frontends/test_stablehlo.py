"""StableHLO text to modules."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hlo_tools.opt.command import main as hlo_opt

import hlo
from hlo.errors import HloError
from hlo.frontends.text import PrintOptions
from hlo.io.formats import is_stablehlo
from tests.sweeps.fuzz_stablehlo import failure, mutants


def function(body: str, arguments: str = "%a: tensor<2x3xf32>", result: str = "") -> str:
    head = f"func.func public @main({arguments})" + (f" -> {result}" if result else "")
    return f"module @m {{\n  {head} {{\n{body}\n  }}\n}}\n"


def lines(text: str) -> list[str]:
    """Return the instructions of a text's entry as HLO, without the parameters."""
    module = hlo.from_stablehlo(text)
    hlo.verify(module)
    printed = hlo.print_module(module, PrintOptions.short_parsable())
    entry = printed[printed.index("ENTRY") :].splitlines()[1:-1]
    return [re.sub(r"\{[\d,]+\}(?= )", "", x.strip()) for x in entry if " parameter(" not in x]


ADD = """({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    })"""
# What stands in the body, whose last value is %r, with its type; and the lines that come of it.
CASES: dict[str, tuple[str, str, list[str]]] = {
    "elementwise": (
        "%r = stablehlo.add %a, %a : tensor<2x3xf32>",
        "tensor<2x3xf32>",
        ["ROOT add = f32[2,3] add(a, a)"],
    ),
    "generic": (
        '%r = "stablehlo.transpose"(%a) <{permutation = array<i64: 1, 0>}> : '
        "(tensor<2x3xf32>) -> tensor<3x2xf32>",
        "tensor<3x2xf32>",
        ["ROOT transpose = f32[3,2] transpose(a), dimensions={1,0}"],
    ),
    "splat": (
        "%r = stablehlo.constant dense<0xFF800000> : tensor<2xf32>",
        "tensor<2xf32>",
        [
            "constant = f32[] constant(-inf)",
            "ROOT broadcast = f32[2] broadcast(constant), dimensions={}",
        ],
    ),
    "bytes": (
        '%r = stablehlo.constant dense<"0x0100FEFF"> : tensor<2xi16>',
        "tensor<2xi16>",
        ["ROOT constant = s16[2] constant({1, -2})"],
    ),
    "lists": (
        "%r = stablehlo.constant dense<[[(1.0,-2.5)], [(0.0,1.0)]]> : tensor<2x1xcomplex<f32>>",
        "tensor<2x1xcomplex<f32>>",
        ["ROOT constant = c64[2,1] constant({ {(1, -2.5)}, {(0, 1)} })"],
    ),
    "broadcast of a dimension of one": (
        "%s = stablehlo.slice %a [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>\n"
        "%r = stablehlo.broadcast_in_dim %s, dims = [0, 1] : "
        "(tensor<1x3xf32>) -> tensor<2x3xf32>",
        "tensor<2x3xf32>",
        [
            "slice = f32[1,3] slice(a), slice={[0:1], [0:3]}",
            "reshape = f32[3] reshape(slice)",
            "ROOT broadcast = f32[2,3] broadcast(reshape), dimensions={1}",
        ],
    ),
    "dot": (
        "%r = stablehlo.dot_general %a, %a, batching_dims = [0] x [0], "
        "contracting_dims = [1] x [1], precision = [HIGHEST, DEFAULT] : "
        "(tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>",
        "tensor<2xf32>",
        [
            "ROOT dot = f32[2] dot(a, a), lhs_batch_dims={0}, lhs_contracting_dims={1}, "
            "rhs_batch_dims={0}, rhs_contracting_dims={1}, operand_precision={highest,default}"
        ],
    ),
    "reduce": (
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "%r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : "
        "(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>",
        "tensor<2xf32>",
        [
            "constant = f32[] constant(0)",
            "ROOT reduce = f32[2] reduce(a, constant), dimensions={1}, to_apply=region",
        ],
    ),
    "all-reduce": (
        '%r = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, '
        "type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> "
        f"{ADD} : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        "tensor<2x3xf32>",
        [
            "ROOT all-reduce = f32[2,3] all-reduce(a), channel_id=1, replica_groups={{0,1}}, "
            "use_global_device_ids=true, to_apply=region"
        ],
    ),
    "custom call": (
        "%r = stablehlo.custom_call @t(%a) {backend_config = {x = 1 : i64}, "
        "has_side_effect = true, api_version = 4 : i32, "
        "operand_layouts = [dense<[0, 1]> : tensor<2xindex>], "
        'result_layouts = [dense<[0, 1]> : tensor<2xindex>], mhlo.sharding = "{replicated}"} : '
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
        "tensor<2x3xf32>",
        [
            'ROOT custom-call = f32[2,3] custom-call(a), custom_call_target="t", '
            "operand_layout_constraints={f32[2,3]{0,1}}, custom_call_has_side_effect=true, "
            "api_version=API_VERSION_TYPED_FFI, sharding={replicated}, "
            "backend_config={x = 1 : i64}"
        ],
    ),
    "start indices of a scalar, as MLIR prints them": (
        "%b = stablehlo.slice %a [0:1, 0:1] : (tensor<2x3xf32>) -> tensor<1x1xf32>\n"
        "%s = stablehlo.reshape %b : (tensor<1x1xf32>) -> tensor<f32>\n"
        "%r = stablehlo.dynamic_slice %s, , sizes = [] : (tensor<f32>) -> tensor<f32>",
        "tensor<f32>",
        [
            "slice = f32[1,1] slice(a), slice={[0:1], [0:1]}",
            "reshape = f32[] reshape(slice)",
            "ROOT dynamic-slice = f32[] dynamic-slice(reshape), dynamic_slice_sizes={}",
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operations(name: str) -> None:
    body, result, want = CASES[name]
    text = function(f"{body}\nreturn %r : {result}", result=result)
    assert lines(text) == want


def test_control_dependences_of_jax() -> None:
    start = """%f = "stablehlo.async_start"(%a) ({
      ^bb0(%x: tensor<2x3xf32>):
      %g = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> :
        (tensor<2x3xf32>) -> tensor<4x3xf32>
      stablehlo.return %g : tensor<4x3xf32>
    }) : (tensor<2x3xf32>) -> !stablehlo.future<tensor<4x3xf32>>
    %n = stablehlo.negate %a : tensor<2x3xf32>
    stablehlo.custom_call @control_dep(%f, %n) {has_side_effect = true, operand_layouts =
      [dense<> : tensor<0xindex>, dense<[1, 0]> : tensor<2xindex>], result_layouts = []} :
      (!stablehlo.future<tensor<4x3xf32>>, tensor<2x3xf32>) -> ()
    stablehlo.custom_call @control_dep(%n, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
    %r = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<4x3xf32>>) -> tensor<4x3xf32>
    return %r : tensor<4x3xf32>"""
    module = hlo.from_stablehlo(function(start, result="tensor<4x3xf32>"))
    hlo.verify(module)
    after = {x.name: x.control_predecessors for x in module.entry}
    assert {x: [y.name for y in ys] for x, ys in after.items() if ys} == {
        "negate": ["all-gather-start"]
    }


def test_regions_take_what_they_use_from_outside() -> None:
    text = function(
        """
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<2x3xf32>
    cond {
      %c = stablehlo.compare LT, %i, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %y = stablehlo.add %x, %a : tensor<2x3xf32>
      stablehlo.return %j, %y : tensor<i32>, tensor<2x3xf32>
    }
    %r = "stablehlo.case"(%w#0) ({
      stablehlo.return %a : tensor<2x3xf32>
    }, {
      %n = stablehlo.negate %w#1 : tensor<2x3xf32>
      stablehlo.return %n : tensor<2x3xf32>
    }) : (tensor<i32>) -> tensor<2x3xf32>
    return %r, %w#0 : tensor<2x3xf32>, tensor<i32>""",
        result="(tensor<2x3xf32>, tensor<i32>)",
    )
    module = hlo.from_stablehlo(text)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y, count = hlo.interpret(module, x)
    np.testing.assert_array_equal(y, -4 * x)
    assert count == 3


@pytest.mark.parametrize("around", ["{}", "module @m {{\n{}}}"])
def test_a_mesh_in_generic_form_before_a_function(around: str) -> None:
    text = """\
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "mesh"}> : () -> ()
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
"""
    module = hlo.from_stablehlo(around.format(text))
    assert "{devices=[2]<=[2]}" in str(module)


def test_functions_and_their_attributes() -> None:
    text = """
    #loc = loc("x.py")
    module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
      sdy.mesh @mesh = <["x"=2]>
      func.func public @main(%arg0: tensor<2xf32> {mhlo.sharding = "{replicated}"},
          %1x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<2xf32> {x.a = "->"}) {
        %0 = call @f(%arg0, %1x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>  // a note
        return %0 : tensor<2xf32> loc(#loc)
      }
      func.func private @f(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.subtract %arg0, %arg1 : tensor<2xf32>
        func.return %0 : tensor<2xf32>
      }
    }
    """
    assert is_stablehlo(text)
    module = hlo.from_stablehlo(text)
    assert module.name == "jit_f" and [p.name for p in module.entry.parameters] == ["arg0", "v1x"]
    assert str(module.entry.parameters[0].annotations["sharding"]) == "{replicated}"
    assert str(module.attrs["input_output_alias"][0]) == "{}: (1, {}, may-alias)"
    assert hlo.interpret(module, [3, 5], [1, 2]).tolist() == [2, 3]


@pytest.mark.parametrize("name", ["m.mlir", "m.txt"])
def test_files_and_commands_take_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(function("return %a : tensor<2x3xf32>", result="tensor<2x3xf32>"))
    assert hlo.load(path).entry.root.opcode == "parameter"
    result = CliRunner().invoke(hlo_opt, [str(path)])
    assert result.exit_code == 0 and result.output.startswith("HloModule m")


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("%r = stablehlo.ad %a, %a : tensor<2x3xf32>", "unknown-opcode", "3:6: error: there is no"),
        ("%r = stablehlo.add %a, %b : tensor<2x3xf32>", "undefined-operand", "3:24"),
        ("%r = stablehlo.add %a, %a#1 : tensor<2x3xf32>", "undefined-operand", "no value %a#1"),
        ("%r = stablehlo.add %a : tensor<2x3xf32>", "syntax", "3:23: error: expected ','"),
        ('%r = "stablehlo.add"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>', "operand-count",
         "3:6"),
        ("%r = stablehlo.negate %a : tensor<2x3xf99>", "unknown-type", "'f99'"),
        ("%r = stablehlo.negate %a : tensor<2x3x!quant.any<i8:f32>>", "unknown-type",
         "expected !quant.uniform<..>"),
        ("%r = stablehlo.negate %a : tensor<2x3x!quant.uniform<i8:f32, 1.0>>",
         "operand-shape-mismatch", "%a is quantized in another way than its type says"),
        ("%r = stablehlo.reshape %a : (tensor<3x2xf32>) -> tensor<6xf32>",
         "operand-shape-mismatch", "%a is f32[2,3]"),
        ("%r = stablehlo.constant dense<[1, 2]> : tensor<3xi32>", "literal-shape", "2 elements"),
        ("%r = stablehlo.constant dense<1> : tensor<99999999999x999999999xi8>", "bad-shape", ""),
        ("%r = stablehlo.broadcast_in_dim %a, dims = [0, 5] : (tensor<2x3xf32>) -> "
         "tensor<2x3xf32>", "bad-dimension", "[0, 5]"),
        ('%r = "stablehlo.iota"() : () -> tensor<2xi32>', "missing-attribute",
         "iota_dimension is missing"),
        ('%r = "stablehlo.iota"() {iota_dimension = 0 : i32} : () -> tensor<2xi32>', "bad-value",
         "iota_dimension is of kind i64, not i32"),
        ("%r = stablehlo.sort %a : tensor<2x3xf32>", "syntax", "only the generic form"),
        ("%r = linalg.abs ins(%a)", "unknown-opcode", "the dialects that are read are"),
        ('%r = "arith.addf"(%a, %a) : (f32, f32) -> f32', "unknown-opcode",
         "there is no HLO operation for arith.addf"),
        ("%r:2 = stablehlo.negate %a : tensor<2x3xf32>", "operand-count", "2 names"),
        ("%r = func.call @f(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>",
         "undefined-computation", "@f"),
        ("%r = func.call @main(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>",
         "recursive-call", "calls itself"),
        ("%r = stablehlo.negate %a : tensor<2x3xf32>\nstablehlo.custom_call @control_dep(%r) : "
         "(tensor<2x3xf32>) -> ()", "operand-count", "two operands and no result"),
        ("%b = stablehlo.negate %a : tensor<2x3xf32>\n%r = stablehlo.abs %b : tensor<2x3xf32>\n"
         "stablehlo.custom_call @control_dep(%r, %b) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()",
         "cycle", "the first operand of control_dep needs the second"),
        ("%r = stablehlo.custom_call @t(%a) {x = " + "[" * 100, "nesting-too-deep", ""),
    ],
)  # fmt: skip
def test_errors_have_name_line_and_column(body: str, code: str, words: str) -> None:
    text = function(f"{body}\nreturn %r : tensor<2x3xf32>")
    with pytest.raises(HloError) as e:
        hlo.from_stablehlo(text, "m.mlir")
    assert e.value.code == code and words in str(e.value), e.value
    assert re.match(r"m\.mlir:\d+:\d+: error: ", str(e.value))


def test_mutated_texts_give_only_our_errors() -> None:
    """Four hundred of what `make fuzz` has twenty thousand of."""
    for text in mutants(400, 3):
        assert failure(text) is None, text[:2000]


@pytest.mark.parametrize("depth", [100, 100_000])
@pytest.mark.parametrize(
    "opening", ["tuple<", "[", "{a = ", '"stablehlo.if"(%a) ({', 'loc("a"(', "tensor<tensor<"]
)
def test_deep_nesting_is_an_error(opening: str, depth: int) -> None:
    text = function(f"%r = stablehlo.custom_call @t(%a) {{x = {opening * depth}")
    assert failure(text) is None
    with pytest.raises(HloError):
        hlo.from_stablehlo(text)


def test_long_chains_of_calls_and_circles() -> None:
    line = "func.func private @f{}(%x: tensor<f32>) -> tensor<f32> {{\n  %0 = call @f{}(%x) : "
    line += "(tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}}\n"
    last = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }\n"
    head = "func.func @main(%x: tensor<f32>) -> tensor<f32> {{ %0 = call @f0(%x) : (tensor<f32>) "
    head = head.replace("{{", "{") + "-> tensor<f32>\n return %0 : tensor<f32> }\n"
    chain = "".join(line.format(i, i + 1) for i in range(3000))
    end = last.replace("@main", "@f3000")
    assert hlo.from_stablehlo(head + chain + end).entry.root.opcode == "call"
    with pytest.raises(HloError, match="@f0 calls itself"):
        hlo.from_stablehlo(head + chain + line.format(3000, 0))


def test_a_huge_constant_is_read_at_once() -> None:
    digits = np.arange(300_000, dtype=np.int32).tobytes().hex()
    body = f'%r = stablehlo.constant dense<"0x{digits}"> : tensor<300000xi32>'
    module = hlo.from_stablehlo(function(f"{body}\nreturn %r : tensor<300000xi32>",
                                         result="tensor<300000xi32>"))  # fmt: skip
    assert hlo.interpret(module, np.zeros((2, 3), np.float32))[299_999] == 299_999
    splat = "%r = stablehlo.constant dense<1> : tensor<1000000x1000000xi8>"
    module = hlo.from_stablehlo(function(f"{splat}\nreturn %r : tensor<1000000x1000000xi8>",
                                         result="tensor<1000000x1000000xi8>"))  # fmt: skip
    assert module.entry.root.opcode == "broadcast"


def test_an_inlined_mesh_shards() -> None:
    text = function(
        "return %a : tensor<4x2xf32>",
        '%a: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<mesh<["q"=4]>, [{"q"}, {}]>}',
        "tensor<4x2xf32>",
    )
    (parameter,) = hlo.from_stablehlo(text).entry.parameters
    assert str(parameter.annotations["sharding"]) == "{devices=[4,1]<=[4]}"


def test_a_number_has_one_layout_whatever_is_said() -> None:
    text = (
        "func.func @main(%t: !stablehlo.token) -> tensor<i1> {\n"
        '  %r:3 = "stablehlo.infeed"(%t) {layout = [[0, 1], [0]]} : (!stablehlo.token) -> '
        "(tensor<3x3xi32>, tensor<i1>, !stablehlo.token)\n"
        "  return %r#1 : tensor<i1>\n}"
    )
    assert "((s32[3,3]{0,1}, pred[]), token[]) infeed(" in str(hlo.from_stablehlo(text))


def test_calls_of_a_location_nest_deeply() -> None:
    calls = "".join(f'callsite("f{n}"("f.py":{n}:1) at ' for n in range(1, 300))
    text = f"""
    func.func @main(%x: tensor<f32>) -> tensor<f32> {{
      %y = stablehlo.tanh %x : tensor<f32> loc("tanh"({calls}"main"("main.py":1:1){")" * 299}))
      return %y : tensor<f32>
    }}"""
    module = hlo.from_stablehlo(text)
    assert len(module.tables["StackFrames"]) == 300
    assert "stack_frame_id=300" in str(module)


def test_a_layout_that_is_left_open_is_that_of_a_transpose() -> None:
    text = """
    func.func @main(%x: tensor<4x6x2xf32> {mhlo.layout_mode = "{0,1,2}"}, %y: tensor<2x3xf32>)
        -> (tensor<2x4x6xf32> {mhlo.layout_mode = "auto"},
            tensor<2x3xf32> {mhlo.layout_mode = "auto"}) {
      %a = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<4x6x2xf32>) -> tensor<2x4x6xf32>
      %b = stablehlo.tanh %y : tensor<2x3xf32>
      return %a, %b : tensor<2x4x6xf32>, tensor<2x3xf32>
    }"""
    _, result = hlo.from_stablehlo(text).program_shapes
    assert str(result) == "(f32[2,4,6]{1,2,0}, f32[2,3]{1,0})"


NAMED_MESH = """
module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @grid = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>
  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%a) <{
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids,
      replica_groups = #stablehlo.replica_group_mesh_axes<
        mesh = @grid, axes = [#stablehlo.axis_ref<name = "x">]>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""


def test_groups_over_the_axes_of_a_mesh_by_its_name() -> None:
    groups = hlo.from_stablehlo(NAMED_MESH).entry.root.attrs["replica_groups"]
    assert str(groups) == "mesh['x'=2,'y'=2], device_ids=(3,2,1,0) {'x'}"
    with pytest.raises(HloError, match="there is no mesh @plane"):
        hlo.from_stablehlo(NAMED_MESH.replace("mesh = @grid", "mesh = @plane"))


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ('"stablehlo.transpose"(%x) {permutation = array<i64: 7, 0>}', "bad-dimension"),
        ('"stablehlo.transpose"(%x) {permutation = array<i64: 0, 0>}', "bad-dimension"),
        ('"stablehlo.transpose"(%x) {permutation = array<i64: 0>}', "bad-dimension"),
        ('"stablehlo.custom_call"() {call_target_name = "Sharding"}', None),
    ],
)
def test_a_layout_that_is_left_open_of_what_is_no_view(operation: str, code: str | None) -> None:
    operands = "tensor<2x3xf32>" if "%x" in operation else ""
    text = f"""
    func.func @main(%x: tensor<2x3xf32>) -> (tensor<3x2xf32> {{mhlo.layout_mode = "auto"}}) {{
      %a = {operation} : ({operands}) -> tensor<3x2xf32>
      %b = "stablehlo.transpose"(%a) {{permutation = array<i64: 1, 0>}} :
        (tensor<3x2xf32>) -> tensor<2x3xf32>
      %c = "stablehlo.transpose"(%b) {{permutation = array<i64: 1, 0>}} :
        (tensor<2x3xf32>) -> tensor<3x2xf32>
      return %c : tensor<3x2xf32>
    }}"""
    module = hlo.from_stablehlo(text)
    if code is None:
        hlo.verify(module)
    else:
        with pytest.raises(HloError) as e:
            hlo.verify(module)
        assert e.value.code == code
