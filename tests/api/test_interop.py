"""Arrays of other libraries as arguments and constants: JAX, PyTorch, DLPack."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.support.interop import array_of
from hlo.values.types import ELEMENT_TYPES, ElementType

VALUES = [[1, 0, 1], [0, 1, 1]]


def identity(et: ElementType, dims: str = "2,3") -> hlo.Module:
    shape = f"{et}[{dims}]"
    return hlo.parse(
        f"HloModule m\nENTRY e {{ x = {shape} parameter(0) ROOT y = {shape} copy(x) }}"
    )


def values_of(et: ElementType) -> list[list[int]]:
    """Numbers that a type holds: one has no zero."""
    return [[n + (et.name == "f8e8m0fnu") for n in row] for row in VALUES]


def check(value: Any, et: ElementType) -> None:
    """A value is taken as an argument, as a literal and on a device."""
    want = np.asarray(values_of(et)).astype(et.dtype)
    module, client = identity(et), hlo.Client(backend="reference")
    for got in (
        hlo.interpret(module, value),
        hlo.compile(module)(value),
        hlo.Literal.of(value).array,
        client.transfer(client.transfer_to_server((value, 1))).elements[0].array,
    ):
        assert got.dtype == et.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_jax_arrays_of_every_type(name: str) -> None:
    jax = pytest.importorskip("jax")
    et = ELEMENT_TYPES[name]
    with jax.enable_x64(True):
        try:
            value = jax.numpy.asarray(np.asarray(values_of(et)).astype(et.dtype))
        except (TypeError, jax.errors.JaxRuntimeError):
            pytest.skip(f"JAX has no {name}")
        check(value, et)


# By name of the element type; PyTorch's 4-bit floats are two a byte.
TORCH = {
    "pred": "bool", "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "bf16": "bfloat16", "f16": "float16",
    "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
    "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu",
}  # fmt: skip


@pytest.mark.parametrize("name", TORCH)
def test_torch_tensors_of_every_type(name: str) -> None:
    torch = pytest.importorskip("torch")
    et = ELEMENT_TYPES[name]
    value = torch.tensor(values_of(et), dtype=torch.float32).to(getattr(torch, TORCH[name]))
    check(value, et)
    np.testing.assert_array_equal(hlo.Literal.of(value.t()).array.T, hlo.Literal.of(value).array)


def test_torch_tensors_of_less_than_a_byte() -> None:
    torch = pytest.importorskip("torch")
    pairs = torch.tensor([[0x21, 0x43], [0x65, 0x87]], dtype=torch.uint8)
    et = ELEMENT_TYPES["f4e2m1fn"]
    got = hlo.interpret(identity(et, "2,4"), pairs.view(torch.float4_e2m1fn_x2))
    want = np.arange(1, 9, dtype=np.uint8).reshape(2, 4).view(et.dtype)
    np.testing.assert_array_equal(got, want)
    small = torch.tensor(VALUES, dtype=torch.int8).view(torch.int4)
    np.testing.assert_array_equal(hlo.interpret(identity(ELEMENT_TYPES["s4"]), small), VALUES)


def test_torch_tensors_that_torch_itself_does_not_export() -> None:
    torch = pytest.importorskip("torch")
    f32, c64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["c64"]
    weights = torch.nn.Parameter(torch.tensor(VALUES, dtype=torch.float32))
    np.testing.assert_array_equal(hlo.interpret(identity(f32), weights), VALUES)
    turned = (torch.tensor(VALUES) * (1 + 2j)).conj()
    np.testing.assert_array_equal(
        hlo.interpret(identity(c64), turned), np.asarray(VALUES) * (1 - 2j)
    )
    for what in (weights.detach().to_sparse(), torch.empty(2, 3, device="meta")):
        with pytest.raises(hlo.HloError, match=r"argument 0 \(x\): torch's Tensor gives no") as e:
            hlo.interpret(identity(f32), what)
        assert e.value.code == "type-mismatch"


def test_typed_keys_of_jax_are_their_words() -> None:
    jax = pytest.importorskip("jax")
    key = jax.random.key(7)
    module = hlo.from_jax(lambda k: jax.random.bits(k, (4,)), key)
    np.testing.assert_array_equal(hlo.compile(module)(key), jax.random.bits(key, (4,)))
    keys = jax.random.split(key, 3)
    assert hlo.Literal.of(keys) == hlo.Literal.of(np.asarray(jax.random.key_data(keys)))


def test_jax_arrays_without_data() -> None:
    jax = pytest.importorskip("jax")
    value = jax.numpy.ones((2, 3))
    value.delete()
    f32 = identity(ELEMENT_TYPES["f32"])
    with pytest.raises(hlo.HloError, match="gives no array: Array has been deleted"):
        hlo.interpret(f32, value)
    with pytest.raises(hlo.HloError, match="gives no array"):
        jax.jit(lambda x: hlo.interpret(f32, x))(np.ones((2, 3), np.float32))
    with pytest.raises(hlo.HloError, match=r"int32, s64\[2,3\] is needed"):
        hlo.interpret(identity(ELEMENT_TYPES["s64"]), jax.numpy.ones((2, 3), np.int32))


# --- DLPack -------------------------------------------------------------------------------------


class Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class Managed(ctypes.Structure):
    """`DLManagedTensorVersioned`."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor),
    )  # fmt: skip


