"""Parts of the program as attributes: computations, shapes, literals, aliasing, domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hlo.errors import TextError
from hlo.ops.attrs.codec import Codec, listed
from hlo.values.literal import write_literal
from hlo.values.scan import Scanner
from hlo.values.shape_text import read_shape
from hlo.values.sharding import Sharding
from hlo.values.sharding.text import read_sharding

# --- computations -------------------------------------------------------------------------------


def _resolved_elsewhere(_: Any) -> Any:
    raise AssertionError("what knows the module reads and prints these values")


COMPUTATION = Codec("computation", _resolved_elsewhere, _resolved_elsewhere, True)
COMPUTATIONS = Codec("{computations}", _resolved_elsewhere, _resolved_elsewhere, True)

# --- shapes, literals, aliasing -----------------------------------------------------------------


SHAPE = Codec("shape", read_shape, str)
SHAPES = listed(SHAPE, ", ")


# The payload of `constant`: a `Literal` of the result's shape, which the parser knows.
LITERAL = Codec("literal", _resolved_elsewhere, write_literal)


@dataclass(frozen=True, slots=True)
class OutputAlias:
    """An output at `output` shares the buffer of operand `operand` at `operand_index`."""

    output: tuple[int, ...]
    operand: int
    operand_index: tuple[int, ...]


def _read_aliases(s: Scanner) -> tuple[OutputAlias, ...]:
    values: list[OutputAlias] = []
    for _ in s.items():
        output = s.integers()
        s.expect(":")
        s.expect("(")
        operand = s.integer(-1)
        s.expect(",")
        index = s.integers()
        s.expect(")")
        values.append(OutputAlias(output, operand, index))
    return tuple(values)


def write_index(index: Sequence[int]) -> str:
    """Print a shape index the way XLA does: `{0}`, `{1,2}`."""
    return "{" + ",".join(map(str, index)) + "}"


def _write_aliases(values: tuple[OutputAlias, ...]) -> str:
    return (
        "{"
        + ", ".join(
            f"{write_index(a.output)}: ({a.operand}, {write_index(a.operand_index)})"
            for a in values
        )
        + "}"
    )


OUTPUT_ALIASES = Codec("{{output}: (operand, {index})}", _read_aliases, _write_aliases)

# --- domains ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Domain:
    """A border between regions: `exit` holds on the operand's side, `entry` on the users' side."""

    kind: str
    entry: Sharding
    exit: Sharding


def _read_domain(s: Scanner) -> Domain:
    start = s.pos
    found: dict[str, Any] = {}
    for name in s.fields("domain", ("kind", "entry", "exit")):
        at = s.pos
        found[name] = s.string() if name == "kind" else read_sharding(s)
        if name == "kind" and found[name] != "sharding":
            raise TextError(f"unknown kind of domain {found[name]!r}", at, code="bad-value",
                            hint='the one kind is "sharding"')  # fmt: skip
    if len(found) < 3:
        raise TextError("a domain has a kind, an entry and an exit", start)
    return Domain(**found)


def _write_domain(domain: Domain) -> str:
    return f'{{kind="{domain.kind}", entry={domain.entry}, exit={domain.exit}}}'


DOMAIN = Codec('{kind="sharding", entry={..}, exit={..}}', _read_domain, _write_domain)
