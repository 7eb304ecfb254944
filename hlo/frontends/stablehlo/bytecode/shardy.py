"""Attributes of Shardy's dialect, sdy, in bytecode.

Source: Shardy's definition of its bytecode, whose codes are the positions in the table.
"""

from __future__ import annotations

from functools import partial

from hlo.frontends.stablehlo.bytecode.codes import Code, decoder
from hlo.frontends.stablehlo.bytecode.container import Reader, Value
from hlo.frontends.stablehlo.bytecode.stream import Stream
from hlo.frontends.stablehlo.spelling import string


def _braces(values: list[Value]) -> str:
    return f"{{{', '.join(v.text for v in values)}}}"


def _manual_axes(r: Reader, s: Stream) -> Value:
    return Value(f"#sdy<manual_axes{_braces(r.attributes(s))}>")


def _mesh_axis(r: Reader, s: Stream) -> Value:
    name = string(r.string(s))
    return Value(f"{name}={s.signed()}")


def _mesh(r: Reader, s: Stream) -> Value:
    axes, ids = r.attributes(s), s.signed_list()
    inside = f"[{', '.join(a.text for a in axes)}]"
    if ids:
        inside += f", device_ids=[{', '.join(map(str, ids))}]"
    return Value(f"#sdy.mesh<{inside}>", inside)


def _sub_axis(r: Reader, s: Stream) -> Value:
    before = s.signed()
    return Value(f":({before}){s.signed()}")


def _axis(r: Reader, s: Stream) -> Value:
    name = string(r.string(s))
    inside = r.optional_attribute(s)
    return Value(name if inside is None else name + inside.text)


def _dimension(r: Reader, s: Stream) -> Value:
    words = [axis.text for axis in r.attributes(s)]
    if not s.byte():
        words.append("?")
    priority, has_priority = s.flagged()
    return Value(f"{{{', '.join(words)}}}{f'p{priority}' if has_priority else ''}")


def _sharding(r: Reader, s: Stream, has_unreduced: bool) -> Value:
    mesh = r.attribute(s)
    dimensions = r.attributes(s)
    inside = mesh.text if mesh.text.startswith("@") else f"mesh<{mesh.value}>"
    inside += f", [{', '.join(d.text for d in dimensions)}]"
    for key in ("replicated", *(("unreduced",) if has_unreduced else ())):
        axes = r.attributes(s)
        if axes:
            inside += f", {key}={_braces(axes)}"
    return Value(f"#sdy.sharding<{inside}>", inside)


def _per_value(r: Reader, s: Stream) -> Value:
    inside = ", ".join(f"<{v.value}>" for v in r.attributes(s))
    return Value(f"#sdy.sharding_per_value<[{inside}]>")


def _factor(number: int) -> str:
    """Return the name of a factor of a rule: i to z, then z_1 and so on."""
    last = ord("z") - ord("i")
    return chr(ord("i") + number) if number <= last else f"z_{number - last}"


def _dim_mapping(r: Reader, s: Stream) -> Value:
    return Value("".join(map(_factor, s.signed_list())))


def _tensor_mapping(r: Reader, s: Stream) -> Value:
    return Value(f"[{', '.join(v.text for v in r.attributes(s))}]")


def _sharding_rule(r: Reader, s: Stream) -> Value:
    sizes = s.signed_list()
    operands, results = ([v.text for v in r.attributes(s)] for _ in range(2))
    inside = f"({', '.join(operands)})->({', '.join(results)})"
    inside += f" {{{', '.join(f'{_factor(n)}={size}' for n, size in enumerate(sizes))}}}"
    for kind in ("reduction", "need_replication", "permutation", "blocked_propagation"):
        factors = s.signed_list()
        if factors:
            inside += f" {kind}={{{', '.join(map(_factor, factors))}}}"
    return Value(f"#sdy.op_sharding_rule<{inside}{', custom' if s.byte() else ''}>")


def _axes(r: Reader, s: Stream) -> Value:
    inside = _braces(r.attributes(s))
    return Value(f"#sdy<axis_ref_list{inside}>", inside)


def _lists_of_axes(r: Reader, s: Stream) -> Value:
    inside = ", ".join(str(v.value) for v in r.attributes(s))
    return Value(f"#sdy<list_of_axis_ref_lists[{inside}]>")


def _exchange(r: Reader, s: Stream) -> Value:
    inside = f"{_braces(r.attributes(s))}: {s.signed()}->{s.signed()}"
    return Value(f"#sdy<all_to_all_param{inside}>", inside)


def _exchanges(r: Reader, s: Stream) -> Value:
    inside = ", ".join(str(v.value) for v in r.attributes(s))
    return Value(f"#sdy<all_to_all_param_list[{inside}]>")


_ATTRIBUTES = {
    0: Code(_manual_axes),
    1: Code(_mesh_axis),
    2: Code(_mesh),
    3: Code(_sub_axis),
    4: Code(_axis),
    5: Code(_dimension),
    6: Code(partial(_sharding, has_unreduced=False)),
    7: Code(_per_value),
    8: Code(_dim_mapping),
    9: Code(_tensor_mapping),
    10: Code(_sharding_rule),
    11: Code(_axes),
    12: Code(_lists_of_axes),
    13: Code(_exchange),
    14: Code(_exchanges),
    15: Code(partial(_sharding, has_unreduced=True)),
    16: Code(_per_value),
}
decode_attribute = decoder(_ATTRIBUTES, "an attribute of the dialect sdy")