class Exporter:
    """An array of a library that exports memory as it is told."""

    def __init__(
        self, data: bytes, dims: tuple[int, ...], code: int, bits: int, *, lanes: int = 1,
        strides: tuple[int, ...] | None = None, flags: int = 0, offset: int = 0, device: int = 1,
        major: int = 1, name: bytes = b"dltensor_versioned",
    ) -> None:  # fmt: skip
        self.device = device
        self.data, self.name = ctypes.create_string_buffer(data, len(data)), name
        self.dims = (ctypes.c_int64 * len(dims))(*dims)
        self.strides = strides and (ctypes.c_int64 * len(dims))(*strides)
        tensor = Tensor(
            ctypes.addressof(self.data), device, 0, len(dims), code, bits, lanes,
            ctypes.addressof(self.dims), self.strides and ctypes.addressof(self.strides), offset,
        )  # fmt: skip
        self.managed = Managed(major, 0, None, None, flags, tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **options: Any) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        start = self.managed if self.name == b"dltensor_versioned" else self.managed.tensor
        return make(ctypes.addressof(start), self.name, None)


# The capsules of libraries own the memory; those of this test do not.
KEPT: list[Exporter] = []


def taken(exporter: Exporter) -> np.ndarray:
    KEPT.append(exporter)
    found = array_of(exporter, "it")
    assert found is not None
    return found


def test_dlpack_in_both_of_its_forms() -> None:
    data = np.arange(6, dtype=np.float32)
    for name in (b"dltensor_versioned", b"dltensor"):
        got = taken(Exporter(data.tobytes(), (2, 2), 2, 32, strides=(1, 2), offset=4, name=name))
        assert got.dtype == np.float32 and got.tolist() == [[1, 3], [2, 4]]
        assert not got.flags.writeable
    assert taken(Exporter(b"", (0, 3), 4, 16)).dtype == ml_dtypes.bfloat16
    assert taken(Exporter(b"\x07", (), 0, 8)).shape == ()


def test_a_library_with_the_first_form_of_the_protocol() -> None:
    class Old:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, stream: Any = None) -> Any:
            return np.arange(3, dtype=np.int16).__dlpack__()

    got = array_of(Old(), "it")
    assert got is not None and got.tolist() == [0, 1, 2]


