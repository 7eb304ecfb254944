"""StableHLO that is written: MLIR's parser and verifier take it, and it is the same program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hlo_tools.opt.command import main as opt
from hlo_tools.translate import main as translate

import hlo
from hlo.errors import HloError
from hlo.frontends.proto import from_pbtxt, to_pbtxt
from hlo.frontends.stablehlo import from_stablehlo, to_stablehlo
from hlo.ir import Module
from hlo.ops import OPS
from hlo.testing.sampling import random_value
from hlo.verifier import verify
from tests.harness.oracle import assert_same
from tests.harness.paths import ROOT

EXAMPLES = [(name, i) for name, spec in OPS.items() for i in range(len(spec.examples))]
MODELS = sorted((ROOT / "examples").glob("*.hlo"))
# What StableHLO has nothing for, with words of the error.
REFUSED = {
    **dict.fromkeys(
        ("exp2-0", "exp2-1", "log2-0", "log2-1", "ragged-all-to-all-0",
         "rng-get-and-update-state-0", "scaled-dot-0", "scan-0", "scan-1", "shuffle-0",
         "stochastic-convert-0"), "no such operation"
    ),
    "dot-3": "no block_scaling_config of it",
    "after-all-1": "tokens only",
    "all-to-all-1": "splits one array",
    "topk-1": "largest elements only",
}  # fmt: skip
# What only StableHLO newer than that of jaxlib 0.10 has; tests/sweeps/drift.py asks a newer one.
NEWER = ("stablehlo.collective_reduce", "WEAKORDER")
# They wait for a host, or are written as what they do at once.
NOT_RUN = ("infeed-0", "recv-0", "recv-done-0")


@pytest.fixture(scope="session")
def mlir() -> Any:
    """Return a function that has MLIR parse and verify a text."""
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib.mlir import ir

    def check(text: str) -> None:
        with jax_mlir.make_ir_context() as context:
            is_new = context.is_registered_operation(NEWER[0])
            if not is_new and any(word in text for word in NEWER):
                return
            ir.Module.parse(text).operation.verify()

    return check


def same_program(text: str, mlir: Any, *, runs: bool = True) -> str:
    """Check what is written of a module: its form, and its values; returns it."""
    module = hlo.parse(text)
    verify(module)
    written = to_stablehlo(module)
    mlir(written)
    again = from_stablehlo(written)
    verify(again)
    # From here on there and back changes nothing; but sizes are put together anew each time.
    second = to_stablehlo(again)
    assert "dynamic_reshape" in second or to_stablehlo(from_stablehlo(second)) == second
    if runs:
        _same_values(module, again)
    return written


def _same_values(module: Module, again: Module) -> None:
    rng = np.random.default_rng(0)
    args = [random_value(rng, s, edges=True) for s in module.entry.parameter_shapes]
    assert_same(hlo.interpret(again, *args), hlo.interpret(module, *args), ulps=0, signed_zero=True)


@pytest.mark.parametrize(("name", "number"), EXAMPLES)
def test_examples_of_operations(name: str, number: int, mlir: Any) -> None:
    key = f"{name}-{number}"
    text = OPS[name].examples[number]
    if key in REFUSED:
        with pytest.raises(HloError, match=f"{name}: .*{REFUSED[key]}"):
            to_stablehlo(hlo.parse(text))
        return
    same_program(text, mlir, runs=key not in NOT_RUN)


HEAD = "HloModule m\n"
PROGRAMS = {
    "constants": HEAD + "ENTRY e { a = f32[5] constant({nan, inf, -inf, -0.0, 0.1})\n"
    " b = c64[2] constant({(1, -2), (0.5, nan)})\n c = pred[3] constant({1, 0, 1})\n"
    " d = bf16[2] constant({1.5, 3.14})\n e = s4[2,2] constant({{-8, 7}, {0, 1}})\n"
    " f = f8e4m3fn[3] constant({448, -0.0, nan})\n g = s64[] constant(-9223372036854775808)\n"
    " h = u64[2] constant({18446744073709551615, 0})\n i = s32[0,3] constant({})\n"
    " j = f64[2] constant({5e-324, 0.1})\n k = f32[2,3] constant({{7, 7, 7}, {7, 7, 7}})\n"
    " l = f4e2m1fn[2] constant({0.5, -6})\n"
    " ROOT t = (f32[5], c64[2], pred[3], bf16[2], s4[2,2], f8e4m3fn[3], s64[], u64[2], s32[0,3], "
    "f64[2], f32[2,3], f4e2m1fn[2]) tuple(a, b, c, d, e, f, g, h, i, j, k, l) }",
    "large constants": HEAD + "ENTRY e { "
    f"a = f32[100] constant({{{', '.join(str(i / 7) for i in range(100))}}})\n"
    f" b = pred[70] constant({{{', '.join(str(i % 3 // 2) for i in range(70))}}})\n"
    f" c = u16[70] constant({{{', '.join(str(i * i) for i in range(70))}}})\n"
    " ROOT t = (f32[100], pred[70], u16[70]) tuple(a, b, c) }",
    "nested tuples": HEAD + "f { p = ((f32[], s32[]), f32[]) parameter(0)\n"
    " q = (f32[], s32[]) get-tuple-element(p), index=0\n"
    " x = f32[] get-tuple-element(p), index=1\n"
    " ROOT r = (f32[], (f32[], s32[])) tuple(x, q) }\n"
    "ENTRY e { p = ((f32[], s32[]), f32[]) parameter(0)\n"
    " c = (f32[], (f32[], s32[])) call(p), to_apply=f\n e = () tuple()\n"
    " d = f32[] constant(1)\n"
    " ROOT r = ((f32[], (f32[], s32[])), (), f32[]) tuple(c, e, d) }",
    "a tuple of one": HEAD + "ENTRY e { p = (f32[2]) parameter(0)\n"
    " a = f32[2] get-tuple-element(p), index=0\n ROOT r = (f32[2]) tuple(a) }",
    "loops in branches": HEAD + "c { p = (s32[], f32[]) parameter(0)\n"
    " i = s32[] get-tuple-element(p), index=0\n k = s32[] constant(3)\n"
    " ROOT r = pred[] compare(i, k), direction=LT }\n"
    "b { p = (s32[], f32[]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
    " x = f32[] get-tuple-element(p), index=1\n one = s32[] constant(1)\n"
    " j = s32[] add(i, one)\n y = f32[] add(x, x)\n ROOT r = (s32[], f32[]) tuple(j, y) }\n"
    "t { p = (s32[], f32[]) parameter(0)\n"
    " ROOT w = (s32[], f32[]) while(p), condition=c, body=b }\n"
    "f { ROOT p = (s32[], f32[]) parameter(0) }\n"
    "ENTRY e { q = pred[] parameter(0)\n x = f32[] parameter(1)\n i = s32[] constant(0)\n"
    " s = (s32[], f32[]) tuple(i, x)\n"
    " a = (s32[], f32[]) conditional(q, s, s), true_computation=t, false_computation=f\n"
    " n = s32[] get-tuple-element(a), index=0\n"
    " ROOT r = (s32[], f32[]) conditional(n, a, a, s), branch_computations={f, t, f} }",
    "bitcasts": HEAD + "ENTRY e { x = f32[2,3]{0,1} parameter(0)\n"
    " a = u32[3,2]{0,1} bitcast(x)\n b = f32[6] bitcast(x)\n"
    " ROOT r = (u32[3,2], f32[6]) tuple(a, b) }",
    "products by algorithms": HEAD + "ENTRY e { x = f32[2,3] parameter(0)\n"
    " a = f32[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
    "algorithm=dot_f32_f32_f32, operand_precision={highest,highest}\n"
    " ROOT b = f32[2,2] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "operand_precision={high,highest} }",
    "roots that are computed": HEAD + "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
    " ROOT z = f32[] add(x, y) }\n"
    "ENTRY e { x = f32[2] parameter(0)\n i = s32[] constant(0)\n j = s32[1] reshape(i)\n"
    " y = f32[2] collective-reduce(x, i), replica_groups={{0}}, to_apply=add, "
    "has_dynamic_root=true\n"
    " ROOT r = f32[2] collective-broadcast(y, j), replica_groups={{0}}, has_dynamic_root=true }",
    "indices in a list": HEAD + "ENTRY e { x = f32[4,5] parameter(0)\n i = s32[2] parameter(1)\n"
    " s = f32[2,2] dynamic-slice(x, i), dynamic_slice_sizes={2,2}\n"
    " ROOT u = f32[4,5] dynamic-update-slice(x, s, i) }",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, mlir: Any) -> None:
    same_program(PROGRAMS[name], mlir)


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_examples_go_there_and_back(path: Path, mlir: Any) -> None:
    text = path.read_text()
    same_program(text, mlir, runs=False)
    module = hlo.parse(text)
    assert str(from_pbtxt(to_pbtxt(module))) == str(hlo.from_proto(hlo.to_proto(module)))


def test_what_is_said_besides_operations(mlir: Any) -> None:
    text = (
        "HloModule a.b-c, num_partitions=2, replica_count=3, "
        "input_output_alias={ {0}: (1, {}, may-alias) }, buffer_donor={ (0, {}) }, "
        "entry_computation_layout={(f32[4,2]{0,1}, f32[4])->(f32[4], f32[4,2]{0,1})}, "
        'frontend_attributes={k="v"}\n'
        "ENTRY e { x = f32[4,2]{0,1} parameter(0), sharding={devices=[2,1]<=[2]}\n"
        " y = f32[4] parameter(1)\n"
        ' z = f32[4] add(y, y), frontend_attributes={a.b="1\\"2"}, '
        'metadata={op_name="jit(f)/add" source_file="f.py" source_line=3 source_column=7}\n'
        " ROOT t = (f32[4], f32[4,2]{0,1}) tuple(z, x), "
        "sharding={{replicated}, {devices=[2,1]<=[2]}} }"
    )
    written = same_program(text, mlir, runs=False)
    for words in (
        'module @"a.b-c" attributes {mhlo.num_replicas = 3 : i32, mhlo.num_partitions = 2 : i32, '
        'mhlo.frontend_attributes = {k = "v"}}',
        '%arg0: tensor<4x2xf32> {jax.buffer_donor = true, mhlo.layout_mode = "{0,1}", '
        'mhlo.sharding = "{devices=[2,1]<=[2]}"}',
        "%arg1: tensor<4xf32> {tf.aliasing_output = 0 : i32}",
        'tensor<4x2xf32> {mhlo.layout_mode = "{0,1}", mhlo.sharding = "{devices=[2,1]<=[2]}"})',
        '{mhlo.frontend_attributes = {a.b = "1\\222"}}',
        'loc("jit(f)/add"("f.py":3:7))',
    ):
        assert words in written, words
    again = from_stablehlo(written)
    assert again.device_counts == (3, 2)
    (add,) = (i for i in again.instructions() if i.opcode == "add")
    assert add.annotations["frontend_attributes"] == {"a.b": '1"2'}
    assert add.annotations["metadata"].op_name == "jit(f)/add"


def test_the_form_of_operations() -> None:
    text = HEAD + (
        "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
        "ENTRY e { a = f32[<=4,2] parameter(0)\n z = f32[] constant(0)\n"
        " ROOT r = f32[2] reduce(a, z), dimensions={0}, to_apply=add }"
    )
    assert to_stablehlo(hlo.parse(text)) == (
        "module @m {\n"
        "  func.func public @main(%arg0: tensor<?x2xf32, #stablehlo.bounds<4, ?>>)"
        " -> (tensor<2xf32>) {\n"
        '    %0 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>\n'
        '    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 0>}> ({\n'
        "    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):\n"
        '      %2 = "stablehlo.add"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n'
        "      stablehlo.return %2 : tensor<f32>\n"
        "    }) : (tensor<?x2xf32, #stablehlo.bounds<4, ?>>, tensor<f32>) -> tensor<2xf32>\n"
        "    return %1 : tensor<2xf32>\n"
        "  }\n"
        "}\n"
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("x = f32[20] constant({...})", "elided-constants"),
        ("x = s1[2] constant({0,-1})", "unknown-type"),
        ('x = f32[2] custom-call(), custom_call_target="t", window={size=2}', "no-counterpart"),
        ("x = u64[] rng-get-and-update-state(), delta=1", "no-counterpart"),
        ("x = (f32[2], u32[], token[]) recv(after-all()), channel_id=1", "no-counterpart"),
    ],
)
def test_what_cannot_be_said_is_an_error_with_its_place(line: str, code: str) -> None:
    with pytest.raises(HloError) as caught:
        to_stablehlo(hlo.parse(f"HloModule m\nENTRY e {{\n  {line}\n}}"))
    assert caught.value.code == code and ":3:3: error: x: " in str(caught.value)


def test_regions_are_not_nested_or_repeated_without_end() -> None:
    text, inner = HEAD, "p0"
    text += "c { p = (f32[]) parameter(0)\n ROOT r = pred[] constant(false) }\n"
    text += "p0 { ROOT p = (f32[]) parameter(0) }\n"
    for n in range(1, 40):
        text += f"p{n} {{ p = (f32[]) parameter(0)\n"
        text += f" w = (f32[]) while(p), condition=c, body={inner}\n"
        text += f" ROOT v = (f32[]) while(w), condition=c, body={inner} }}\n"
        inner = f"p{n}"
    text += "ENTRY e { p = (f32[]) parameter(0)\n"
    text += f" ROOT r = (f32[]) while(p), condition=c, body={inner} }}"
    with pytest.raises(HloError, match="nest more than"):
        to_stablehlo(hlo.parse(text))


# --- the commands -------------------------------------------------------------------------------

ADD = (
    HEAD
    + "ENTRY e { x = f32[12] parameter(0)\n"
    + (
        f" c = f32[12] constant({{{', '.join(map(str, range(12)))}}})\n"
        " ROOT r = f32[12] add(x, c) }"
    )
)


def run(command: Any, *args: str, text: str | None = None) -> Result:
    more = [] if text is None or "-" in args else ["-"]
    result = CliRunner().invoke(command, [*args, *more], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_files_go_from_form_to_form(tmp_path: Path) -> None:
    source = str(tmp_path / "a.hlo")
    Path(source).write_text(ADD)
    for name in ("b.mlir", "c.pb", "d.pbtxt", "e.mlir", "f.hlo"):
        path = str(tmp_path / name)
        assert run(translate, source, "-o", path).exit_code == 0
        source = path
    _same_values(hlo.parse(ADD), hlo.load(source))
    assert Path(tmp_path / "b.mlir").read_text().startswith("module @m {")


def test_directions_have_the_names_of_xlas_tools(tmp_path: Path) -> None:
    mlir_text = run(translate, "-hlo-to-mlir", text=ADD).stdout
    assert mlir_text == to_stablehlo(hlo.parse(ADD)) == run(translate, text=ADD).stdout
    assert mlir_text == run(translate, "--hlo-to-stablehlo", "-", text=ADD).stdout
    back = run(translate, "-mlir-to-hlo", text=mlir_text)
    assert "= f32[12] constant({...})" in back.stdout and "elided" in back.stderr
    full = run(
        translate, "-mlir-to-hlo", "-print-large-constants", "-print-layouts", text=mlir_text
    )
    assert "= f32[12]{0} constant({0, 1, 2" in full.stdout
    assert "constant({0, 1, 2" in run(translate, text=mlir_text).stdout
    proto = run(translate, "-mlir-to-hlo", "-emit-proto", text=mlir_text).stdout
    assert proto.startswith("hlo_module {") and 'entry_computation_name: "main"' in proto
    assert run(translate, "--stablehlo-to-hlo", text=mlir_text).stdout == proto
    assert run(translate, "--emit-mhlo", text=ADD).exit_code == 2


def test_several_modules_and_errors() -> None:
    text = f"{ADD}\n// -----\n{ADD}"
    assert run(translate, "-split-input-file", text=text).stdout.count("module @m") == 2
    bad = run(translate, "-split-input-file", text=f"{ADD}\n// -----\nHloModule m\nENTRY e {{ x }}")
    assert bad.exit_code == 1 and f"<stdin>:{ADD.count(chr(10)) + 4}:" in bad.stderr


def test_aliases_are_comments_behind_hlo_text() -> None:
    text = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n" + ADD.split("\n", 1)[1]
    mlir_text = run(translate, text=text).stdout
    shown = run(translate, "-mlir-to-hlo", text=mlir_text).stdout
    assert shown.endswith("// OutputIndex {} aliases with input 0 at {}\n")


def test_an_mlir_file_is_stablehlo_or_refused(tmp_path: Path) -> None:
    out = tmp_path / "x.mlir"
    assert run(opt, "-", "--passes=dce", "-o", str(out), text=ADD).exit_code == 0
    assert out.read_text().startswith("module @m {")
    assert "use one of .ll, .txt" in run(
        opt, "-", "--stage=llvm", "-o", str(out), text=ADD
    ).stderr  # fmt: skip
    refused = HEAD + "ENTRY e { ROOT x = u64[] rng-get-and-update-state(), delta=1 }"
    again = tmp_path / "y.mlir"
    assert run(opt, "-", "-o", str(again), text=refused).exit_code == 1 and not again.exists()
