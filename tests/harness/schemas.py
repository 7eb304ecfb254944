"""The JSON that the commands print, held against the schemas that the documentation shows."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.harness.paths import ROOT


def check_schema(name: str, data: Any) -> None:
    """Fail unless data is as `docs/schemas/NAME.schema.json` says."""
    schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text())
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    validator(schema, registry=Registry().with_resources(_named())).validate(data)


def _named() -> list[tuple[str, Resource]]:
    """Return the schemas that others refer to, by the name of their file."""
    files = (ROOT / "docs" / "schemas").glob("*.json")
    return [(f.name, DRAFT202012.create_resource(json.loads(f.read_text()))) for f in files]
