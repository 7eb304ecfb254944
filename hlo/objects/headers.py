"""The set of headers that is written for a requested one."""

from __future__ import annotations

from pathlib import Path

from hlo.errors import HloError
from hlo.io.formats import need_extension
from hlo.objects.header import header
from hlo.objects.interface import Interface
from hlo.objects.wrapper import SUFFIXES, wrapper


def headers(interface: Interface, source: str, path: str) -> dict[str, bytes]:
    """Return the header to be written to a path, and those that it needs, by path.

    A path with the suffix of a C++ header is for the class, with the C header next to it. Raises
    HloError if two would have the same name.
    """
    need_extension(path, (".h", *SUFFIXES), "--header")
    at, name = Path(path), Path(source).name
    found: dict[str, bytes] = {}
    c_header = at
    if at.suffix in SUFFIXES:
        c_header = at.with_suffix(".h")
        found[path] = wrapper(interface, name, at.name, c_header.name).encode()
        path = str(c_header)
    found[path] = header(interface, name, c_header.name).encode()
    shipped = ["hlo_ffi.h"] if interface.uses_host else []
    if interface.collectives:
        shipped += ["hlo_collectives.h", "hlo_collectives_mpi.h", "hlo_collectives_mpi.c"]
    for name in shipped:
        if c_header.name == name:
            raise HloError.at("bad-output", f"{path} would be written twice: it includes this name")
        source_file = Path(__file__).parent.parent / "include" / name
        found[str(at.with_name(name))] = source_file.read_bytes()
    return found
