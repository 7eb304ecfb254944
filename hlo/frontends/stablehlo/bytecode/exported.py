"""The bytecode in a serialized `jax.export.Exported`, a FlatBuffer without a schema of its own.

Source: the layout of FlatBuffers' tables; the order of fields in JAX's schema.
"""

from __future__ import annotations

import struct

from hlo.frontends.stablehlo.bytecode.layout import MAGIC

# The offset of the field `mlir_module_serialized` in the table of fields.
_MODULE_FIELD = 30


def exported_module(data: bytes) -> bytes | None:
    """Return the bytecode in a serialized export, None if these bytes are none."""
    try:
        (root,) = struct.unpack_from("<I", data)
        (distance,) = struct.unpack_from("<i", data, root)
        fields = root - distance
        if fields < 0 or struct.unpack_from("<H", data, fields)[0] < _MODULE_FIELD + 2:
            return None
        (field,) = struct.unpack_from("<H", data, fields + _MODULE_FIELD)
        at = root + field
        at += struct.unpack_from("<I", data, at)[0]
        (size,) = struct.unpack_from("<I", data, at)
    except struct.error:
        return None
    found = data[at + 4 : at + 4 + size]
    return found if field and len(found) == size and found.startswith(MAGIC) else None
