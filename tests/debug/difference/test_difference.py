"""What changed between two modules: each change once, in words, with its cost."""

from __future__ import annotations

import json

import pytest

import hlo
from hlo.analysis.simulation.machine import Machine
from hlo.debug.difference import Difference
from hlo.debug.difference.text import report
from tests.generators.shuffled import shuffled
from tests.harness.schemas import check_schema

_BODY = """
  w{n} = f32[8,8] parameter({p})
  t{n} = f32[8,8] transpose(x{n}), dimensions={{1,0}}
  d{n} = f32[8,8] dot(t{n}, w{n}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  x{next} = f32[8,8] tanh(d{n})"""


def layers(count: int = 6, *edits: tuple[str, str]) -> hlo.Module:
    """Return a chain of equal layers. edits: texts to replace, and by what."""
    text = "HloModule m\nENTRY e {\n  x0 = f32[8,8] parameter(0)"
    text += "".join(_BODY.format(n=n, p=n + 1, next=n + 1) for n in range(count))
    text += f"\n  ROOT r = f32[8,8] negate(x{count})\n}}\n"
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return hlo.parse(text)


def between(left: str, right: str) -> Difference:
    """Return the difference of two entries."""
    return hlo.diff(*(hlo.parse(f"HloModule m ENTRY e {{ {text} }}") for text in (left, right)))


def words(difference: Difference) -> list[str]:
    return [f"{len(p.places)} x {p.words}" for p in difference.patterns]


def test_what_is_written_differently_is_equal():
    module = layers()
    found = hlo.diff(module, shuffled(module, 3))
    assert not found and str(found) == "no difference\n" and found.patterns == []


@pytest.mark.parametrize("layer", range(6))
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tanh(d{n})", "sine(d{n})", "1 x tanh: now sine"),
        ("dot(t{n}, w{n})", "dot(w{n}, t{n})", "1 x dot: other operands"),
        ("transpose(x{n}), dimensions={{1,0}}", "transpose(x{n}), dimensions={{0,1}}",
         "1 x transpose: dimensions: {1,0} -> {0,1}"),
        ("tanh(d{n})", "tanh(t{n})", None),
    ],
)  # fmt: skip
def test_one_edit_among_equal_layers_is_one_change(layer, old, new, said):
    edited = layers(6, (old.format(n=layer), new.format(n=layer)))
    found = hlo.diff(layers(), shuffled(edited, layer))
    if said is None:  # the dot has no use any more: that is seen at the operand of its user
        assert {c.left.name for c in found.changes if c.left} == {f"x{layer + 1}"}
    else:
        assert words(found) == [said]


def test_repeated_rewrites_are_one_pattern():
    folded = layers(
        6,
        *((f"dot(t{n}, w{n}), lhs_contracting_dims={{0}}",
           f"dot(x{n}, w{n}), lhs_contracting_dims={{1}}") for n in range(6)),
        *((f"  t{n} = f32[8,8] transpose(x{n}), dimensions={{1,0}}\n", "") for n in range(6)),
    )  # fmt: skip
    found = hlo.diff(layers(), folded)
    assert words(found) == ["6 x transpose folded into dot"]
    assert found.more.bytes == -6 * 2 * 8 * 8 * 4
    assert "6 x transpose folded into dot  (-3 KiB" in str(found)
    assert "... and 3 more such places" in str(found)


def test_an_operand_that_is_new_is_no_difference_of_its_user():
    found = between(
        "x = f32[2] parameter(0)  ROOT y = f32[2] tanh(x)",
        "x = f32[2] parameter(0)  n = f32[2] negate(x)  ROOT y = f32[2] tanh(n)",
    )
    assert words(found) == ["1 x negate added"]


def test_the_operands_of_a_commutative_operation_may_be_swapped():
    text = "x = f32[2] parameter(0)  w = f32[2] parameter(1)  ROOT y = f32[2] {}"
    found = between(text.format("add(x, w)"), text.format("add(w, x)"))
    assert found.counts["swapped"] == 1 and words(found) == ["1 x add: operands swapped"]
    assert between(text.format("subtract(x, w)"), text.format("subtract(w, x)")).counts["changed"]


def test_constants_shapes_and_roots():
    text = "x = f32[2] parameter(0)  c = f32[] constant({})"
    text += "  b = f32[2] broadcast(c), dimensions={{}}"
    text += "  y = f32[2] add(x, b)  z = f32[2] tanh(y)  t = (f32[2], f32[2]) tuple({})"
    text += "  ROOT r = f32[2] get-tuple-element(t), index=0"
    plain = text.format("1", "y, z")
    assert words(between(plain, text.format("2", "y, z"))) == ["1 x constant: value: 1 -> 2"]
    assert words(between(plain, text.format("1", "z, y"))) == ["1 x tuple: other operands"]


