"""Protos: ours are read by XLA, XLA's are read here, and bad ones are one error each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hlo_tools.opt.command import main as hlo_opt

import hlo
from hlo.errors import HloError
from hlo.frontends.proto import from_pbtxt, snapshot_arguments, to_pbtxt
from hlo.frontends.proto.pbtxt import parse as parse_message
from hlo.frontends.proto.pbtxt import write as write_text
from hlo.frontends.proto.schema import UNPRINTED, Message, schema
from hlo.frontends.proto.shapes import write_literal, write_shape
from hlo.frontends.proto.wire import decode, encode
from hlo.frontends.text import PrintOptions, print_module
from hlo.ops import OPS
from hlo.testing.sampling import random_array
from hlo.values.literal import Literal
from hlo.values.literal import write_literal as write_literal_text
from hlo.values.types import ELEMENT_TYPES, ArrayShape, Shape, TupleShape
from tests.frontends.test_text_xla import CASES, CUSTOM, entry
from tests.harness.oracle import XlaError, xla_from_proto, xla_to_proto
from tests.sweeps.compare_protos import differences
from tests.sweeps.fuzz_protos import failure, mutants

MODULE = """HloModule m

ENTRY e {
  p = f32[2,3] parameter(0)
  i = s32[] parameter(1)
  ROOT q = f32[2,3] negate(p), metadata={op_name="x"}
}
"""
MORE = {
    "named shardings": entry(
        *(
            f"v{i} = f32[2,3] negate(p), sharding={s}"
            for i, s in enumerate(
                (
                    "{unreduced}",
                    "{devices=[1,2,2]<=[4] last_tile_dims={manual} shard_like 7}",
                    "{mesh['x'=2,'y'=4], [{'x','y':(1)2,?},{}]}",
                    "{mesh['x'=2,'y'=4], [{'x'},{}], replicated={'y'}, metadata={{op_name=\"q\"}}}",
                    "{mesh['x'=2,'y'=4], replicated}",
                    "{mesh['x'=2,'y'=4], manual}",
                    "{mesh['x'=2,'y'=4], unreduced}",
                    "{maximal_mesh[device_id=3]}",
                    "{mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)), [{'x'},{}]}",
                    "{mesh['x'=2], device_ids=(1,0), [{'x'},{}]}",
                )
            )
        )
    ),
    "origins": entry(
        'a = f32[2,3] negate(p), origin={{"v"}}',
        'b = (f32[2,3], (s32[], s32[])) tuple(p, t), origin={({"v" {1}}, ({"w"}, {"u" {0, 1}}))}',
        'ROOT c = f32[2,3] negate(a), metadata={op_name="n" metadata_payload="long"}',
    ).replace("  b = ", "  t = (s32[], s32[]) tuple(i, i)\n  b = "),
    "literals in other orders": entry(
        "a = s32[2,3]{0,1} constant({{1,2,3},{-4,5,6}})",
        "b = s2[3] constant({1,-2,0})",
        "c = f4e2m1fn[2] constant({1.5,-6})",
        "d = f8e4m3fn[2] constant({1.5,nan})",
        "f = (s64[1], bf16[2]) constant(({-9223372036854775808}, {1, -2}))",
        "g = c128[1] constant({(1,-2)})",
        "h = u16[2] constant({1,65535})",
    ),
    "groups": "a { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y)\n}\n"
    + entry(
        "r = f32[2,3] all-reduce(p), replica_groups=mesh['a'=2,'b'=2] {'a'}, channel_id=1, "
        "use_global_device_ids=true, to_apply=a",
        "s = f32[2,3] all-reduce(p), replica_groups={}, to_apply=a",
        "g = f32[4,3] all-gather(p), replica_groups={{0,1}}, dimensions={0}",
        head="",
    ),
    "custom call": entry(
        f"c = f32[2,3] {CUSTOM}, schedule=SCHEDULE_LATEST, api_version=API_VERSION_TYPED_FFI, "
        'backend_config="\\377\\001 \\303\\251"'
    ),
}


# XLA does not read its own protos of a tile with `*` and of index types.
_UNREAD = re.compile(r".*(?:T\(\*,128\)|#\(u32\)).*\n")
TEXTS = CASES | {"layouts": _UNREAD.sub("", CASES["layouts"])} | MORE


@pytest.mark.parametrize("name", TEXTS)
def test_protos_say_what_the_text_says(name: str) -> None:
    assert not list(differences(TEXTS[name]))


def _by_names(message: Message) -> Message:
    """Return a module's message with names for numbers, and without what says nothing."""
    comps = {c.get("id", 0): c["name"] for c in message["computations"]}
    insts = {i.get("id", 0): i["name"] for c in message["computations"] for i in c["instructions"]}

    def says_nothing(value: Any) -> bool:
        if isinstance(value, list):
            return all(x == "DEFAULT" for x in value)  # the precision of operands
        return value in (None, 0, "", b"", {})

    def named(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            found = {k: named(v, k) for k, v in value.items()}
            return {k: v for k, v in found.items() if not says_nothing(v)}
        if isinstance(value, np.ndarray):
            return value.tobytes()
        if key in ("operand_ids", "control_predecessor_ids"):
            return [insts[i] for i in value]
        if key == "called_computation_ids":
            return [comps[i] for i in value]
        found = [named(v) for v in value] if isinstance(value, list) else value
        return sorted(found, key=str) if key in ("map", "computations", "instructions") else found

    for c in message["computations"]:
        for i in (c, *c["instructions"]):
            i.pop("id", None)
        c["root_id"] = insts[c.get("root_id", 0)]
    message["entry_computation_id"] = comps[message.get("entry_computation_id", 0)]
    message.pop("id", None)
    return named(message)


# jaxlib 0.10 does not know them; tests/project/test_compatibility.py asks a newer one.
NEWER = frozenset({"collective-reduce", "exp2", "log2", "shuffle"})
CANONICAL = PrintOptions.canonical()


def test_fields_are_those_that_xla_writes() -> None:
    """Of the examples of all operations; `tests.sweeps.compare_protos` compares what is read."""
    kind = schema()["HloModuleProto"]
    for spec in OPS.values():
        try:
            theirs = xla_to_proto(str(hlo.parse(spec.examples[0])))
        except XlaError:
            continue
        ours = hlo.to_proto(hlo.from_proto(theirs))
        assert _by_names(decode(ours, kind)) == _by_names(decode(theirs, kind)), spec.name


def test_protos_of_all_operations() -> None:
    """One example an operation; tests/sweeps/compare_protos.py has the rest."""
    for spec in OPS.values():
        if spec.name in NEWER:
            module = hlo.parse(spec.examples[0])
            again = hlo.from_proto(hlo.to_proto(module))
            assert print_module(again, CANONICAL) == print_module(module, CANONICAL)
        else:
            assert not list(differences(spec.examples[0])), spec.name


def test_literals_of_elements_in_bits_are_read_by_xla() -> None:
    """XLA's text reader drops `E(..)` of constants, and its proto reader wants none in literals."""
    constant = "%c = (s4[3]{0:E(4)}, pred[2]{0:E(32)}) constant(( {1, -2, 7}, {1, 0} ))"
    module = hlo.parse("HloModule m\n\nENTRY e { " + constant.replace("%c", "ROOT c") + " }")
    assert constant in xla_from_proto(hlo.to_proto(module), "default")
    assert constant in str(hlo.from_proto(hlo.to_proto(module)))


def test_literals_of_all_types_and_tuples_of_them_beside_xla() -> None:
    rng = np.random.default_rng(5)
    # XLA reads literals of f6 from text and aborts on writing them.
    types = [et for name, et in ELEMENT_TYPES.items() if not name.startswith("f6")]
    shapes = [f"{et}[2,3]{{0,1}}" for et in types]
    parts = [
        _literal(s, random_array(rng, et, (2, 3), edges=True))
        for s, et in zip(shapes, types, strict=True)
    ]
    whole = Literal(TupleShape(tuple(p.shape for p in parts)), parts)
    text = f"HloModule m\n\nENTRY e {{\n  ROOT c = {whole.shape} constant({{0}})\n}}\n"
    module = hlo.parse(text.replace("{0}", write_literal_text(whole)))
    ours, theirs = hlo.to_proto(module), xla_to_proto(str(module))
    literals = [
        decode(data, schema()["HloModuleProto"])["computations"][0]["instructions"][0]["literal"]
        for data in (ours, theirs)
    ]
    for mine, xlas in zip(*(m["tuple_literals"] for m in literals), strict=True):
        assert str(mine) == str(xlas)
    for data in (ours, theirs):
        assert hlo.from_proto(data).entry.root.attrs["literal"] == whole


def test_names_are_unique_in_protos() -> None:
    text = "HloModule m\na { x = f32[] parameter(0) }\n" + (
        "ENTRY e { x = f32[] parameter(0)\n x.1 = f32[] call(x), to_apply=a\n"
        " ROOT y.01 = f32[] negate(x.1) }"
    )
    module = hlo.from_proto(hlo.to_proto(hlo.parse(text)))
    assert [i.name for i in module.instructions()] == ["x", "x.1", "x.2", "y.1"]


def test_bytes_survive_that_are_no_text() -> None:
    module = hlo.parse(MORE["custom call"])
    (call,) = (i for i in module.instructions() if i.opcode == "custom-call")
    again = hlo.from_proto(hlo.to_proto(module)).entry.get(call.name)
    assert again is not None
    assert (
        again.annotations["backend_config"] == "\udcff\x01 é" == call.annotations["backend_config"]
    )
    assert 'backend_config="\\377\\001 é"' in str(module)


# --- forms and files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("HloProto", ("hlo_module",)),
        ("HloSnapshot", ("hlo", "hlo_module")),
        ("HloUnoptimizedSnapshot", ("hlo_module",)),
    ],
)
def test_wrappers_of_dumps(name: str, path: tuple[str, ...]) -> None:
    module = hlo.parse(MODULE)
    message = decode(hlo.to_proto(module), schema()["HloModuleProto"])
    for field in reversed(path):
        message = Message({field: message})
    kind = schema()[name]
    assert str(hlo.from_proto(encode(message, kind))) == str(hlo.from_proto(hlo.to_proto(module)))
    text = "".join(f"{field} {{\n" for field in path) + to_pbtxt(module) + "}\n" * len(path)
    assert str(from_pbtxt(text)) == str(hlo.from_proto(hlo.to_proto(module)))


