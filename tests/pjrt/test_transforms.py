"""Transformations that a caller registers with the plug-in."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

import hlo
from hlo.pjrt import transforms
from hlo.pjrt.entries import PjrtError
from hlo.pjrt.interface import interface
from tests.harness.pjrt import Failed, call
from tests.jax.test_plugin import run_program

MODULE = hlo.parse("HloModule m ENTRY e { x = f32[] parameter(0)  ROOT y = f32[] sine(x) }")
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t)
_END = ctypes.CFUNCTYPE(None, ctypes.c_size_t)


class Callbacks:
    """A C program's, whose `answer` is the new module, an error as text, or None."""

    def __init__(self, name: str, stage: int, answer: bytes | str | None) -> None:
        self.given: list[bytes] = []
        self.freed: list[str] = []
        self._answer, self._name, self._stage = answer, name.encode(), stage
        raw = answer.encode() if isinstance(answer, str) else answer or b""
        self._memory = ctypes.create_string_buffer(raw, max(1, len(raw)))
        self._keep = (
            _END(lambda _: self.freed.append("callbacks")), _CALLBACK(self._transform),
            _END(lambda _: self.freed.append("result")),
        )  # fmt: skip
        end, transform, _ = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._keep)
        kind = interface().structs["XlaTransform_Callbacks"]
        self._struct = kind(version=0, dtor=end, transform_hlo_module=transform)
        self._register()

    def _register(self) -> None:
        call(
            "Register_Xla_Transform", stage=self._stage, name=self._at, name_size=len(self._name),
            callbacks=ctypes.addressof(self._struct),
        )  # fmt: skip

    @property
    def _at(self) -> int:
        return ctypes.cast(self._name, ctypes.c_void_p).value or 0

    def clear(self) -> bool:
        args = call(
            "Clear_Xla_Transform", stage=self._stage, name=self._at, name_size=len(self._name)
        )
        return bool(args.cleared)

    def _transform(self, callbacks: int, address: int) -> None:
        assert callbacks == ctypes.addressof(self._struct)
        args = transforms._Args.from_address(address)
        assert args.struct_size == ctypes.sizeof(transforms._Args)
        self.given.append(ctypes.string_at(args.hlo_module.data, args.hlo_module.size))
        args.header.cleanup_fn = ctypes.cast(self._keep[2], ctypes.c_void_p).value
        where = ctypes.addressof(self._memory)
        if isinstance(self._answer, str):
            args.header.has_error, args.header.code = 1, 3
            args.header.error_msg.data, args.header.error_msg.size = where, len(self._answer)
        elif self._answer is not None:
            args.changed = 1
            args.transformed_hlo_module.data = where
            args.transformed_hlo_module.size = len(self._answer)


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    transforms.TRANSFORMS.clear()


def test_stages_are_in_order_and_each_gets_what_the_one_before_made() -> None:
    cosine = hlo.to_proto(hlo.parse(str(MODULE).replace("sine", "cosine")))
    after, same, before = (
        Callbacks("c", 1, None),
        Callbacks("b", 0, None),
        Callbacks("a", 0, cosine),
    )
    assert "cosine" in str(transforms.transformed(MODULE))
    assert "cosine" not in str(hlo.from_proto(same.given[0]))
    assert "cosine" not in str(hlo.from_proto(before.given[0]))
    assert "cosine" in str(hlo.from_proto(after.given[0]))
    assert [x.freed for x in (after, same, before)] == [["result"]] * 3


def test_an_error_of_a_transformation_has_its_name_and_code() -> None:
    made = Callbacks("mine", 0, "it is no use")
    with pytest.raises(PjrtError, match="transformation 'mine': it is no use") as e:
        transforms.transformed(MODULE)
    assert e.value.code.name == "INVALID_ARGUMENT" and made.freed == ["result"]


def test_what_is_no_module_is_refused() -> None:
    made = Callbacks("bad", 0, b"\xff\xff\xff")
    with pytest.raises(hlo.HloError, match="transformation 'bad'"):
        transforms.transformed(MODULE)
    assert made.freed == ["result"]


def test_a_transformation_that_is_cleared_is_not_called_and_ends() -> None:
    made = Callbacks("one", 0, None)
    assert made.clear() and not made.clear()
    assert transforms.transformed(MODULE) is MODULE
    assert made.freed == ["callbacks"] and not made.given


def test_callbacks_are_needed() -> None:
    with pytest.raises(Failed, match="has no callbacks"):
        call("Register_Xla_Transform", name=0, name_size=0)


def test_jax_registers_them_with_the_plug_in() -> None:
    pytest.importorskip("jax")
    done = run_program(
        """
import hlo, jax, jax.numpy as jnp
from jax.extend import xla
def change(content):
    return hlo.to_proto(hlo.parse(str(hlo.from_proto(content)).replace("sine(", "cosine(")))
xla.register_hlo_module_transformation(change, name="change", platforms="hlo")
print(jax.jit(jnp.sin)(0.0), jax.devices()[0].platform)
print(xla.clear_hlo_module_transformation("change", platforms="hlo"))
jax.clear_caches()
print(jax.jit(jnp.sin)(0.0))
""",
        JAX_PLATFORMS="hlo",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1.0 hlo", "True", "0.0"]
