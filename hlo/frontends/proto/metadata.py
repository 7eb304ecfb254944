"""Annotations of operations as messages: metadata, frontend attributes, statistics."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from hlo.errors import TextError
from hlo.frontends.proto.schema import Message
from hlo.frontends.text.annotations import OpMetadata
from hlo.values.scan import from_bytes, to_bytes

# --- metadata -----------------------------------------------------------------------------------

_PROFILE_TYPES = ("INVALID", "WINDOW", "FLAG", "INTEGER")


class Payloads:
    """The long strings that a module stores once, by number."""

    def __init__(self, known: list[bytes] | None = None) -> None:
        self.known = known or []

    def read(self, m: Message) -> str:
        """Return the string of a Payload. Raises TextError."""
        if "value" in m:
            data = m["value"]
        else:
            number = m.get("id", 0)
            if not 0 <= number < len(self.known):
                raise TextError(f"the module has no payload {number}", m.offset)
            data = self.known[number]
        return from_bytes(data)


NO_PAYLOADS = Payloads()


def read_metadata(m: Message, payloads: Payloads = NO_PAYLOADS) -> OpMetadata:
    """Return the metadata in an OpMetadata message."""
    fields: dict[str, Any] = {}
    for name in OpMetadata.FIELDS:
        value: Any = m.get(name)
        if not value:
            continue
        if name == "profile_type":
            value = tuple(_PROFILE_TYPES.index(v) if isinstance(v, str) else v for v in value)
        fields[name] = payloads.read(value) if name == "metadata_payload" else value
    return OpMetadata(fields)


def write_metadata(metadata: OpMetadata) -> Message:
    """Return the OpMetadata message of metadata."""
    m = Message(metadata.fields)
    if "profile_type" in m:
        m["profile_type"] = list(m["profile_type"])
    if "metadata_payload" in m:
        m["metadata_payload"] = Message(value=to_bytes(m["metadata_payload"]))
    return m


# --- pairs ------------------------------------------------------------------------------------


def read_frontend_attributes(m: Message) -> MappingProxyType[str, str]:
    """Return the pairs of a FrontendAttributes message."""
    return MappingProxyType({e.get("key", ""): e.get("value", "") for e in m.get("map", ())})


def write_frontend_attributes(values: Any) -> Message:
    """Return the FrontendAttributes message of pairs, in the order of their names."""
    return Message(map=[Message(key=k, value=v) for k, v in sorted(values.items())])


# --- statistics ---------------------------------------------------------------------------------

_SHOWN = "visualizing_index"


def read_statistics(m: Message) -> tuple[tuple[str, float], ...]:
    """Return statistics, preceded by the number of the visualized one."""
    shown = (_SHOWN, m.get("stat_index_to_visualize", 0))
    return (shown, *((s.get("stat_name", ""), s.get("stat_val", 0.0)) for s in m["statistics"]))


def write_statistics(values: tuple[tuple[str, float], ...]) -> Message:
    """Return the StatisticsViz message of statistics."""
    rest = [(k, v) for k, v in values if k != _SHOWN]
    return Message(
        stat_index_to_visualize=int(dict(values).get(_SHOWN, 0)),
        statistics=[Message(stat_name=k, stat_val=v) for k, v in rest],
    )