ARGUMENTS = {
    "f32[2,3]{0,1}": [[0, 1, 2], [3, 4, 5]],
    "s4[3]": [1, -2, 7],
    "pred[9]": [1, 0, 1, 1, 0, 0, 0, 1, 1],
    "(c64[1], (u64[], s8[0]))": ([1 + 2j], (2**63, [])),
}


def _literal(shape: str, value: Any) -> Literal:
    def of(shape: Shape, value: Any) -> Literal:
        if isinstance(shape, TupleShape):
            parts = [of(s, v) for s, v in zip(shape.elements, value, strict=True)]
            return Literal(shape, parts)
        assert isinstance(shape, ArrayShape)
        return Literal(shape, np.array(value).astype(shape.element_type.dtype))

    return of(hlo.parse_shape(shape), value)


def _serialized(literal: Literal) -> bytes:
    """Return a literal as it stands behind a snapshot: shape, and elements in their bits."""
    shape = encode(write_shape(literal.shape), schema()["ShapeProto"])
    data = len(shape).to_bytes(8, "little") + shape
    for index, leaf in literal.shape.leaves():
        part = literal
        for i in index:
            part = part.elements[i]
        assert isinstance(leaf, ArrayShape)
        order = leaf.layout.minor_to_major if leaf.layout else ()
        flat = part.array.transpose(order[::-1]).reshape(-1)
        et = leaf.element_type
        bits = 1 if et.is_pred else et.bits
        if bits < 8:
            number = sum((int(x) & (1 << bits) - 1) << bits * i for i, x in enumerate(flat))
            data += number.to_bytes(-(-len(flat) * bits // 8), "little")
        else:
            data += flat.tobytes()
    return data


@pytest.mark.parametrize("form", ["HloSnapshot", "messages", "pbtxt", "long"])
def test_arguments_of_snapshots(form: str) -> None:
    literals = [_literal(*pair) for pair in ARGUMENTS.items()]
    messages = list(map(write_literal, literals))
    module = decode(hlo.to_proto(hlo.parse(MODULE)), schema()["HloModuleProto"])
    kind = schema()["HloUnoptimizedSnapshot"]
    snapshot = Message(hlo_module=module, partitions=[Message(arguments=messages)])
    data: bytes | str = encode(snapshot, kind)
    if form == "HloSnapshot":
        wrapped = Message(hlo=Message(hlo_module=module), arguments=messages)
        data = encode(wrapped, schema()[form])
    elif form == "pbtxt":
        data = write_text(snapshot, kind)
    elif form == "long":
        behind = [_serialized(x) for x in literals]
        descriptors = [Message(argument_size_bytes=len(x)) for x in behind]
        snapshot["partitions"] = [Message(arguments_descriptors=descriptors)]
        inside = encode(snapshot, kind)
        head = len(inside) & 127 | 128, len(inside) >> 7
        data = bytes(head) + inside + b"".join(behind)
        for cut in range(1, sum(map(len, behind)), 7):
            with pytest.raises(HloError, match="byte"):
                snapshot_arguments(data[:-cut])
    assert snapshot_arguments(data) == [literals]
    again = hlo.from_proto(data) if isinstance(data, bytes) else from_pbtxt(data)
    assert again.entry.root.opcode == "negate"


@pytest.mark.parametrize(
    ("shape", "value", "dumped"),
    [
        ("pred[11]", [1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1], "10011a010b2a060a01008001013201008d05"),
        ("s4[5]", [1, -2, 3, -8, 7], "10151a01052a060a0100800101320100e18307"),
        ("bf16[2]", [1.5, 2.5], "10101a01022a060a0100800101320100c03f2040"),
        ("s8[2,1]{0,1}", [[1], [-1]], "10021a0202012a070a0200018001013202000001ff"),
    ],
)
def test_arguments_lie_in_files_as_xla_writes_them(shape: str, value: Any, dumped: str) -> None:
    """The bytes are those of XLA:CPU with --xla_dump_hlo_unoptimized_snapshots."""
    data = bytes.fromhex(dumped)
    assert _serialized(_literal(shape, value))[8:] == data


@pytest.mark.parametrize("name", ["m.pb", "m.pbtxt", "m.hlo", "pb", "pbtxt"])
def test_files_are_told_apart(name: str, tmp_path: Path) -> None:
    module = hlo.parse(MODULE)
    path = tmp_path / name
    if "." in name:
        hlo.save(module, path)
    else:
        path.write_bytes(hlo.to_proto(module) if name == "pb" else to_pbtxt(module).encode())
    assert [str(i) for i in hlo.load(path).entry] == [str(i) for i in module.entry]
    result = CliRunner().invoke(hlo_opt, [str(path), "-o", str(tmp_path / "out.pb")])
    assert result.exit_code == 0, result.output
    assert hlo.load(tmp_path / "out.pb").entry.root.opcode == "negate"


def test_a_proto_holds_one_module(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    result = CliRunner().invoke(
        hlo_opt, [str(tmp_path / "m.hlo"), "--stats", "-o", str(tmp_path / "m.pb")]
    )
    assert result.exit_code == 1 and "use one of .txt, .json" in result.output
    result = CliRunner().invoke(
        hlo_opt, [str(tmp_path / "m.hlo"), str(tmp_path / "m.hlo"), "-o", str(tmp_path / "m.pb")]
    )
    assert result.exit_code == 2 and "a file of this format has one module" in result.output


def test_what_the_text_does_not_say_survives() -> None:
    """And copies keep it."""
    said = {
        "id": 7, "is_dynamic": True, "use_auto_spmd_partitioning": True, "device_type": "TPU",
        "pjrt_id": 0, "spmd_output_sharding": Message(type="REPLICATED"),
        "spmd_parameters_shardings": [Message(type="MAXIMAL", tile_assignment_devices=[1])],
        "profile_info": [Message(profile_type="FUSION", relative_speedup=1.5, fingerprint="f")],
        "cross_program_prefetches": [Message(parameter=1, index=[2], offset=3)],
        "device_assignment": Message(
            replica_count=1, computation_count=1,
            computation_devices=[Message(replica_device_ids=[0])],
        ),
    }  # fmt: skip
    assert set(said) == set(UNPRINTED)
    kind = schema()["HloModuleProto"]
    message = decode(hlo.to_proto(hlo.parse(MODULE)), kind) | said
    module = hlo.from_proto(encode(Message(message), kind)).clone()
    assert decode(hlo.to_proto(module), kind) == decode(encode(Message(message), kind), kind)


def test_recovery_tables_beside_xla() -> None:
    table = """{
  {"v1"} : {"v2" {1}},
  "
    ENTRY %r (p: f32[2]) -> f32[2] {
      %p = f32[2]{0} parameter(0), metadata={op_name=\\"a\\"}
      ROOT %q = f32[2]{0} negate(p)
    }
  "
  {"v3"} : {""}
}"""
    text = entry(head=f"HloModule m, origin_recovery_table={table}\n\n")
    theirs = xla_to_proto(text)
    assert xla_from_proto(hlo.to_proto(hlo.parse(text))) == xla_from_proto(theirs)
    read = hlo.from_proto(theirs)
    assert 'op_name=\\"a\\"}' in read.attrs["origin_recovery_table"]
    # XLA reads what is written here, where quotes are escaped.
    assert xla_from_proto(xla_to_proto(str(read))) == xla_from_proto(theirs)


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("ENTRY r { ROOT q = f32[2] nope() }", "unknown-opcode"),
        ("HloModule r, entry_computation_layout={()->f32[2]}\n\n"
         "ENTRY r { ROOT q = f32[2] parameter(0) }", "bad-entry-layout"),
    ],
)  # fmt: skip
def test_modules_of_recovery_tables_are_verified(module: str, code: str) -> None:
    table = f'{{\n  {{"a"}} : {{"b"}},\n  "{module}"\n}}'
    text = entry(head=f"HloModule m, origin_recovery_table={table}\n\n")
    with pytest.raises(HloError, match=r"^origin_recovery_table:") as e:
        hlo.to_proto(hlo.parse(text))
    assert e.value.code == code


# --- text form ----------------------------------------------------------------------------------


def test_the_text_form_is_read_as_others_write_it() -> None:
    text = r"""
    # a comment
    name: "a\x62" 'c\143' ; opcode: "constant"
    operand_ids: 1 operand_ids: [2, 0x3,], literal: < f32s: [1, -inf, 2.5e1f] s32s: -07 >
    window { dimensions [{ size: 2 }, { window_reversal: true }] } backend_config: "\377\u00e9"
    custom_call_schedule: 1 fft_type: IRFFT
    """.replace("0x3,]", "0x3]")
    m = parse_message(text, schema()["HloInstructionProto"])
    assert m["name"] == "abcc" and m["operand_ids"] == [1, 2, 3]
    np.testing.assert_array_equal(m["literal"]["f32s"], np.float32([1, -np.inf, 25]))
    assert m["literal"]["s32s"].tolist() == [-7]
    assert m["window"]["dimensions"] == [{"size": 2}, {"window_reversal": True}]
    assert m["backend_config"] == b"\xff\xc3\xa9"
    assert (m["custom_call_schedule"], m["fft_type"]) == ("SCHEDULE_LATEST", "IRFFT")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name: "m" nam: 1', "<string>:1:11: error: HloModuleProto has no field 'nam'"),
        ('name: "m" name: "n"', "name is given twice"),
        ('name: "m', "unexpected"),
        ("id: 1.5", "id is an integer"),
        ("id: 9223372036854775808", "is not a valid int64"),
        ("computations { id: 0", "found the end of the text"),
        ("computations {} }", "expected a field"),
        ("id [1]", "expected ':'"),
        ("id: [1]", "one value"),
        ("payloads: '\\q'", "unknown escape"),
        ("is_dynamic: maybe", "true or false"),
        ("computations {" * 200, "nested more than"),
    ],
)
def test_bad_text_is_one_error_with_its_place(text: str, words: str) -> None:
    if text.startswith("computations {" * 2):
        text = "host_program_shape { result {" + "tuple_shapes {" * 200
    with pytest.raises(HloError, match=re.escape(words)) as e:
        from_pbtxt(text)
    assert e.value.diagnostics[0].span is not None


