"""Modules in messages that are changed and written again: what did not change stays as it was."""

from __future__ import annotations

import pytest

import hlo
from hlo.errors import TextError
from hlo.frontends.proto import wire
from hlo.frontends.proto.rewrite import Rewriter
from hlo.frontends.proto.schema import Message, schema
from hlo.frontends.text.annotations import OpMetadata
from hlo.ops import OPS
from tests.harness.oracle import XlaError, xla_from_proto, xla_to_proto

_KIND = schema()["HloModuleProto"]
TEXT = """HloModule m, is_scheduled=true
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[4]{0} parameter(0), sharding={replicated}, frontend_attributes={who="me"}
  zero = f32[] constant(0)
  s = f32[4]{0} sine(x), metadata={op_name="f" source_file="f.py" source_line=3}
  r = f32[] reduce(s, zero), dimensions={0}, to_apply=sum, backend_config={"k":"v"}
  t = f32[] tanh(r)
  ROOT u = f32[] add(t, r), control-predecessors={s}
}"""
# Field 9999, a number and some bytes, in which no message of the schema has one.
UNKNOWN = b"\xf8\xf0\x04\x07" + b"\xfa\xf0\x04\x03abc"


def _message(data: bytes) -> Message:
    return wire.decode(data, _KIND)


def _instructions(data: bytes) -> dict[str, Message]:
    comps = _message(data)["computations"]
    return {i["name"]: i for c in comps for i in c["instructions"]}


def _updated(rewriter: Rewriter) -> bytes:
    assert rewriter.update()
    data = rewriter.data
    assert data is not None
    return data


@pytest.mark.parametrize("opcode", sorted(OPS))
def test_unchanged_modules_are_the_same_bytes(opcode: str) -> None:
    for example in OPS[opcode].examples:
        try:
            data = xla_to_proto(str(hlo.parse(example)))
        except XlaError:
            continue
        rewriter = Rewriter(data)
        assert not rewriter.update() and rewriter.data is None
        assert rewriter.merged() == data
        rewriter.module.assign(rewriter.module.clone())
        assert not rewriter.update()


def test_only_what_changed_is_written_again() -> None:
    data = xla_to_proto(TEXT)
    rewriter = Rewriter(data)
    rewriter.module["t"].annotations["frontend_attributes"] = {"new": "1"}
    old, new = _instructions(data), _instructions(_updated(rewriter))
    assert new.keys() == old.keys()
    assert {name for name in old if new[name] != old[name]} == {"t"}
    assert new["t"].pop("frontend_attributes")["map"] == [{"key": "new", "value": "1"}]
    old["t"].pop("frontend_attributes")
    assert new["t"] == old["t"]


def test_new_instructions_get_ids_of_their_own_and_the_rest_keeps_them() -> None:
    data = xla_to_proto(TEXT)
    rewriter = Rewriter(data)
    entry, root = rewriter.module.entry, rewriter.module.entry.root
    old = rewriter.module["t"]
    entry.create("cosine", old.shape, [old.operands[0]], name="d", like=old)
    old.replace_all_uses_with(entry["d"])
    entry.remove(old)
    entry.create("negate", root.shape, [root], root=True)
    rewriter.module.entry.sort()
    before, after = _instructions(data), _instructions(_updated(rewriter))
    assert after.keys() == before.keys() - {"t"} | {"d", "negate"}
    ids = {name: i.get("id", 0) for name, i in after.items()}
    assert len(set(ids.values())) == len(ids)
    assert all(ids[n] == before[n].get("id", 0) for n in before.keys() & ids.keys())
    assert ids["d"] >> 32 == ids["u"] >> 32
    assert after["u"]["operand_ids"] == [ids["d"], ids["r"]]
    assert after["s"] == before["s"] and after["r"] == before["r"]
    # The schedule has the new ones, and XLA takes it.
    text = xla_from_proto(rewriter.merged())
    assert "negate" in text and "is_scheduled=true" in text


def test_new_computations_come_before_their_callers() -> None:
    data = xla_to_proto(TEXT)
    rewriter = Rewriter(data)
    module = rewriter.module
    other = module["sum"].clone("prod")
    other.root.annotations["frontend_attributes"] = {"new": "1"}
    module.add(other)
    module["r"].attrs["to_apply"] = other
    changed = _message(_updated(rewriter))
    old = _message(data)["computations"]
    new = {c["name"]: c for c in changed["computations"]}
    assert [*new][-1] == "e" and new["sum"] == next(c for c in old if c["name"] == "sum")
    assert new["prod"]["id"] == 1 + max(c.get("id", 0) for c in old)
    assert all(i["id"] >> 32 == new["prod"]["id"] for i in new["prod"]["instructions"])
    assert "prod" in xla_from_proto(rewriter.merged())


@pytest.mark.parametrize("edited", ["s", "u"])
def test_unknown_fields_of_newer_versions_stay(edited: str) -> None:
    message = _message(xla_to_proto(TEXT))
    marked = [message, message["host_program_shape"]]
    for comp in message["computations"]:
        marked.append(comp)
        for inst in comp["instructions"]:
            marked += [inst, inst["shape"], inst.setdefault("metadata", Message())]
    for m in marked:
        m.unknown = UNKNOWN
    data = wire.encode(message, _KIND)
    rewriter = Rewriter(data)
    assert rewriter.merged() == data
    rewriter.module[edited].annotations["metadata"] = OpMetadata({"op_name": "g"})
    changed = _updated(rewriter)
    assert changed.count(UNKNOWN) == data.count(UNKNOWN) == len(marked)
    assert b"\x12\x01g" in changed


def test_a_module_takes_the_place_of_another() -> None:
    data = xla_to_proto(TEXT)
    rewriter = Rewriter(data)
    other = hlo.parse(str(rewriter.module).replace("tanh", "sqrt"))
    rewriter.module.assign(other)
    assert _instructions(_updated(rewriter))["t"]["opcode"] == "sqrt"
    assert other.entry.module is other and rewriter.module.entry.module is rewriter.module
    rewriter.module.assign(Rewriter(data).module)
    assert rewriter.update() and rewriter.data is None


def test_what_is_no_module_is_an_error() -> None:
    with pytest.raises(TextError):
        Rewriter(b"\x0a\x05abc")
