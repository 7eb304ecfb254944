"""What the parser makes of text: values, places, sharing."""

from __future__ import annotations

import gc

import pytest

from hlo.errors import HloError
from hlo.frontends.text import parse, print_module
from hlo.frontends.text.header import FileLocation, StackFrame
from hlo.ir import Module
from hlo.ir.aliases import BufferDonor, InputOutputAlias
from hlo.values.shape_text import parse_shape
from hlo.values.types import (
    TOKEN,
    ArrayShape,
    BufferShape,
    DimLevel,
    Layout,
    Tile,
    TupleShape,
    array,
)

TEXT = """HloModule m, is_scheduled=true,
  input_output_alias={ {0}: (0, {}, must-alias), {1,2}: (1, {3}) },
  buffer_donor={ (1, {}) }, entry_computation_layout={(f32[2]{0})->f32[2]{0}},
  frontend_attributes={a="1",b={"k": [1]}}, allow_spmd_sharding_propagation_to_output=true

FileNames
1 "a'b.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=8 column=9 end_column=10}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY %e (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0)
  %n = f32[2]{0} negate(f32[2]{0} %p), metadata={op_name="a/b" source_line=3},
      frontend_attributes={z="\\"q\\"",y={"a": "}"}}
  ROOT %r = f32[2]{0} add(%p, %n), metadata={op_name="a/b" source_line=3}, control-predecessors={%n}
}
"""


def test_a_type_may_stand_apart_from_its_dimensions() -> None:
    module = parse(
        "HloModule m\nENTRY e (p: f32 [2]) -> f32 [2] {\n  p = f32 [2] parameter(0)\n"
        "  ROOT n = f32/*x*/[2] negate(f32 [2] p)\n}\n"
    )
    assert module.entry.root.shape == array("f32", [2])


@pytest.mark.parametrize("gap", [" ", "\n", "/*a*/ /*b*/"])
def test_a_layout_may_stand_apart_from_its_shape(gap: str) -> None:
    text = """HloModule m, entry_computation_layout={{(f32[2,2]{0}{{0,1}})->f32[1]}}

    c (p: f32[2,2]{0}{{0,1}}) -> f32[2,2]{0}{{0,1}} {{
      ROOT p = f32[2,2]{0}{{0,1}} parameter(0)
    }}
    ENTRY e {{
      x = f32[2,2]{0}{{0,1}} parameter(0)
      y = f32[2,2]{0}{{0,1}} negate(f32[2,2]{0}{{0,1}} x)
      ROOT z = f32[1] custom-call(y), custom_call_target="t", literal=f32[1] {{0}}
      t = (f32[2,2]{0}{{0,1}}, f32[1]) tuple(x, z)
    }}"""
    assert str(parse(text.format(gap))) == str(parse(text.format("")))


def test_the_header_is_decoded() -> None:
    module = parse(TEXT)
    assert module.name == "m" and module.is_scheduled
    assert module.attrs["input_output_alias"] == (
        InputOutputAlias((0,), 0, (), True), InputOutputAlias((1, 2), 1, (3,), False)
    )  # fmt: skip
    assert module.attrs["buffer_donor"] == (BufferDonor(1),)
    assert module.attrs["entry_computation_layout"].parameters == (array("f32", [2]),)
    assert dict(module.attrs["frontend_attributes"]) == {"a": "1", "b": '{"k": [1]}'}
    assert module.attrs["allow_spmd_sharding_propagation_to_output"] == (True,)
    assert module.tables == {
        "FileNames": ["a'b.py"],
        "FunctionNames": ["f"],
        "FileLocations": [FileLocation(1, 1, 7, 8, 9, 10)],
        "StackFrames": [StackFrame(1, 1)],
    }


def test_edges_attributes_and_places() -> None:
    module = parse(TEXT, "f.hlo")
    p, n, r = module.entry
    assert r.operands == [p, n] and p.users == [n, r] and r.is_root
    assert r.control_predecessors == [n]
    assert n.annotations["metadata"].op_name == "a/b"
    assert n.annotations["metadata"].fields["source_line"] == 3
    assert n.annotations["metadata"] is r.annotations["metadata"]
    assert dict(n.annotations["frontend_attributes"]) == {"z": '"q"', "y": '{"a": "}"}'}
    assert n.span is not None and r.span is not None
    assert str(n.span) == "f.hlo:20:3"
    assert str(n.span.operand(0)) == "f.hlo:20:25"
    assert str(n.span.attr("frontend_attributes")) == "f.hlo:21:7"
    assert str(r.span.operand(1)) == "f.hlo:22:31"
    text = module.source.text if module.source else ""
    assert text[n.span.start : n.span.end].startswith("%n =")
    assert text[n.span.start : n.span.end].endswith('"}"}}')