# --- bad bytes ----------------------------------------------------------------------------------


def changed(path: str, value: object, text: str = MODULE) -> bytes:
    """Return the bytes of a module's proto with another value in one field."""
    kind = schema()["HloModuleProto"]
    message = target = decode(hlo.to_proto(hlo.parse(text)), kind)
    *outer, last = path.split(".")
    for part in outer:
        target = target[int(part)] if part.isdigit() else target[part]  # type: ignore[index]
    target[last] = value
    return encode(message, kind)


NEGATE = "computations.0.instructions.2."


@pytest.mark.parametrize(
    ("path", "value", "code", "words"),
    [
        (NEGATE + "opcode", "negat", "unknown-opcode", "q: unknown opcode 'negat'"),
        (NEGATE + "operand_ids", [7], "undefined-operand", "no instruction 7"),
        (NEGATE + "id", 0, "duplicate-name", "have the number 0"),
        (NEGATE + "name", "p", "duplicate-name", "instruction p of e is defined twice"),
        (NEGATE + "name", "a b", "bad-name", "'a b' is not a valid name"),
        (NEGATE + "control_predecessor_ids", [9], "undefined-operand", "no instruction 9"),
        (NEGATE + "called_computation_ids", [0], "bad-computation", "calls 0 computations"),
        (NEGATE + "shape.element_type", 77, "unknown-type", "unknown element type 77"),
        (NEGATE + "shape.dimensions", [2, -3], "bad-shape", "-3"),
        (NEGATE + "shape.dimensions", [1 << 62, 1 << 62], "bad-shape", "2^63"),
        (NEGATE + "shape.layout.minor_to_major", [0, 0], "bad-layout", "not a permutation"),
        (NEGATE + "sharding", Message(type="MAXIMAL"), "bad-sharding", "one device"),
        ("computations.0.root_id", 9, "no-root", "root of e"),
        ("entry_computation_id", 9, "no-entry", "no computation 9"),
        ("computations", [], "no-entry", "no computation"),
        ("schedule", Message(sequences=[Message(key=5)]), "bad-schedule", "computation 5"),
        ("schedule", Message(sequences=[Message()]), "bad-schedule", "each instruction once"),
    ],
)
def test_broken_modules_are_one_error(path: str, value: object, code: str, words: str) -> None:
    with pytest.raises(HloError) as e:
        hlo.from_proto(changed(path, value), "m.pb")
    assert e.value.code == code and words in str(e.value)
    assert re.match(r"error: m\.pb: byte \d+: ", str(e.value))


