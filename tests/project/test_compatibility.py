"""What XLA takes and what is taken here: every difference has a reason, and is on the page."""

from __future__ import annotations

import re
from typing import Any

import jaxlib
import pytest

from docs import compatibility as page
from tests.harness.paths import DOCS
from tests.sweeps import drift

RECORDS = drift.records()
VERSIONS = [facts["version"] for facts in RECORDS]


@pytest.fixture(scope="session")
def installed() -> dict[str, Any]:
    """Return what the installed jaxlib takes, but for words."""
    return drift.ask(words=False)


def test_the_page_is_up_to_date() -> None:
    assert (DOCS / "compatibility.md").read_text() == page.render(), "run `make compatibility`"


def test_answers_of_two_versions_are_on_file() -> None:
    assert len(RECORDS) >= 2
    for facts in RECORDS:
        # What has been asked since then is not in them.
        assert facts["words"].keys() == drift.WORDS.keys(), "run `make compatibility`"


@pytest.mark.parametrize("facts", RECORDS, ids=VERSIONS)
def test_every_difference_has_a_reason(facts: dict[str, Any]) -> None:
    assert [str(d) for d, why in drift.explained(facts).items() if not why] == []


def test_every_reason_is_that_of_a_difference() -> None:
    found = [difference for facts in RECORDS for difference in drift.differences(facts)]
    own = drift.reasons()[len(drift.NOT_TAKEN) :]
    assert [r.pattern for r in own if not any(map(r.explains, found))] == []


def test_the_installed_jaxlib_is_as_it_is_on_file(installed: dict[str, Any]) -> None:
    assert installed["version"] == jaxlib.__version__
    assert [str(d) for d, why in drift.explained(installed).items() if not why] == []
    for facts in RECORDS:
        if facts["version"] == installed["version"]:
            assert {**installed, "words": facts["words"]} == facts, "run `make compatibility`"


def test_opcodes_and_types_are_found_in_the_library(installed: dict[str, Any]) -> None:
    """What is not known here is found all the same: names come from jaxlib, not from the table."""
    assert len(installed["opcodes"]) > 130 and {"add", "ragged-dot"} < set(installed["opcodes"])
    assert {"f32", "f8e4m3b11fnuz", "token", "opaque"} < set(installed["types"])
    assert installed["attributes"]["transpose"].count("dimensions") == 1


def test_a_gap_is_found() -> None:
    facts = RECORDS[-1]
    more = {
        **facts,
        "opcodes": [*facts["opcodes"], "fold"],
        "types": [*facts["types"], "f5e2m2"],
        "attributes": {**facts["attributes"], "add": [*facts["attributes"]["add"], "rounding"]},
    }
    new = set(drift.differences(more)) - set(drift.differences(facts))
    assert sorted(map(str, new)) == [
        "attribute rounding of add: only XLA accepts it",
        "opcode fold: only XLA accepts it",
        "type f5e2m2: only XLA accepts it",
    ]
    assert all(not drift.explained(more)[d] for d in new)


def test_names_of_the_page_are_those_of_the_record() -> None:
    text = (DOCS / "compatibility.md").read_text()
    for name in RECORDS[-1]["version"], "collective-reduce", "`WEAK`":
        assert re.search(re.escape(name), text)