def test_costs_come_with_the_loops_that_they_are_in():
    text = """HloModule m
      c {{ s = (s32[], f32[64]) parameter(0)  i = s32[] get-tuple-element(s), index=0
        n = s32[] constant({n})  ROOT go = pred[] compare(i, n), direction=LT }}
      b {{ s = (s32[], f32[64]) parameter(0)  i = s32[] get-tuple-element(s), index=0
        one = s32[] constant(1)  j = s32[] add(i, one)
        v = f32[64] get-tuple-element(s), index=1  u = f32[64] {f}
        ROOT t = (s32[], f32[64]) tuple(j, u) }}
      ENTRY e {{ z = s32[] constant(0)  x = f32[64] parameter(0)
        s = (s32[], f32[64]) tuple(z, x)
        ROOT w = (s32[], f32[64]) while(s), condition=c, body=b }}"""
    plain = hlo.parse(text.format(n=10, f="negate(v)"))
    [change] = hlo.diff(plain, hlo.parse(text.format(n=10, f="tanh(v)"))).changes
    assert change.left.name == "u" and change.cost.operations == -640
    longer = hlo.diff(plain, hlo.parse(text.format(n=30, f="negate(v)")))
    assert words(longer) == ["1 x constant: value: 10 -> 30"]
    assert longer.more.operations > 20 * 64 and longer.elsewhere == longer.more
    assert "in instructions that did not change" in str(longer)


def test_header_attributes_and_layouts_at_the_boundary():
    text = "HloModule m{} ENTRY e {{ x = f32[2,3] parameter(0)  ROOT y = f32[2,3] tanh(x) }}"
    plain = hlo.parse(text.format(""))
    layout = ", entry_computation_layout={(f32[2,3]{%s})->f32[2,3]{1,0}}"
    assert not hlo.diff(plain, hlo.parse(text.format(layout % "1,0")))
    other = hlo.diff(plain, hlo.parse(text.format(layout % "0,1")))
    assert [d.left for d in other.header] == ["parameter 0: f32[2,3]{1,0}"]
    counts = hlo.diff(plain, hlo.parse(text.format(", replica_count=2")))
    assert [(d.what, d.left, d.right) for d in counts.header] == [("replica_count", "1", "2")]


def test_metadata_counts_if_wanted():
    text = "HloModule m ENTRY e {{ ROOT x = f32[2] parameter(0){} }}"
    left = hlo.parse(text.format(""))
    right = hlo.parse(text.format(', metadata={op_name="x"}'))
    assert not hlo.diff(left, right)
    assert len(hlo.diff(left, right, metadata=True).changes) == 1


def test_the_json_is_as_its_schema_says():
    module = layers()
    found = hlo.diff(module, hlo.optimize(module.clone()), by_name=True)
    assert found
    data = json.loads(json.dumps(found.to_json()))
    check_schema("hlo-diff", data)
    listed = [change for p in data["patterns"] for place in p["places"] for change in place]
    assert sum(data["counts"].values()) == len(listed)


def test_pages_have_every_change():
    module = layers()
    found = hlo.diff(module, hlo.optimize(module.clone()), by_name=True)
    page = found.page()
    assert page.count('<tr><td class="number"') == len(found.patterns)
    assert "src=" not in page and "href=" not in page
    assert found.patterns[0].words in found._repr_html_()


def test_a_fusion_is_one_change_with_what_is_inside_and_apart_from_the_next():
    text = "HloModule m\n{bodies}\nENTRY e {{\n x0 = f32[64] parameter(0)\n{lines}\n"
    text += " ROOT r = f32[64] copy(x4)\n}}"
    bodies, plain, fused = "", "", ""
    for n in range(4):
        bodies += f"f{n} {{ p = f32[64] parameter(0)  t = f32[64] tanh(p)\n"
        bodies += "  ROOT m = f32[64] multiply(t, p) }\n"
        plain += f" t{n} = f32[64] tanh(x{n})\n x{n + 1} = f32[64] multiply(t{n}, x{n})\n"
        fused += f" x{n + 1} = f32[64] fusion(x{n}), kind=kLoop, calls=f{n}\n"
    left = hlo.parse(text.format(bodies="", lines=plain))
    right = hlo.parse(text.format(bodies=bodies, lines=fused))
    assert words(hlo.diff(left, right)) == ["4 x tanh + multiply fused"]
    assert words(hlo.diff(right, left)) == ["4 x tanh + multiply no longer fused"]


def test_modules_with_nothing_in_common_differ_in_every_instruction():
    found = between(
        "x = f32[2] parameter(0)  ROOT y = f32[2] tanh(x)", "ROOT c = s32[] constant(1)"
    )
    assert found.counts["removed"] == 2 and found.counts["added"] == 1


