"""The `backend_config` of a call: a protocol buffer message as JSON, with its defaults."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from hlo.errors import InferError

# Strings, names without quotation marks, and commas before a closing bracket: protobuf's parser
# reads the last two, and people write them.
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|(?P<name>[A-Za-z_]\w*)(?=\s*:)|(?P<comma>,)(?=\s*[}\]])')


class Config:
    """A message of a configuration. A field that is absent has its default.

    name: what it is called in errors.
    """

    def __init__(self, fields: dict[str, Any], name: str) -> None:
        self._fields = fields
        self.name = name

    def __contains__(self, key: str) -> bool:
        return self._fields.get(key) is not None

    def number(self, key: str, default: float = 0.0) -> float:
        value = self._fields.get(key, default)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise self._wrong(key, "a number") from None

    def integer(self, key: str, default: int = 0) -> int:
        return _integer(self._fields.get(key, default)) if key in self else default

    def integers(self, key: str) -> tuple[int, ...]:
        value = self._fields.get(key) or []
        try:
            if isinstance(value, list):
                return tuple(map(_integer, value))
        except (TypeError, ValueError):
            pass
        raise self._wrong(key, "a list of integers")

    def numbers(self, key: str) -> tuple[float, ...]:
        value = self._fields.get(key) or []
        try:
            if isinstance(value, list):
                return tuple(map(float, value))
        except (TypeError, ValueError):
            pass
        raise self._wrong(key, "a list of numbers")

    def flag(self, key: str, default: bool = False) -> bool:
        value = self._fields.get(key, default)
        if value in ("true", "false"):
            return bool(value == "true")
        if isinstance(value, bool):
            return value
        raise self._wrong(key, "true or false")

    def text(self, key: str) -> str:
        return str(self._fields.get(key) or "")

    def choice(self, key: str, names: Sequence[str]) -> str:
        """Return a value of an enumeration by its name; the first one is the default."""
        return self._choice(key, self._fields.get(key, names[0]), names)

    def choices(self, key: str, names: Sequence[str]) -> tuple[str, ...]:
        value = self._fields.get(key) or []
        if not isinstance(value, list):
            value = [value]
        return tuple(self._choice(key, v, names) for v in value)

    def _choice(self, key: str, value: Any, names: Sequence[str]) -> str:
        if value in names:
            return str(value)
        try:
            number = _integer(value)
        except (TypeError, ValueError):
            number = -1
        if 0 <= number < len(names):
            return names[number]
        raise InferError(
            f"{self.name}: {key} is {value!r}; known are {', '.join(names)}",
            attr="backend_config", code="unsupported",
        )  # fmt: skip

    def section(self, key: str) -> Config:
        """Return a message inside; without any fields if it is absent."""
        value = self._fields.get(key) or {}
        if not isinstance(value, dict):
            raise self._wrong(key, "a message")
        return Config(value, f"{self.name}.{key}")

    def need_section(self, key: str) -> Config:
        if key not in self:
            raise InferError(f"{self.name} has no {key}", attr="backend_config", code="bad-value")
        return self.section(key)

    def _wrong(self, key: str, wanted: str) -> InferError:
        return InferError(
            f"{self.name}: {key} is {self._fields.get(key)!r}, not {wanted}",
            attr="backend_config", code="bad-value",
        )  # fmt: skip


def _integer(value: Any) -> int:
    """Return an integer; 64 bits are a string in JSON."""
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(value)
    return int(value)


def read_config(text: str, section: str) -> Config:
    """Return the section of a configuration. Raises InferError for text that is no JSON.

    Dumps of 2023 and before have the fields of the section on the outermost level.
    """
    fields: Any = {}
    if text.strip():
        try:
            fields = json.loads(_PIECE.sub(_strict, text))
        except (json.JSONDecodeError, RecursionError) as e:
            raise InferError(
                f"backend_config is no JSON: {e}", attr="backend_config", code="bad-value"
            ) from None
    if not isinstance(fields, dict):
        raise InferError(
            "backend_config is no JSON object", attr="backend_config", code="bad-value"
        )
    whole = Config(fields, "backend_config")
    return whole.section(section) if section in whole else Config(fields, section)


def _strict(m: re.Match[str]) -> str:
    if m["name"]:
        return json.dumps(m["name"])
    return "" if m["comma"] else m[0]
