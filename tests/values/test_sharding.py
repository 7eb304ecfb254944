"""Shardings and replica groups as values: text, canonical forms, checks, expansion."""

from __future__ import annotations

import numpy as np
import pytest

from hlo.errors import InferError, TextError
from hlo.values.scan import Scanner
from hlo.values.sharding import Sharding, replica_groups
from hlo.values.sharding.devices import DeviceGrid
from hlo.values.sharding.text import read_sharding
from hlo.values.types import Shape, TupleShape, array
from tests.harness.oracle import xla_parse


def read(text: str) -> Sharding:
    scanner = Scanner(text)
    value = read_sharding(scanner)
    scanner.end()
    return value


def groups(text: str) -> replica_groups.ReplicaGroups:
    scanner = Scanner(text)
    value = replica_groups.read(scanner)
    scanner.end()
    return value


CANONICAL = [
    "{replicated}",
    "{manual}",
    "{unreduced}",
    "{unknown}",
    "{maximal device=3}",
    "{devices=[2,2]0,1,2,3}",
    "{devices=[4,1]0,2,1,3}",
    "{devices=[2,2]<=[4]}",
    "{devices=[2,2]<=[2,2]T(1,0)}",
    "{devices=[2,2,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
    "{devices=[2,1,2]<=[4] last_tile_dims={manual}}",
    "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}",
    "{devices=[2,2]<=[4] shard_as 3}",
    "{replicated shard_like 3}",
    '{replicated metadata={op_name="a b" source_line=3}}',
    '{replicated metadata={{op_name="a"}, {op_name="b"}}}',
    '{devices=[2,1,2]<=[4] last_tile_dim_replicate shard_like 2 metadata={op_name="a"}}',
    "{}",
    "{{replicated}}",
    "{{replicated}, {devices=[2,2]<=[4]}}",
    "{mesh['x'=2], [{}, {}]}",
    "{mesh['x'=2,'y'=2], [{'x'}, {'y'}]}",
    "{mesh['x'=4,'y'=2], [{'x':(1)2}, {'y', ?}], replicated={'x':(2)2}}",
    "{mesh['x'=4,'y'=2], [{}, {?}], unreduced={'x'}}",
    "{mesh[], [{}, {}]}",
    "{mesh['x'=4,'y'=2], [{}, {}], replicated={'y'}, manual={'x'}}",
    "{mesh['x'=4,'y'=2], [{'x', 'y'}, {}]}",
    "{mesh['x'=4,'y'=2], replicated}",
    "{mesh['x'=4,'y'=2], unreduced}",
    "{mesh['x'=4,'y'=2], manual}",
    "{mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x'}, {'y'}]}",
    "{mesh['x'=2,'y'=2], device_ids=(3,1,2,0), [{'x'}, {'y'}]}",
    "{maximal_mesh[device_id=3]}",
    "{mesh['x'=4], [{'x'}, {}], metadata={{op_name=\"a\"}}}",
    "{{mesh['x'=4], [{'x'}, {}]}, {replicated}}",
]


@pytest.mark.parametrize("text", CANONICAL)
def test_a_canonical_sharding_prints_as_it_was_read(text: str) -> None:
    value = read(text)
    assert str(value) == text
    assert read(text) == value