def test_a_shared_constant_does_not_make_one_of_many_rewrites():
    """Each division by the same constant becomes a multiplication by one of its own."""
    text = "HloModule m ENTRY e {{ {shared}\n x0 = f32[64] parameter(0)\n"
    text += "{lines} ROOT r = f32[64] copy(x9) }}"
    divided, multiplied = "", ""
    for n in range(9):
        divided += f" t{n} = f32[64] tanh(x{n})  x{n + 1} = f32[64] divide(t{n}, b)\n"
        multiplied += (
            f" c{n} = f32[] constant(0.5)  b{n} = f32[64] broadcast(c{n}), dimensions={{}}\n"
        )
        multiplied += f" t{n} = f32[64] tanh(x{n})  x{n + 1} = f32[64] multiply(t{n}, b{n})\n"
    shared = "c = f32[] constant(2)  b = f32[64] broadcast(c), dimensions={}"
    left = hlo.parse(text.format(shared=shared, lines=divided))
    right = hlo.parse(text.format(shared="", lines=multiplied))
    assert words(hlo.diff(left, right)) == [
        "9 x divide replaced by constant + broadcast + multiply",
        "1 x constant + broadcast removed",
    ]


def test_layouts_are_one_pattern_whatever_the_dimensions():
    text = "x = f32[2,3] parameter(0)  w = f32[4,5] parameter(1)  a = f32[2,3]{%s} copy(x)"
    text += "  b = f32[4,5]{%s} copy(w)  ROOT t = (f32[2,3], f32[4,5]) tuple(a, b)"
    found = between(text % ("1,0", "1,0"), text % ("0,1", "0,1"))
    assert words(found) == ["2 x copy: layout: {1,0} -> {0,1}"]


def test_a_fusion_takes_the_time_of_one_kernel():
    text = "HloModule m\n{body}\nENTRY e {{ x = f32[64,64] parameter(0)\n {lines} }}"
    dot = "dot({}, {}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    plain = f"d = f32[64,64] {dot.format('x', 'x')}  ROOT t = f32[64,64] tanh(d)"
    body = f"f {{ p = f32[64,64] parameter(0)  d = f32[64,64] {dot.format('p', 'p')}\n"
    body += "  ROOT t = f32[64,64] tanh(d) }"
    left = hlo.parse(text.format(body="", lines=plain))
    right = hlo.parse(text.format(
        body=body, lines="ROOT t = f32[64,64] fusion(x), kind=kOutput, calls=f"))  # fmt: skip
    # Slow memory: what counts is that the product is not written and read again.
    machine = Machine(flops=1e12, memory_bandwidth=1e9)
    array = 64 * 64 * 4
    found = hlo.diff(left, right, machine=machine)
    assert found.seconds == pytest.approx(-2 * array / 1e9)
    # Slow arithmetic: it is the same, and no longer hidden behind it is nothing.
    machine = Machine(flops=1e3, memory_bandwidth=1e15)
    found = hlo.diff(left, right, machine=machine)
    assert found.seconds == pytest.approx(0, abs=1e-9)


def test_large_places_are_cut_unless_all_is_wanted():
    chain = [f" x{n + 1} = f32[64] tanh(x{n})\n" for n in range(20)]
    inside = "f { x0 = f32[64] parameter(0)\n" + "".join(chain[:-1]) + " ROOT" + chain[-1] + "}"
    left = hlo.parse("HloModule m ENTRY e { x0 = f32[64] parameter(0)\n" + "".join(chain) + "}")
    right = hlo.parse(f"HloModule m {inside} ENTRY e {{ x = f32[64] parameter(0)\n"
                      " ROOT r = f32[64] fusion(x), kind=kLoop, calls=f }")  # fmt: skip
    found = hlo.diff(left, right)
    lines = str(found).splitlines()
    at = lines.index("  @@ ENTRY e @@")
    assert lines[at - 1].startswith("tanh fused")
    assert lines[at + 1].startswith("  + ") and " fusion(" in lines[at + 1]
    assert lines[-1] == "    ... and 9 more instructions"
    assert report(found, shown=None).count("now in f") == 20


