"""Conversion of other libraries' arrays: JAX, PyTorch, and any with DLPack or numpy's protocol.

No library is imported: its arrays exist only if it already is. Host memory is shared where numpy
can, and read-only; that of other devices is copied to the host. numpy itself supports no bf16, f8
or f4 in DLPack, so capsules are read here. Source: `dlpack.h`, version 1.1.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.support.dlpack import (
    CPU,
    DTYPES,
    HOST_DEVICES,
    IS_PADDED,
    KINDS,
    VERSION,
    Tensor,
    read_capsule,
)


def array_of(value: Any, what: str) -> np.ndarray | None:
    """Return an array of any library as numpy's; None for non-arrays, such as numbers and lists.

    A typed PRNG key of JAX becomes its u32 words, in a last dimension. `what` names the value in
    errors. Raises HloError (`type-mismatch`) for an array without data, or of a type that HLO does
    not have.
    """
    if isinstance(value, np.ndarray):
        return value
    kind = type(value)
    if not (hasattr(kind, "__array__") or hasattr(kind, "__dlpack__")):
        return None
    try:
        if _is_a(value, "torch", "Tensor"):
            # Detach from autograd, and resolve lazy conjugation and negation.
            value = value.detach().cpu().resolve_conj().resolve_neg()
        elif _is_a(value, "jax", "Array"):
            return _of_jax(value)
        return _from_dlpack(value) if hasattr(kind, "__dlpack__") else np.asarray(value)
    except HloError as e:
        raise HloError.at("type-mismatch", f"{what}: {e.diagnostics[0].message}") from None
    # Whatever a library raises when its data is accessed.
    except Exception as e:
        said = (str(e) or type(e).__name__).strip().splitlines()[0]
        name = f"{kind.__module__.partition('.')[0]}'s {kind.__name__}"
        raise HloError.at("type-mismatch", f"{what}: {name} gives no array: {said}") from e


def _is_a(value: Any, library: str, name: str) -> bool:
    kind = getattr(sys.modules.get(library), name, None)
    return kind is not None and isinstance(value, kind)


def _of_jax(value: Any) -> np.ndarray:
    import jax

    if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


class _Memory:
    """Bytes that a capsule owns, for numpy's array interface. The array keeps the capsule alive;
    that is never marked as used, so its own destructor frees the bytes."""

    def __init__(self, capsule: object, interface: dict[str, Any]) -> None:
        self._capsule = capsule
        self.__array_interface__ = interface


def _from_dlpack(value: Any) -> np.ndarray:
    """Return an array by DLPack. Raises HloError for types and devices that cannot be read."""
    device, _ = value.__dlpack_device__()
    options: dict[str, Any] = {"max_version": VERSION}
    if device not in HOST_DEVICES:
        options["dl_device"] = (CPU, 0)
    try:
        capsule = value.__dlpack__(**options)
    except TypeError:
        # A library that implements only the first version of the protocol, without options.
        capsule = value.__dlpack__()
    tensor, flags = read_capsule(capsule)
    if tensor.device not in HOST_DEVICES:
        raise HloError.at("type-mismatch", f"its data is on a device of DLPack's type {device}")
    dtype = DTYPES.get((tensor.code, tensor.bits))
    packed = tensor.bits < 8 and not flags & IS_PADDED
    if dtype is None or (tensor.lanes != 1 and not (packed and tensor.bits * tensor.lanes == 8)):
        kind = KINDS.get(tensor.code, f"code {tensor.code} of ")
        lanes = f" in vectors of {tensor.lanes}" if tensor.lanes != 1 else ""
        raise HloError.at(
            "type-mismatch", f"no element type is DLPack's {kind}{tensor.bits}{lanes}"
        )
    dims = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    if packed and tensor.lanes == 1:
        return _packed(capsule, tensor, dims, strides, dtype)
    elements = _elements(capsule, tensor, dims, strides, dtype.itemsize)
    if not packed:
        return elements.view(dtype)
    # Bytes of several elements, which are in the last dimension, the first in the low bits.
    shifts = np.arange(0, 8, tensor.bits, dtype=np.uint8)
    parts = (elements.view(np.uint8)[..., None] >> shifts) & ((1 << tensor.bits) - 1)
    return parts.reshape((*dims[:-1], -1) if dims else (-1,)).view(dtype)


def _elements(
    capsule: object, tensor: Tensor, dims: tuple[int, ...], strides: tuple[int, ...] | None,
    size: int,
) -> np.ndarray:  # fmt: skip
    """Return a tensor's memory as elements of so many bytes, without copying."""
    if 0 in dims:
        return np.empty(dims, f"V{size}")
    interface = {
        "version": 3, "shape": dims, "typestr": f"|V{size}",
        "data": (tensor.data + tensor.byte_offset, True),
        "strides": None if strides is None else tuple(s * size for s in strides),
    }  # fmt: skip
    return np.asarray(_Memory(capsule, interface))


def _packed(
    capsule: object, tensor: Tensor, dims: tuple[int, ...], strides: tuple[int, ...] | None,
    dtype: np.dtype,
) -> np.ndarray:  # fmt: skip
    """Unpack sub-byte elements, of which the first is in the low bits."""
    count = int(np.prod(dims, dtype=np.int64))
    wanted = tuple(int(np.prod(dims[d + 1 :], dtype=np.int64)) for d in range(len(dims)))
    if strides not in (None, wanted) and count:
        raise HloError.at("type-mismatch", "its packed elements are not in row-major order")
    size = (count * tensor.bits + 7) // 8
    octets = _elements(capsule, tensor, (size,), None, 1).view(np.uint8)
    bits = np.unpackbits(octets, bitorder="little")[: count * tensor.bits]
    values = np.packbits(bits.reshape(count, tensor.bits), axis=1, bitorder="little")
    return values.reshape(dims).view(dtype)
