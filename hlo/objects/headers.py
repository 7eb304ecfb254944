"""All headers of a compiled module: what is written for one that is asked for."""

from __future__ import annotations

from pathlib import Path

import hlo
from hlo.errors import HloError
from hlo.objects.header import header
from hlo.objects.interface import Interface
from hlo.objects.wrapper import SUFFIXES, wrapper


def headers(interface: Interface, source: str, path: str) -> dict[str, bytes]:
    """Return the header to be written to a path, and those that it needs, by path.

    A path that ends as C++ headers do is for the class, and the C header lies beside it. Raises
    HloError where two would have one name.
    """
    at, name = Path(path), Path(source).name
    found: dict[str, bytes] = {}
    c_header = at
    if at.suffix in SUFFIXES:
        c_header = at.with_suffix(".h")
        found[path] = wrapper(interface, name, at.name, c_header.name).encode()
        path = str(c_header)
    found[path] = header(interface, name, c_header.name).encode()
    if interface.uses_host:
        shipped = Path(hlo.__file__).parent / "include" / "hlo_ffi.h"
        if c_header.name == shipped.name:
            raise HloError.at("bad-output", f"{path} would be written twice: it includes this name")
        found[str(at.with_name(shipped.name))] = shipped.read_bytes()
    return found
