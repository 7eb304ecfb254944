"""Bytecode as MLIR text in the generic form."""

from __future__ import annotations

from collections.abc import Iterator

from hlo.frontends.stablehlo.bytecode import builtin, shardy, unversioned, vhlo, vhlo_types
from hlo.frontends.stablehlo.bytecode.container import Argument, Operation, Reader, Value
from hlo.frontends.stablehlo.bytecode.operations import attributes_of, name_of
from hlo.frontends.stablehlo.bytecode.properties import PROPERTIES
from hlo.frontends.stablehlo.bytecode.stream import fail

_CAST = "builtin.unrealized_conversion_cast"
_TEXT = (
    "serialize the module with jaxlib's stablehlo.serialize_portable_artifact, or print it as text"
)


def bytecode_to_text(data: bytes) -> str:
    """Return the StableHLO text of a portable artifact. Raises TextError, at an offset in bytes."""
    reader = Reader(
        data,
        {
            "builtin": builtin.decode_attribute,
            "vhlo": vhlo.decode_attribute,
            "sdy": shardy.decode_attribute,
            "stablehlo": unversioned.decode_attribute,
        },
        {
            "builtin": builtin.decode_type,
            "vhlo": vhlo_types.decode_type,
            "stablehlo": unversioned.decode_type,
        },
        PROPERTIES,
    )
    others = [d for d in reader.dialects if d not in ("builtin", "vhlo", "sdy", "stablehlo")]
    others += {"stablehlo"} & reader.dialects_of_operations
    if others:
        fail(
            "this bytecode is no portable artifact of StableHLO, whose dialect is vhlo: it has "
            f"operations, attributes or types of {', '.join(others)}", 0, hint=_TEXT,
        )  # fmt: skip
    writer = _Writer()
    lines = [line for op in reader.operations() for line in writer.lines(op, "", "")]
    shared = [f"{alias} = loc({text})" for alias, text in reader.locations.items()]
    return "\n".join([*lines, *shared, *writer.definitions(), ""])


class _Writer:
    """Writes operations, and definitions of the locations that they refer to."""

    def __init__(self) -> None:
        self._locations: dict[str, int] = {}
        # By the result of a cast between the types of VHLO and MLIR's own: what is cast.
        self._casts: dict[str, str] = {}

    def definitions(self) -> Iterator[str]:
        for text, number in self._locations.items():
            yield f"#loc{number} = loc({text})"

    def lines(self, op: Operation, parent: str, indent: str) -> Iterator[str]:
        """Yield the lines of an operation inside one with the name `parent`."""
        if op.name == _CAST and len(op.operands) == len(op.results) == 1:
            self._casts[op.results[0].name] = self._name(op.operands[0])
            return
        for result in op.results:  # each function numbers its values from 0
            self._casts.pop(result.name, None)
        name = name_of(op, parent)
        results = ""
        if op.results:
            several = f":{len(op.results)}" if len(op.results) > 1 else ""
            results = f"{op.results[0].name.partition('#')[0]}{several} = "
        line = f'{indent}{results}"{name}"({", ".join(map(self._name, op.operands))})'
        for i, region in enumerate(op.regions):
            yield f"{line}, {{" if i else f"{line} ({{"
            if region.arguments:
                arguments = ", ".join(
                    f"{a.name}: {a.type.text}{self._location(a.location)}" for a in region.arguments
                )
                yield f"{indent}^bb0({arguments}):"
            for inner in region.operations:
                yield from self.lines(inner, name, indent + "  ")
            line = f"{indent}}}"
        closing = ")" if op.regions else ""
        attrs = ", ".join(
            f"{key} = {text}" if text else key for key, text in attributes_of(op).items()
        )
        braces = f" {{{attrs}}}" if attrs else ""
        types = ", ".join(o.type.text for o in op.operands)
        made = ", ".join(r.type.text for r in op.results)
        yield f"{line}{closing}{braces} : ({types}) -> ({made}){self._location(op.location)}"

    def _name(self, value: Argument) -> str:
        return self._casts.get(value.name, value.name)

    def _location(self, location: Value | None) -> str:
        if location is None or location.text == "unknown":
            return ""
        number = self._locations.setdefault(location.text, len(self._locations))
        return f" loc(#loc{number})"