def test_equal_shapes_are_one_object() -> None:
    p, n, r = parse(TEXT).entry
    assert p.shape is n.shape is r.shape


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("f32[]", array("f32", [])),
        ("f32[2,3]", array("f32", [2, 3])),
        ("f32[2x3]", array("f32", [2, 3])),
        ("token[]", TOKEN),
        ("()", TupleShape()),
        ("(f32[2], (s32[], token[]))",
         TupleShape((array("f32", [2]), TupleShape((array("s32", []), TOKEN))))),
        ("b(f32[2])", BufferShape(array("f32", [2]))),
        ("s32[<=4,?]", ArrayShape(array("s32", []).element_type, (4, -1), Layout((1, 0)),
                                  (True, True))),
        ("f32[2,3]{0,1}", array("f32", [2, 3]).with_layout(Layout((0, 1)))),
        ("bf16[2,3]{1,0:T(8,128)(2,1)S(1)}", array("bf16", [2, 3]).with_layout(
            Layout((1, 0), tiles=(Tile((8, 128)), Tile((2, 1))), memory_space=1))),
        ("f32[2]{0:T(*)L(4)E(16)M(8)}", array("f32", [2]).with_layout(
            Layout((0,), tiles=(Tile((-1,)),), tail_padding=4, element_bits=16,
                   dynamic_prefix_bytes=8))),
        ("f32[2]{0:D(C+~)}", array("f32", [2]).with_layout(
            Layout((0,), (DimLevel("C", False, False),)))),
    ],
)  # fmt: skip
def test_shapes(text: str, shape: object) -> None:
    assert parse_shape(text) == shape
    assert parse_shape(str(shape)) == shape


def test_layouts_may_be_left_open() -> None:
    assert parse_shape("f32[2]", fill_layout=False) == array("f32", [2]).with_layout(None)


def test_the_collector_is_on_again_after_an_error() -> None:
    with pytest.raises(HloError):
        parse("nonsense")
    assert gc.isenabled()


def test_a_failed_parse_names_the_file_once_for_each_error() -> None:
    with pytest.raises(HloError) as caught:
        parse("ENTRY e {\n  p = f32[2] parameter(0)\n  ROOT q = f32[2] negat(p)\n}", "x.hlo")
    assert str(caught.value) == (
        "x.hlo:3:19: error: unknown opcode 'negat' [unknown-opcode]\n"
        "    ROOT q = f32[2] negat(p)\n"
        "                    ^^^^^\n"
        "  hint: did you mean 'negate'?"
    )


@pytest.mark.parametrize("text", ["", "  \n ", "HloModule", "HloModule m", "ENTRY", "ENTRY e {"])
def test_every_error_has_a_place(text: str) -> None:
    with pytest.raises(HloError) as caught:
        parse(text)
    assert all(d.span is not None for d in caught.value.diagnostics)


def test_errors_are_listed_in_the_order_of_the_text_and_not_without_end() -> None:
    lines = "\n".join(f"  q{i} = f32[2] nope{i}(p)" for i in range(1000))
    with pytest.raises(HloError) as caught:
        parse("ENTRY e {\n  p = f32[2] parameter(0)\n" + lines + "\n}\n")
    starts = [d.span.start for d in caught.value.diagnostics if d.span]
    assert starts == sorted(starts) and len(starts) == 20


def test_str_of_a_module_is_its_text() -> None:
    module = parse(TEXT)
    assert isinstance(module, Module)
    assert str(module) == print_module(module)
    assert str(parse(str(module))) == str(module)


def test_a_string_may_run_over_lines_where_that_makes_sense_of_the_text() -> None:
    table = '{\n  {"a"} : {"b"},\n  "\n    f {\n      %x = f32[] parameter(0)\n    }\n  "\n}'
    module = parse(f"HloModule m, origin_recovery_table={table}\n\nENTRY e {{\n"
                   "  p = f32[] parameter(0), metadata={op_name='two\nlines'}\n}\n")  # fmt: skip
    assert module.attrs["origin_recovery_table"] == table
    assert module.entry.root.annotations["metadata"].op_name == "two\nlines"
    assert print_module(parse(print_module(module))) == print_module(module)


def test_a_quote_that_is_forgotten_is_found_on_its_line() -> None:
    text = 'ENTRY e {\n  p = f32[] parameter(0), metadata={op_name="a}\n  q = f32[] abs(p)\n}\n'
    with pytest.raises(HloError, match="2:45: error: the string is not closed on its line"):
        parse(text)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_comments_end_with_any_line(end: str) -> None:
    lines = ("HloModule m // a", "ENTRY e { // b", "ROOT c = f32[2] constant({1, // c", "2})", "}")
    root = parse(end.join(lines)).entry.root
    assert root.attrs["literal"].array.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # What it calls has errors, and its shape follows from that.
        ("c { a = f32[] zork() }\nENTRY e { a = f32[] parameter(0)  ROOT b = call(a), to_apply=c }",
         "unknown opcode 'zork'"),
        ("c { a = zork() }\nENTRY e { a = (f32[]) parameter(0)\n"
         "  ROOT b = while(a), condition=c, body=c }", "unknown opcode 'zork'"),
        ("ENTRY e { a = f32[] parameter(0)  ROOT b = f32[] call(a), to_apply= }",
         "expected a value"),
    ],
)  # fmt: skip
def test_callees_with_errors_are_no_errors_of_their_callers(text: str, words: str) -> None:
    with pytest.raises(HloError) as e:
        parse("HloModule m " + text)
    assert words in str(e.value)
    assert len(e.value.diagnostics) == 1
