"""The JSON that the commands print, held against the schemas that the documentation shows."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from tests.harness.paths import ROOT


def check_schema(name: str, data: Any) -> None:
    """Fail unless data is as `docs/schemas/NAME.schema.json` says."""
    schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text())
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    validator(schema).validate(data)
