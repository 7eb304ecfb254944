"""The lists of operations that `hlo-opt --list-ops` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..command_line.common import BAD_INPUT, emit, emit_json, note, progress

if TYPE_CHECKING:
    from hlo.ops import OpSpec


def list_unsupported(as_json: bool) -> int:
    """Print which operations have no native code in which types; returns 1 if there are any."""
    from hlo.compiler.coverage import supported

    missing, count = [], 0
    with progress("compiling examples"):
        for pair in supported():
            count += 1
            if pair.problem is not None:
                missing.append(pair)
    if as_json:
        pairs = [{"opcode": p.opcode, "type": p.type, "problem": p.problem} for p in missing]
        emit_json({"pairs": count, "unsupported": pairs})
    else:
        emit("".join(f"{p.opcode:28}{p.type:15}{p.problem}\n" for p in missing))
        note(f"{count} pairs of operation and element type, {len(missing)} without native code")
    return BAD_INPUT if missing else 0


def list_operations(as_json: bool) -> int:
    """Print the op table."""
    from hlo.ops import OPS

    specs = [spec for _, spec in sorted(OPS.items())]
    if as_json:
        emit_json([_operation_json(spec) for spec in specs])
        return 0
    lines = [f"{'opcode':28}{'operands':10}{'category':13}attributes (! required)"]
    for spec in specs:
        attrs = " ".join(
            key + ("!" if attr.required else "")
            for key, attr in spec.attrs.items()
            if key != spec.payload
        )
        line = f"{spec.name:28}{_arity(spec.arity):10}{spec.category.value:13}{attrs}"
        lines.append(line.rstrip())
    emit("\n".join(lines) + "\n")
    return 0


def _operation_json(spec: OpSpec) -> dict[str, Any]:
    return {
        "opcode": spec.name,
        "operands": _arity(spec.arity),
        "category": spec.category.value,
        "traits": [str(t.name).lower().replace("_", "-") for t in spec.traits],
        "attributes": {
            key: {"form": attr.codec.name, "required": attr.required}
            for key, attr in spec.attrs.items()
            if key != spec.payload
        },
        "source": spec.source,
        "examples": list(spec.examples),
    }


def _arity(arity: int | tuple[int, int | None]) -> str:
    if isinstance(arity, int):
        return str(arity)
    least, most = arity
    return f"{least}.." if most is None else f"{least}..{most}"