@pytest.mark.parametrize("shape", ["(s32[2], (s4[3], token[]))", "()", "s32[]"])
def test_a_sharding_of_a_tuple_is_one_for_each_leaf(shape: str) -> None:
    text = f"HloModule m\n\nENTRY e {{\n  b = {shape} parameter(0)\n  ROOT c = () tuple()\n}}\n"
    path = "computations.0.instructions.0.sharding"
    data = changed(path, Message(type="REPLICATED"), text)
    assert str(hlo.parse(xla_from_proto(data, "default"))) == str(hlo.from_proto(data))


def test_a_literal_has_the_elements_of_its_shape() -> None:
    text = "f32[3] constant({1, 2, 3})"
    path = "computations.0.instructions.0.literal."
    for field, value in (("f32s", np.float32([1, 2])), ("shape", Message(element_type="TUPLE"))):
        with pytest.raises(HloError):
            hlo.verify(hlo.from_proto(changed(path + field, value, text)))
    huge = Message(element_type="F32", dimensions=[1 << 40])
    with pytest.raises(HloError, match=r"3 elements for f32\[1099511627776\]"):
        hlo.from_proto(changed(path + "shape", huge, text))


def test_mutated_bytes_give_only_our_errors() -> None:
    """tests/sweeps/fuzz_protos.py does more of them."""
    for data in mutants(300, seed=1):
        assert failure(data) is None, data


