"""The JSON that the commands print, held against the schemas that the documentation shows."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.harness.paths import ROOT

SCHEMAS = ROOT / "docs" / "schemas"


def schema(name: str) -> dict[str, Any]:
    """Return `docs/schemas/NAME.schema.json`."""
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    return found


def check_schema(name: str, data: Any, *, part: str | None = None) -> None:
    """Fail unless data is as `docs/schemas/NAME.schema.json` says.

    part: the one of its `$defs` that it has to be.
    """
    json.dumps(data, allow_nan=False)  # NaN is no JSON
    found = schema(name)
    validator = jsonschema.validators.validator_for(found)
    validator.check_schema(found)
    named = Registry().with_resources(_named())
    validator(found, registry=named).validate(data)
    if part is not None:
        validator({"$ref": f"{name}.schema.json#/$defs/{part}"}, registry=named).validate(data)


def _named() -> list[tuple[str, Resource]]:
    """Return the schemas that others refer to, by the name of their file."""
    files = SCHEMAS.glob("*.json")
    return [(f.name, DRAFT202012.create_resource(json.loads(f.read_text()))) for f in files]
