"""HloModuleProto, binary and as text: `to_proto`, `from_proto`, and the same for `.pbtxt`.

The messages around modules in dumps are read too, and the arguments in snapshots.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo.frontends.proto.modules import (
        Iteration,
        from_pbtxt,
        from_proto,
        read_runs,
        snapshot_arguments,
        to_debug_string,
        to_json,
        to_pbtxt,
        to_proto,
        write_runs,
    )

__all__ = [
    "Iteration",
    "from_pbtxt",
    "from_proto",
    "read_runs",
    "snapshot_arguments",
    "to_debug_string",
    "to_json",
    "to_pbtxt",
    "to_proto",
    "write_runs",
]


def __getattr__(name: str) -> Any:
    # Whoever only decodes a message needs no modules.
    if name not in __all__:
        raise AttributeError(f"module 'hlo.frontends.proto' has no attribute {name!r}")
    from hlo.frontends.proto import modules

    return getattr(modules, name)


def __dir__() -> list[str]:
    return sorted(__all__)
