"""What we print, XLA's parser reads as the same module; and canonical text is XLA's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hlo.frontends.text import PrintOptions, parse, print_module
from hlo.values.types import ELEMENT_TYPES
from tests.harness.oracle import XlaError, xla_parse

STYLES = {
    "default": PrintOptions(),
    "short": PrintOptions.short_parsable(),
    "long": PrintOptions(operand_shapes=True, percent=False),
    "compact": PrintOptions(metadata=False, layouts=True, index_comments=False),
}


def entry(*lines: str, head: str = "HloModule m\n") -> str:
    """Return a module whose entry has `p: f32[2,3]`, `i: s32[]` and the given lines."""
    fixed = ("p = f32[2,3] parameter(0)", "i = s32[] parameter(1)")
    return head + "ENTRY e {\n" + "".join(f"  {x}\n" for x in (*fixed, *lines)) + "}\n"


ADD = "a { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y)\n}\n"
CUSTOM = 'custom-call(p), custom_call_target="t"'

CASES = {
    # The forms of a module.
    "no header": "m { a = f32[] parameter(0)\n ROOT b = f32[] negate(a) }",
    "single": "f32[2] add(f32[2] a, f32[2])",
    "single named": "x = f32[2,2]{1,0} add(f32[2,2]{1,0} a, f32[2,2] %b)",
    "single with a body": "f32[2] call(f32[2] q), to_apply={ ROOT x = f32[2] parameter(0) }",
    "last is entry": ADD + "b { p = f32[] parameter(0)\n ROOT q = f32[] reduce(p, p), "
    "dimensions={}, to_apply=a }",
    "comments": "/* a */ // b\nHloModule /*c*/ m // d\n\nENTRY /*e*/ f /*g*/ { // h\n"
    " a /*i*/ = /*j*/ f32[] /*k*/ parameter( /*l*/ 0 /*m*/ ) // n\n"
    ' ROOT b = f32[] add(a, /*index=1*/ a), /*o*/ metadata={op_name="/* p */"}\n}\n// q',
    "no root": entry("q = f32[2,3] negate(p)", "r = f32[2,3] abs(q)"),
    "root is not last": entry("ROOT q = f32[2,3] negate(p)", "r = f32[2,3] abs(q)"),
    "names": entry(
        "%ROOT = f32[2,3] negate(p)",
        "%inf = f32[2,3] abs(%ROOT)",
        "add = f32[2,3] add(%inf, %inf)",
        "a-b.c_1 = f32[2,3] abs(add)",
    ),
    "tight": "HloModule m\nENTRY e{%p=f32[2]{0}parameter(0)ROOT %q=f32[2]{0}negate(%p)}",
    # Module attributes.
    "header": entry(
        "ROOT t = (f32[2,3]) tuple(p)",
        head="HloModule m, is_scheduled=true, replica_count=2, num_partitions=4, "
        "input_output_alias={ {0}: (0, {}, must-alias) }, alias_passthrough_params=true, "
        'buffer_donor={ (1, {}) }, frontend_attributes={b="x",a={"k": 1}}, '
        "allow_spmd_sharding_propagation_to_parameters={true,false}, "
        "allow_spmd_sharding_propagation_to_output=true, "
        "entry_computation_layout={(f32[2,3]{0,1}, s32[])->(f32[2,3]{1,0})}\n",
    ),
    "alias default": entry(
        "ROOT t = (f32[2,3]) tuple(p)", head="HloModule m, input_output_alias={ {0}: (0, {}) }\n"
    ),
    "tables": entry(
        'q = f32[2,3] negate(p), metadata={op_name="x" stack_frame_id=2}',
        head='HloModule m\n\nFileNames\n1 "a.py"\n2 "it\'s \\"b\\".py"\n\n'
        'FunctionNames\n1 "f"\n\nFileLocations\n1 {file_name_id=1 '
        "function_name_id=1 line=1 end_line=2 column=3 end_column=4}\n\nStackFrames\n"
        "1 {file_location_id=1 parent_frame_id=1}\n"
        "2 {file_location_id=1 parent_frame_id=2}\n\n",
    ),
    # Shapes and layouts.
    "layouts": entry(
        f"a = f32[2,3]{{0,1}} {CUSTOM}",
        f"b = f32[2,3]{{1,0:T(2,128)(2,1)}} {CUSTOM}",
        f"c = bf16[8,16]{{1,0:T(8,128)(2,1)S(1)}} {CUSTOM}",
        f"d = s4[8]{{0:E(4)}} {CUSTOM}",
        f"e = f32[8,3]{{1,0:T(*,128)}} {CUSTOM}",
        f"f = f32[]{{:S(1)}} {CUSTOM}",
        f"g = f32[8]{{0:T(8)L(16)E(32)S(5)}} {CUSTOM}",
        f"h = f32[8,8]{{1,0:S(3)SC(1:4)}} {CUSTOM}",
        f"i2 = f32[<=8]{{0:M(16)}} {CUSTOM}",
        f"j = f32[8]{{0:#(u32)*(u64)}} {CUSTOM}",
        f"k = (f32[2]{{0}}, (s32[], pred[0]{{0}}), ()) {CUSTOM}",
    ),
    "dynamic": entry(
        f"a = f32[<=4,3] {CUSTOM}",
        f"b = f32[?,3] {CUSTOM}",
        "c = s32[] get-dimension-size(a), dimensions={0}",
    ),
    "other shapes": entry(
        "t = token[] after-all()", f"o = opaque[] {CUSTOM}", f"b = b(f32[2]) {CUSTOM}"
    ),
    "types": entry(*(f"v{i} = {t}[2] {CUSTOM}" for i, t in enumerate(ELEMENT_TYPES))),
    # Operands.
    "operand styles": entry(
        "a = f32[2,3] add(p, %p)",
        "b = f32[2,3] add(f32[2,3] a, f32[2,3]{1,0} %a)",
        "c = add(b, f32[2,3] multiply(a, negate(b)))",
    ),
    "many operands": entry(
        "t = (f32[2,3], f32[2,3], f32[2,3], f32[2,3], f32[2,3], /*index=5*/"
        "f32[2,3], s32[]) tuple(p, p, p, p, p, /*index=5*/p, i)"
    ),
    "inferred shapes": ADD
    + entry(
        "a = add(p, p)",
        "b = exponential(a)",
        "c = compare(a, b), direction=LT",
        "d = select(c, a, b)",
        "e2 = transpose(d), dimensions={1,0}",
        "f = dot(d, e2), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "g = tuple(f, i)",
        "h = get-tuple-element(g), index=1",
        "k = f32[] constant(0)",
        "r = reduce(p, k), dimensions={0,1}, to_apply=a",
        "s = call(p), to_apply={ x = f32[2,3] parameter(0)\n ROOT y = negate(x) }",
        head="",
    ),
    # Computations.
    "inline": entry(
        "c = f32[] constant(0)",
        "r = f32[2] reduce(p, c), dimensions={1}, to_apply={\n"
        "    x = f32[] parameter(0)\n    y = f32[] parameter(1)\n"
        "    ROOT z = f32[] add(x, y)\n  }",
    ),
    "branches": "b1 { ROOT x = f32[2,3] parameter(0) }\nb2 { x = f32[2,3] parameter(0)\n "
    "ROOT y = f32[2,3] negate(x) }\n"
    + entry("c = f32[2,3] conditional(i, p, p, p), branch_computations={b1, %b2, b1}", head=""),
    "while": "c { x = s32[] parameter(0)\n k = s32[] constant(3)\n "
    "ROOT r = pred[] compare(x, k), direction=LT }\n"
    "b { x = s32[] parameter(0)\n k = s32[] constant(1)\n ROOT r = s32[] add(x, k) }\n"
    + entry("ROOT w = s32[] while(i), condition=c, body=b", head=""),
    "thread": 'w { ROOT x = f32[2,3] parameter(0) }, execution_thread="t"\n'
    + entry(
        's = ((f32[2,3]), f32[2,3], u32[]) async-start(p), async_execution_thread="t", calls=w',
        "d = f32[2,3] async-done(s)",
        head="",
    ),
    "async sugar": entry(
        "s = ((f32[2,3], f32[2,3]), f32[2,3], u32[]) add-start(p, p)",
        "u = ((f32[2,3], f32[2,3]), f32[2,3], u32[]) add-update(s)",
        "d = f32[2,3] add-done(u)",
    ),
    # Annotations.
    "metadata": entry(
        'q = f32[2,3] negate(p), metadata={op_type="T" op_name="a\\n\\"b\\"\\t\\\\" '
        'source_file="f.py" source_line=3 source_end_line=4 source_column=5 '
        'source_end_column=6 profile_type={1} deduplicated_name="d" '
        'scheduling_name="s"}'
    ),
    "backend config": entry(
        'a = f32[2,3] negate(p), backend_config="a \\"b\\""',
        'b = f32[2,3] negate(p), backend_config={"a": {"b": ["}", {"c": {"d": '
        '{"e": {"f": {}}}}}]}}',
    ),
    "frontend attributes": entry(
        'a = f32[2,3] negate(p), frontend_attributes={_x="1",y.z={"k": [1,2]},b="{"}'
    ),
    "other annotations": entry(
        "a = f32[2,3] negate(p), statistics={visualizing_index=1,s=1.5,t=2}",
        "b = f32[2,3] negate(a), control-predecessors={p, i}",
        'c = f32[2,3] exponential(b), result_accuracy={mode=highest}, origin={{"v" {0}}}',
        "g = f32[2,3] exponential(b), result_accuracy={tolerance={atol=1e10,rtol=1e-5,ulps=2}}",
        "d = f32[2,3] tanh(b), result_accuracy={tolerance={atol=0.5,rtol=0,ulps=2}}",
        "q = (f32[2,3], s32[]) parameter(2), parameter_replication={true,false}",
    ),
    "shardings": entry(
        *(
            f"v{i} = f32[2,3] negate(p), sharding={s}"
            for i, s in enumerate(
                (
                    "{replicated}",
                    "{manual}",
                    "{unknown}",
                    "{maximal device=0}",
                    "{devices=[2,1]0,1}",
                    "{devices=[2,1]<=[2]}",
                    "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
                    "{devices=[1,1,2,2]<=[4] last_tile_dims={manual,replicated}}",
                    "{replicated shard_as 1}",
                    '{replicated metadata={op_name="x"}}',
                )
            )
        ),
        "t = (f32[2,3], s32[]) tuple(p, i), sharding={{devices=[2,1]<=[2]}, {replicated}}",
    ),
    # Literals.
    "literals": entry(
        "a = f32[] constant(-1.5e-3)",
        "b = f32[2,2] constant({{1, 2}, {3, nan}})",
        "c = pred[3] constant({true, 0, 1})",
        "d = c64[2] constant({(1, 2), (0, -3)})",
        "e2 = (f32[], (s32[2], pred[])) constant((1, ({2, 3}, false)))",
        "f = f32[0] constant({})",
        "g = f32[2,0] constant({{}, {}})",
        "h = u64[] constant(18446744073709551615)",
        "k = f32[] constant(-inf)",
        "l = bf16[2] constant({1 2})",
        "m = s4[] constant(-8)",
    ),
    # Bodies at their callers: the order of a schedule holds for whole computations only.
    "scheduled bodies": "HloModule m, is_scheduled=true\n"
    "c { y = f32[] parameter(1)\n x = f32[] parameter(0)\n u = f32[] negate(y)\n v = f32[] abs(x)"
    "\n ROOT z = pred[] compare(v, u), direction=LT }\n"
    "ENTRY e { k = s32[] constant(1)\n p = f32[4] parameter(0)\n"
    " ROOT s = f32[4] sort(p), dimensions={0}, to_apply=c }",
    "bodies that are called": ADD
    + entry(
        "w = f32[1,3] reduce-scatter(p), replica_groups={{0,1}}, dimensions={0}, to_apply=a",
        'c = f32[] custom-call(p, i), custom_call_target="t", called_computations={a, a}',
        "d = f32[2,3] conditional(i, p, p), branch_computations={b, b}",
        "ROOT t = (f32[1,3], f32[], f32[2,3]) tuple(w, c, d)",
        head="b { ROOT x = f32[2,3] parameter(0) }\n",
    ),
    "left out": ADD
    + entry(
        "m = f32[2,3] map(p, p), to_apply=a",
        "t = token[] after-all()",
        'o = token[] outfeed(m, t), outfeed_config="x"',
        f"s = (f32[2], (s32[], token[])) {CUSTOM}, sharding={{replicated}}",
        "e2 = () tuple(), sharding={manual}",
        "ROOT r = (f32[2,3], token[], (f32[2], (s32[], token[])), ()) tuple(m, o, s, e2)",
        head="",
    ),
    # Operation attributes of every kind of value.
    "attributes": ADD
    + entry(
        "a = f32[2,5] pad(p, c), padding=0_0x1_1",
        "s = f32[1,3] slice(p), slice={[0:2:2], [0:3]}",
        "w = f32[1,2] reduce-window(p, c), window={size=2x2 stride=1x1 pad=0_0x0_0}, to_apply=a",
        "o = s32[3] iota(), iota_dimension=0",
        "v = f32[6] reshape(p)",
        "x = f32[2,2] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "operand_precision={high,highest}",
        "y = f32[2,3] all-reduce(p), replica_groups={{0,1},{2,3}}, channel_id=1, to_apply=a, "
        "use_global_device_ids=true",
        "z = f32[2,3] all-reduce(p), replica_groups=[2,4]<=[4,2]T(1,0), to_apply=a",
        "q = f32[2,3] collective-permute(p), source_target_pairs={{0,1},{1,0}}, channel_id=3",
        'f = f32[2,3] custom-call(p, i), custom_call_target="t", '
        "operand_layout_constraints={f32[2,3]{0,1}, s32[]}, "
        "output_to_operand_aliasing={{}: (0, {})}, custom_call_has_side_effect=true, "
        "api_version=API_VERSION_STATUS_RETURNING",
        'g = f32[2,3] custom-call(p), custom_call_target="t", '
        "literal=( s32[2]{0} {1, 2}, ( c64[] (1, 2), pred[1,2]{1,0} { { 0, 1 } } ) )",
        head="",
    ).replace("  a = f32[2,5]", "  c = f32[] constant(0)\n  aa = f32[2,5]"),
}


@pytest.mark.parametrize("name", CASES)
def test_xla_reads_our_print_as_the_same_module(name: str) -> None:
    text = CASES[name]
    want = xla_parse(text)
    module = parse(text)
    for style, options in STYLES.items():
        assert xla_parse(print_module(module, options)) == want, style


@pytest.mark.parametrize("name", CASES)
def test_print_of_the_parsed_print_is_the_print(name: str) -> None:
    module = parse(CASES[name])
    for style, options in STYLES.items():
        printed = print_module(module, options)
        assert print_module(parse(printed), options) == printed, style


# XLA prints a wrapped operation twice, and keeps siblings in an order of its own.
CANONICAL = [n for n in CASES if n not in ("async sugar", "thread", "branches")]


@pytest.mark.parametrize("name", CANONICAL)
def test_canonical_text_is_xlas(name: str) -> None:
    text = CASES[name]
    ours = print_module(parse(text), PrintOptions.canonical())
    assert ours.rstrip() == xla_parse(text).rstrip()


FRAMES = """HloModule m