# One program written in two ways.
_FFI = 'custom-call(x), custom_call_target="f", api_version=API_VERSION_TYPED_FFI, backend_config='
SAME = {
    "keys of JSON": (
        'abs(x), backend_config={"n":"3","known":{"a":1,"b":[1,2]}}',
        'abs(x), backend_config={"known": {"b": [1, 2], "a": 1}, "n": "3"}',
    ),
    "JSON as a string": (
        'abs(x), backend_config={"a":1,"b":true}',
        r'abs(x), backend_config="{\"b\":true,\"a\":1}"',
    ),
    "attributes of a typed custom call": (
        _FFI + '{a = 1 : i64, b = {c = 2.0 : f32, d = "x"}}',
        _FFI + '{b = {d = "x", c = 2.0 : f32}, a = 1}',
    ),
    "frontend attributes": (
        'abs(x), frontend_attributes={a="1",b="2"}',
        'abs(x), frontend_attributes={b="2",a="1"}',
    ),
    "a list of devices": (
        "abs(x), sharding={devices=[4]<=[4]}",
        "abs(x), sharding={devices=[4]0,1,2,3}",
    ),
    "a transposed list of devices": (
        "abs(x), sharding={devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
        "abs(x), sharding={devices=[2,2]0,2,1,3 last_tile_dims={replicated}}",
    ),
    "one tile": (
        "abs(x), sharding={replicated}",
        "abs(x), sharding={devices=[1,2]<=[2] last_tile_dim_replicate}",
    ),
    "metadata of a sharding": (
        "abs(x), sharding={replicated}",
        'abs(x), sharding={replicated metadata={op_name="f"}}',
    ),
    "replica groups": (
        "all-reduce(x), to_apply=sum, channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0)",
        "all-reduce(x), to_apply=sum, channel_id=1, replica_groups={{0,2},{1,3}}",
    ),
    "an attribute's default": (
        'custom-call(x), custom_call_target="f"',
        'custom-call(x), custom_call_target="f", custom_call_has_side_effect=false',
    ),
}  # fmt: skip
_ENTRY = """HloModule m{header}
sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY e {{ x = f32[4]{layout} parameter(0){note}  ROOT y = f32[4]{layout} {text} }}"""


def in_two_ways(left: dict[str, str], right: dict[str, str]) -> Difference:
    plain = {"header": "", "layout": "", "note": "", "text": "abs(x)"}
    return hlo.diff(*(hlo.parse(_ENTRY.format(**plain | given)) for given in (left, right)))


@pytest.mark.parametrize("case", SAME)
def test_one_program_written_in_two_ways_is_no_difference(case):
    left, right = SAME[case]
    found = in_two_ways({"text": left}, {"text": right})
    assert not found, str(found)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"layout": ""}, {"layout": "{0}"}),
        ({"note": ""}, {"note": ", parameter_replication={false}"}),
        ({}, {"header": ", allow_spmd_sharding_propagation_to_output={true}"}),
        ({}, {"header": ", replica_count=1, num_partitions=1"}),
        ({"header": ', backend_config={"a":1,"b":2}'},
         {"header": ', backend_config={"b":2,"a":1}'}),
        (
            {"header": ", num_partitions=2, allow_spmd_sharding_propagation_to_output={true,true}"},
            {"header": ", num_partitions=2, allow_spmd_sharding_propagation_to_output={true}"},
        ),
    ],
)  # fmt: skip
def test_headers_and_parameters_written_in_two_ways(left, right):
    found = in_two_ways(left, right)
    assert not found, str(found)


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ('{"n":"3","same":[1]}', '{"same":[1],"n":"4"}', '{"n":"3"} -> {"n":"4"}'),
        ('{"a":1}', '{"a":1.0}', '{"a":1} -> {"a":1.0}'),
        ('{"a":[1,2]}', '{"a":[2,1]}', '{"a":[1,2]} -> {"a":[2,1]}'),
        ('{"a":1,"b":null}', '{"a":1}', '{"b":null} -> {}'),
        ('"a b"', '"b a"', "a b -> b a"),
        ("{a = 1 : i64}", "{a = 1 : i32}", "{a = 1 : i64} -> {a = 1 : i32}"),
    ],
)
def test_a_backend_config_that_differs_shows_the_keys_that_do(left, right, said):
    texts = (f"abs(x), backend_config={text}" for text in (left, right))
    [change] = in_two_ways(*({"text": text} for text in texts)).changes
    assert [str(d).replace('"a b"', "a b").replace('"b a"', "b a") for d in change.details] == [
        f"backend_config: {said}"
    ]


def test_an_added_instruction_comes_with_its_user():
    found = between(
        "x = f32[2] parameter(0)  ROOT y = f32[2] tanh(x)",
        "x = f32[2] parameter(0)  k = f32[] constant(1)  b = f32[2] broadcast(k), dimensions={}"
        "  n = f32[2] add(x, b)  ROOT y = f32[2] tanh(n)",
    )
    lines = [line for line in str(found).splitlines() if " = " in line]
    assert [line.split(" = ")[0].split("%")[1] for line in lines] == ["k", "b", "n", "y"]
    assert ["used by" in line for line in lines] == [False, False, False, True]