@pytest.mark.parametrize("bits", [1, 2, 4, 6])
def test_elements_of_less_than_a_byte(bits: int) -> None:
    code, name = {1: (1, "u1"), 2: (1, "u2"), 4: (0, "s4"), 6: (15, "f6e2m3fn")}[bits]
    raw = np.array([[0, 1, 1], [2, 3, 1]], np.uint8) & ((1 << bits) - 1)
    want = raw.view(ELEMENT_TYPES[name].dtype)
    padded = taken(Exporter(raw.tobytes(), (2, 3), code, bits, flags=4))
    stream = np.unpackbits(raw.reshape(-1, 1), axis=1, bitorder="little")[:, :bits].reshape(-1)
    packed = taken(Exporter(np.packbits(stream, bitorder="little").tobytes(), (2, 3), code, bits))
    for got in (padded, packed):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Exporter(bytes(8), (2,), 2, 32, device=2), "on a device of DLPack's type 2"),
        (lambda: Exporter(bytes(8), (2,), 5, 32), "no element type is DLPack's complex32"),
        (lambda: Exporter(bytes(8), (1,), 2, 32, lanes=2), "float32 in vectors of 2"),
        (lambda: Exporter(bytes(8), (2, 2), 0, 4, strides=(1, 2)), "not in row-major order"),
        (lambda: Exporter(bytes(8), (2,), 2, 32, major=2), "version 2.0"),
        (
            lambda: Exporter(bytes(8), (2,), 2, 32, name=b"used_dltensor"),
            "other than a DLPack capsule",
        ),
    ],
)
def test_what_dlpack_has_and_hlo_has_not(make: Callable[[], Exporter], words: str) -> None:
    with pytest.raises(hlo.HloError, match=words) as e:
        hlo.interpret(identity(ELEMENT_TYPES["f32"], "2"), make())
    assert e.value.code == "type-mismatch" and str(e.value).startswith("error: argument 0 (x): ")


def test_memory_lives_as_long_as_the_array() -> None:
    data = np.arange(1000, dtype=np.int64)
    got = taken_from_numpy(data)
    assert np.shares_memory(got, data)
    del data
    assert got.sum() == 499500


def taken_from_numpy(data: np.ndarray) -> np.ndarray:
    class Wrapped:
        def __dlpack_device__(self) -> Any:
            return data.__dlpack_device__()

        def __dlpack__(self, **options: Any) -> Any:
            return data.__dlpack__(**options)

    found = array_of(Wrapped(), "it")
    assert found is not None
    return found


# --- out ----------------------------------------------------------------------------------------


def test_literals_are_arrays_to_numpy() -> None:
    literal = hlo.Literal.of(np.arange(6, dtype=np.int16).reshape(2, 3))
    view = np.asarray(literal)
    assert view.dtype == np.int16 and np.shares_memory(view, literal.array)
    assert np.asarray(literal, np.float64).sum() == 15 and np.sum(literal) == 15
    copy = np.array(literal)
    copy[0, 0] = 9
    assert literal.array[0, 0] == 0
    with pytest.raises(ValueError):
        np.asarray(literal, np.float64, copy=False)
    with pytest.raises(TypeError, match=r"\(s32\[\]\) is not an array"):
        np.asarray(hlo.Literal.of((np.int32(1),)))


def test_arrays_of_other_libraries_wherever_arrays_are_taken() -> None:
    jax = pytest.importorskip("jax")
    value = jax.numpy.asarray(VALUES, jax.numpy.bfloat16)
    shape = hlo.parse_shape("bf16[2,3]{0,1}")
    assert hlo.pack(value, shape).tobytes() == hlo.pack(np.asarray(value), shape).tobytes()
    builder = hlo.XlaBuilder("b")
    assert str(builder.constant(value).shape).startswith("bf16[2,3]")
    module = hlo.parse(
        "HloModule m\nENTRY e { t = (f32[2], (s4[1])) parameter(0) "
        "ROOT y = f32[2] get-tuple-element(t), index=0 }"
    )
    literal = hlo.Literal.of(np.float32([1, 2]))
    nested = (literal, (jax.numpy.ones(1, "int4"),))
    assert hlo.interpret(module, nested).tolist() == [1, 2]