@pytest.mark.parametrize("text", CANONICAL)
def test_xla_prints_the_canonical_form_too(text: str) -> None:
    shape = "(f32[4,4], f32[4,4])" if text.startswith(("{{", "{}")) else "f32[4,4]"
    module = f"HloModule m\nENTRY e {{\n ROOT p = {shape} parameter(0), sharding={text}\n}}\n"
    assert f"sharding={text}" in xla_parse(module, "default")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("{devices=[2,2]<=[2,2]T(0,1)}", "{devices=[2,2]<=[4]}"),
        ("{devices=[2,2]<=[2,1,2]T(2,1,0)}", "{devices=[2,2]<=[2,2]T(1,0)}"),
        ("{devices=[2,4]<=[2,2,2]T(2,0,1)}", "{devices=[2,4]<=[4,2]T(1,0)}"),
        ("{devices=[1,1]<=[1,1]T(1,0)}", "{devices=[1,1]<=[1]}"),
        ("{devices=[2,1,2]<=[4] last_tile_dims={replicated}}",
         "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"),
        ('{metadata={op_name="a"} replicated}', '{replicated metadata={op_name="a"}}'),
        ('{mesh["x"=2,"y"=2] [{"x"},{"1"}]}', "{mesh['x'=2,'y'=2], [{'x'}, {'y'}]}"),
        ("{mesh[x=2,y=2], [{x},{y}]}", "{mesh['x'=2,'y'=2], [{'x'}, {'y'}]}"),
        ("{mesh['x'=2,'y'=2], device_ids=([4]), [{},{}]}", "{mesh['x'=2,'y'=2], [{}, {}]}"),
        ("{ { replicated } , /* two */ {manual} }", "{{replicated}, {manual}}"),
    ],
)  # fmt: skip
def test_other_spellings_read_as_the_canonical_form(text: str, canonical: str) -> None:
    assert str(read(text)) == canonical
    assert read(text) == read(canonical)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{replicated manual}", "unexpected 'manual'"),
        ("{replicated device=0}", "maximal has device="),
        ("{maximal}", "maximal has device="),
        ("{replicatd}", "unknown sharding 'replicatd'"),
        ("{devices=[2,2]0,1}", "has 4 places for 2 devices"),
        ("{devices=[2,2]<=[8]}", "has 4 places for 8 devices"),
        ("{devices=[0,2]<=[0]}", "not in the range"),
        ("{devices=[2,2]<=[2,2]}", "expected 'T'"),
        ("{devices=[2,2]<=[2,2]T(0,0)}", "not a permutation"),
        ("{devices=[2]<=[2] last_tile_dims={manual,manual}}", "2 subgroup kinds for 1"),
        ("{devices=[2]<=[2] last_tile_dims={odd}}", "unknown subgroup kind"),
        ("{{{replicated}}}", "expected a sharding"),
        ("{mesh['x'=2,'x'=2], [{}]}", "is repeated"),
        ("{mesh['x'=2], [{}], unreduced=avg{'x'}}", "unknown reduction 'avg'"),
        ("{mesh['x'=4], [{'q'}]}", "no axis 'q'"),
        ("{mesh['x'=4], [{'x'},{'x'}]}", "used twice"),
        ("{mesh['x'=4], [{'x':(2)4}]}", "no sub-axis (2)4"),
        ("{mesh['x'=4], [{'x':(1)2, 'x':(2)2}]}", "one part"),
        ("{mesh['x'=2,'y'=2], device_ids=(0,1,2,2), [{},{}]}", "each of 0..3 once"),
        ("{mesh['x'=2], nowhere}", "unknown sharding"),
        ("{replicated", "expected a sharding"),
        ("{replicated metadata={op_name=}}", "expected"),
    ],
)
def test_a_bad_sharding_is_an_error_with_a_place(text: str, message: str) -> None:
    with pytest.raises(TextError) as e:
        read(text)
    assert message in e.value.message
    assert 0 <= e.value.offset <= len(text)


F32_44 = array("f32", (4, 4))
PAIR = TupleShape((F32_44, array("s32", ())))


@pytest.mark.parametrize(
    ("text", "shape", "devices"),
    [
        ("{replicated}", PAIR, 4),
        ("{devices=[2,2]<=[4]}", F32_44, 4),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", F32_44, 4),
        ("{{devices=[2,2]<=[4]}, {replicated}}", PAIR, 4),
        ("{maximal device=3}", F32_44, 4),
        ("{mesh['x'=4], [{'x'}, {}]}", F32_44, 4),
        ("{devices=[1048576,1048576]<=[1099511627776]}", F32_44, None),
        ("{}", TupleShape(()), 1),
        ("{{replicated}}", TupleShape(()), 1),
    ],
)
def test_a_fitting_sharding_passes(text: str, shape: Shape, devices: int | None) -> None:
    read(text).check(shape, devices)


def test_unreduced_parts_may_have_a_reduction() -> None:
    # XLA prints this since after the release of jaxlib that the tests have.
    text = "{mesh['x'=4,'y'=2], [{}, {}], unreduced=max{'x'}}"
    assert str(read(text)) == text
    assert read(text) != read(text.replace("max", ""))