def test_xla_reads_what_it_wrote_after_we_did() -> None:
    text = CASES["attributes"]
    theirs = xla_to_proto(text)
    assert str(hlo.from_proto(hlo.to_proto(hlo.from_proto(theirs)))) == str(hlo.from_proto(theirs))


NO_TEXT = r"""HloModule m, frontend_attributes={a="\377"}
ENTRY e {
  p = f32[2] parameter(0), metadata={op_name="a\377b" source_file="x\300.py"}
  c = f32[2] custom-call(p), custom_call_target="t\377", backend_config="\377\001\"{"
  ROOT r = f32[2] negate(c), backend_config={"a": "\377"}, statistics={visualizing_index=0,s=1.5}
}
"""


@pytest.mark.parametrize("stage", ["parsed", "dot", "html", "json", "llvm"])
def test_strings_that_are_no_text_come_out_of_every_form(stage: str) -> None:
    result = CliRunner().invoke(hlo_opt, ["-", f"--stage={stage}"], input=NO_TEXT)
    assert result.exit_code == 0, result.output


def test_strings_that_are_no_text_survive_protos() -> None:
    module = hlo.parse(NO_TEXT)
    text = print_module(module, PrintOptions(program_layout=True))
    for again in (hlo.from_proto(hlo.to_proto(module)), from_pbtxt(to_pbtxt(module))):
        assert print_module(again) == text
    assert r'op_name="a\377b"' in text and r'{"a": "\377"}' in text
