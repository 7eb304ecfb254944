"""Pictures of modules: groups that a person can read, and the data of the page."""

from __future__ import annotations

import json

import pytest

import hlo
from hlo.reports.graph import to_html
from hlo.reports.graph.data import graph_data
from hlo.reports.graph.groups import MOST_PARTS, Group, groups_of, scope_of
from hlo.reports.graph.style import value_text


def _scoped(name: str, op: str, scope: str) -> str:
    return f'  {name} = f32[4] {op}, metadata={{op_name="jit(f)/{scope}"}}\n'


LAYERS = (
    "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  w = f32[4] parameter(1)\n"
    "  half = f32[] constant(0.5)\n  halves = f32[4] broadcast(half), dimensions={}\n"
    + _scoped("a", "multiply(x, w)", "layer_0/mul")
    + _scoped("b", "multiply(a, halves)", "layer_0/mul")
    + _scoped("c", "tanh(b)", "layer_1/inner(a/b)/tanh")
    + _scoped("d", "negate(c)", "layer_1/inner(a/b)/neg")
    + "  ROOT r = f32[4] add(d, b)\n}\n"
)


def _shown(group: Group) -> list[object]:
    return [
        [part.name, *_shown(part)] if isinstance(part, Group) else part.name for part in group.parts
    ]


def _chain(length: int) -> str:
    lines = [f"  v{n} = f32[4] negate(v{n - 1})\n" for n in range(1, length)]
    return f"HloModule m ENTRY e {{\n  v0 = f32[4] parameter(0)\n{''.join(lines)}}}\n"


def test_scopes_of_an_op_name() -> None:
    assert scope_of("jit(f)/vmap(a/b)/layer_1/add") == ("jit(f)", "vmap(a/b)", "layer_1")
    assert scope_of("add") == () and scope_of("") == ()


def test_instructions_are_grouped_by_scope_and_sources_stand_with_their_users() -> None:
    groups = groups_of(hlo.parse(LAYERS).entry)
    assert _shown(groups) == [
        ["jit(f)", ["layer_0", "x", "w", "half", "halves", "a", "b"],
         ["layer_1/inner(a/b)", "c", "d"]],
        "r",
    ]  # fmt: skip


@pytest.mark.parametrize("length", [1, MOST_PARTS + 1, 3000])
def test_no_group_has_too_many_parts_and_none_is_lost(length: int) -> None:
    comp = hlo.parse(_chain(length)).entry
    root = groups_of(comp)
    assert [i.name for i in root.instructions()] == [f"v{n}" for n in range(length)]
    assert all(len(group.parts) <= MOST_PARTS for group in root.groups())


def test_pieces_are_cut_where_few_values_are_live() -> None:
    # 30 blocks of four chains each that meet at their end.
    lines = []
    for block in range(30):
        before = f"m{block - 1}" if block else "x"
        for chain in "abcd":
            lines.append(f"{chain}{block} = f32[] sine({before})")
            lines.append(f"{chain}{block}x = f32[] cosine({chain}{block})")
        lines.append(f"ab{block} = f32[] add(a{block}x, b{block}x)")
        lines.append(f"cd{block} = f32[] add(c{block}x, d{block}x)")
        lines.append(f"m{block} = f32[] add(ab{block}, cd{block})")
    text = "\n".join(lines)
    comp = hlo.parse(f"HloModule m ENTRY e {{ x = f32[] parameter(0)\n{text} }}").entry
    for group in list(groups_of(comp).groups())[1:]:
        last = list(group.instructions())[-1]
        assert last.name[0] == "m", "a piece ends inside a block"