@pytest.mark.parametrize(
    ("text", "shape", "devices", "message"),
    [
        ("{devices=[2,2]<=[4]}", array("f32", (4,)), 4, "cuts 2 dimensions"),
        ("{devices=[2,2]<=[4]}", PAIR, 4, "cuts 2 dimensions"),
        ("{devices=[2,2]<=[4]}", F32_44, 8, "over 4 devices, there are 8"),
        ("{devices=[2,2]0,1,2,2}", F32_44, 4, "names a device twice"),
        ("{devices=[2,2]0,1,2,7}", F32_44, 4, "there are 4"),
        ("{maximal device=4}", F32_44, 4, "not one of the 4 devices"),
        ("{{replicated}}", PAIR, 4, "1 elements, the value has 2 leaves"),
        ("{{replicated}}", F32_44, 4, "a tuple sharding is on a value of shape"),
        ("{mesh['x'=4], [{'x'}]}", F32_44, 4, "cuts 1 dimensions"),
        ("{mesh['x'=8], [{'x'}, {}]}", F32_44, 4, "has 8 devices, there are 4"),
        ("{maximal_mesh[device_id=9]}", F32_44, 4, "not one of the 4 devices"),
    ],
)
def test_a_sharding_is_checked_against_shape_and_devices(
    text: str, shape: Shape, devices: int, message: str
) -> None:
    with pytest.raises(InferError) as e:
        read(text).check(shape, devices)
    assert message in e.value.message
    assert e.value.code == "bad-sharding" and e.value.attr == "sharding"


@pytest.mark.parametrize(
    ("text", "lists"),
    [
        ("{}", ()),
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{{0,1},{2}}", ((0, 1), (2,))),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[2,4]<=[4,2]T(1,0)", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['a'=2,'b'=2] {'a'}", ((0, 2), (1, 3))),
        ("mesh['a'=2,'b'=2] {'b','a'}", ((0, 2, 1, 3),)),
        ("mesh['a'=4,'b'=2] {'a':(1)2}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=4,'b'=2] {'a':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("mesh['a'=4,'b'=2] {'a':(2)2,'a':(1)2}", ((0, 4, 2, 6), (1, 5, 3, 7))),
        ("mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'a'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['a'=1,'b'=2] {'a'}", ((0,), (1,))),
    ],
)
def test_replica_groups_expand_and_print(text: str, lists: tuple[tuple[int, ...], ...]) -> None:
    value = groups(text)
    assert value.lists() == lists
    assert value.count == len(lists)
    sizes = {len(g) for g in lists}
    assert value.group_size == (sizes.pop() if len(sizes) == 1 else None)
    assert replica_groups.write(value) == text
    assert groups(text) == value


def test_xla_prints_replica_groups_as_we_do() -> None:
    for text in ("{{0,1},{2}}", "[2,4]<=[4,2]T(1,0)", "mesh['a'=4,'b'=2] {'a':(1)2}"):
        module = (
            "HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n"
            f" ROOT r = f32[4] collective-broadcast(p), replica_groups={text}\n}}\n"
        )
        assert f"replica_groups={text}" in xla_parse(module, "default")
        assert str(groups(text)) == text


@pytest.mark.parametrize(
    "text",
    ["[8]<=[8]", "[2,2]0,1,2,3", "[2,4]<=[4]", "mesh['a'=2] {}", "mesh['a'=2] {'a','a'}", "{0,1}"],
)
def test_bad_replica_groups_are_errors(text: str) -> None:
    with pytest.raises(TextError):
        groups(text)


def test_an_arrangement_too_large_to_list_is_an_error() -> None:
    with pytest.raises(InferError, match="too large"):
        groups("[1048576,1048576]<=[1099511627776]").lists()


def test_a_canonical_iota_is_the_same_arrangement() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        reshape = tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 6)))
        perm = tuple(int(p) for p in rng.permutation(len(reshape)))
        size = int(np.prod(reshape))
        want = np.arange(size).reshape(reshape).transpose(perm).reshape(-1)
        got = DeviceGrid.iota((size,), reshape, perm)
        np.testing.assert_array_equal(got.array(), want)
        assert DeviceGrid.iota((size,), got.reshape, got.perm) == got