FileNames
1 "a.py"
2 "b.py"
3 "unused.py"

FunctionNames
1 "f"
2 "g"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=2 end_line=2 column=1 end_column=2}
3 {file_name_id=2 function_name_id=1 line=3 end_line=3 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=1}
4 {file_location_id=3 parent_frame_id=2}

f { x = f32[] parameter(0)
  ROOT y = f32[] negate(x), metadata={op_name="y" stack_frame_id=3} }
ENTRY e { x = f32[] parameter(0), metadata={stack_frame_id=4}
  y = f32[] negate(x), metadata={op_name="y" stack_frame_id=3}
  ROOT z = f32[] call(y), to_apply=f, metadata={op_name="z" stack_frame_id=2} }
"""
# What XLA makes of a text on reading it, beyond what CASES have.
READINGS = {
    "equal names": "b { x = f32[] parameter(0)\n ROOT a = f32[] negate(x) }\n"
    "a { x = f32[] parameter(0)\n c.7 = f32[] negate(x)\n c.07 = f32[] negate(c.7)\n"
    " c = f32[] negate(c.07)\n foo.x.3 = f32[] negate(c)\n ROOT y = f32[] negate(foo.x.3) }\n"
    "ENTRY e { x = f32[] parameter(0)\n c = f32[] negate(x)\n c.1 = f32[] negate(c)\n"
    " foo.x = f32[] call(c.1), to_apply=a\n c.-3 = f32[] call(foo.x), "
    "to_apply={ x = f32[] parameter(0)\n ROOT c = f32[] negate(x) }\n"
    " ROOT e = f32[] call(c.-3), to_apply=b }",
    "frames": FRAMES,
    "frames without tables": entry('q = f32[2,3] negate(p), metadata={stack_frame_id=3}'),
    "bits of constants": entry("q = s4[2]{0:E(4)} constant({1,2})", "s = s4[]{:E(4)} constant(3)"),
    "layouts": "HloModule m\nENTRY e { a = f32[2,3]{0,1:T(2,128)S(5)} parameter(0)\n"
    " ROOT b = f32[2,3]{0,1} copy(a) }",
    "layouts with replicas": "HloModule m, replica_count=2\n"
    "ENTRY e { a = f32[2,3]{0,1:T(2,128)S(5)} parameter(0)\n ROOT b = f32[2,3]{0,1} copy(a) }",
    "orders": "HloModule m\nENTRY e { d = f32[] constant(-0.0)\n b = f32[] parameter(1)\n"
    " a = f32[] parameter(0)\n c = f32[] add(a, b)\n ROOT r = f32[] multiply(b, c) }",
    "a body that calls the condition": "HloModule m\n"
    "t { p = (s32[]) parameter(0)\n ROOT c = pred[] constant(false) }\n"
    "c { ROOT p = (s32[]) parameter(0) }\n"
    "b { p = (s32[]) parameter(0)\n ROOT w = (s32[]) while(p), condition=t, body=c }\n"
    "ENTRY e { p = (s32[]) parameter(0)\n ROOT w = (s32[]) while(p), condition=t, body=b }",
    "an async computation with a name": "HloModule m\n"
    "f { a = f32[2] parameter(0)\n ROOT r = f32[2] negate(a) }\n"
    "ENTRY e { x = f32[2] parameter(0)\n s = ((f32[2]), f32[2]) async-start(x), calls=f\n"
    " u = ((f32[2]), f32[2]) async-update(s)\n ROOT d = f32[2] async-done(u) }",
    "nested aliases": "HloModule m, input_output_alias={ {0,1}: (0, {0,1}, may-alias) }, "
    "buffer_donor={ (0, {0,0}) }\nENTRY e { a = ((f32[2], f32[2])) parameter(0)\n"
    ' ROOT c = ((f32[2], f32[2])) custom-call(a), custom_call_target="x", '
    "output_to_operand_aliasing={{0,1}: (0, {0,1})} }",
}  # fmt: skip


@pytest.mark.parametrize("name", [*CASES, *READINGS])
def test_xla_form_is_xlas_print(name: str) -> None:
    text = (CASES | READINGS)[name]
    options = replace(PrintOptions.xla(), constant_limit=None)
    assert print_module(parse(text), options) == xla_parse(text, "default")


def test_the_oracle_rejects_what_it_should() -> None:
    with pytest.raises(XlaError):
        xla_parse("HloModule m\nENTRY e { a = f32[] foo() }")