def test_what_needs_all_scopes_is_apart_from_what_needs_none() -> None:
    before = "".join(f"  p{n} = f32[4] negate(x)\n" for n in range(30))
    after = "".join(f"  q{n} = f32[4] add(b, p{n})\n" for n in range(30))
    scoped = _scoped("a", "tanh(p0)", "l/tanh") + _scoped("b", "tanh(a)", "l/tanh")
    text = f"HloModule m ENTRY e {{\n  x = f32[4] parameter(0)\n{before}{scoped}{after}}}"
    parts = groups_of(hlo.parse(text).entry).parts
    names = [[i.name for i in p.instructions()] for p in parts if isinstance(p, Group)]
    assert [{name[0] for name in group} for group in names] == [{"x", "p"}, {"a", "b"}, {"q"}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("c = f32[] constant(0.5)", "0.5"),
        ("c = s32[1,1] constant({{7}})", None),
        ("i = s32[] constant(7) c = f32[] convert(i)", "7"),
        ("i = s32[] constant(7) c = s32[3] broadcast(i), dimensions={}", "7"),
        ("c = s32[2] constant({1,2})", None),
        ("c = s32[3] iota(), iota_dimension=0", None),
    ],
)
def test_numbers_that_stand_at_their_users(text: str, value: str | None) -> None:
    comp = hlo.parse(f"HloModule m ENTRY e {{ {text} ROOT t = () tuple() }}").entry
    assert value_text(comp["c"]) == value


def test_data_of_a_page() -> None:
    module = hlo.parse(
        """HloModule m
        body { s = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(s), index=0
          one = s32[] constant(1) j = s32[] add(i, one) v = f32[2] get-tuple-element(s), index=1
          ROOT t = (s32[], f32[2]) tuple(j, v) }
        cond { s = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(s), index=0
          n = s32[] constant(5) ROOT go = pred[] compare(i, n), direction=LT }
        ENTRY e { s = (s32[], f32[2]) parameter(0), sharding={{replicated},{devices=[2]<=[2]}}
          ROOT w = (s32[], f32[2]) while(s), condition=cond, body=body }"""
    )
    data = json.loads(json.dumps(graph_data(module)))
    loop = data["names"].index("w")
    names = [row[0] for row in data["computations"]]
    assert data["name"] == "m" and names[data["entry"]] == "e"
    assert [[role, names[comp]] for role, comp in data["inside"][str(loop)]] == [
        ["condition", "cond"], ["body", "body"],
    ]  # fmt: skip
    assert data["operands"][loop] == [data["names"].index("s", loop - 1)]
    assert data["texts"][data["shardings"][str(loop - 1)]].startswith("{{replicated}")
    assert data["values"][str(data["names"].index("one"))] == "1"
    assert data["texts"][data["opcodes"][loop]] == "while" and loop in data["inexact"]
    count = len(data["names"])
    for column in ("opcodes", "shapes", "lines", "comp", "group", "operands", "flops", "bytes"):
        assert len(data[column]) == count, column


def test_a_page_of_a_module_with_hostile_names_has_no_markup_of_theirs() -> None:
    bad = "</script><img src=x onerror=alert(1)>"
    page = to_html(hlo.parse(LAYERS.replace("layer_0", bad)))
    assert "<img" not in page and "\\u003c/script>\\u003cimg" in page


def test_pieces_are_named_by_the_functions_that_made_them() -> None:
    tables = """HloModule m
FileNames
1 "m.py"
FunctionNames
1 "norm"
2 "mlp"
3 "mlp.<locals>.<genexpr>"
FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=0 end_column=1}
2 {file_name_id=1 function_name_id=2 line=2 end_line=2 column=0 end_column=1}
3 {file_name_id=1 function_name_id=3 line=3 end_line=3 column=0 end_column=1}
StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}
3 {file_location_id=3 parent_frame_id=3}

ENTRY e {
  v0 = f32[4] parameter(0)
"""
    lines = []
    for n in range(1, 60):
        frame = 1 if n // 20 % 2 == 0 else 2 + n % 2
        root = "ROOT " if n == 59 else ""
        metadata = f"metadata={{stack_frame_id={frame}}}"
        lines.append(f"  {root}v{n} = f32[4] tanh(v{n - 1}), {metadata}")
    parts = groups_of(hlo.parse(tables + "\n".join(lines) + "\n}\n").entry).parts
    assert [part.name for part in parts] == ["norm #1", "mlp", "norm #2"]
