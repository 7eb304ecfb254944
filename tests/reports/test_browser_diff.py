"""The page of a difference in a browser without a network: both modules side by side."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hlo
from tests.generators.edits import edit
from tests.generators.layered import layered_module
from tests.generators.shuffled import shuffle

pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By

from tests.reports.conftest import first_paint

EDITS = ("opcode", "insert", "remove", "swap", "annotation", "constant")
# Cells whose text is cut, that stick out of the page, or are not beside their partner.
FAULTS = """
const faults = [];
const width = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > width) faults.push("the page scrolls sideways");
for (const rows of document.querySelectorAll(".rows")) {
  const middle = rows.getBoundingClientRect().left + rows.getBoundingClientRect().width / 2;
  const cells = [...rows.querySelectorAll(".cell")];
  cells.forEach((cell, n) => {
    const box = cell.getBoundingClientRect(), isRight = cell.classList.contains("right");
    if (cell.scrollWidth > cell.clientWidth + 1) faults.push(`cut: ${cell.textContent}`);
    if (cell.scrollHeight > cell.clientHeight + 1) faults.push(`too low: ${cell.textContent}`);
    if (isRight !== box.left >= middle - 2) faults.push(`wrong side: ${cell.textContent}`);
    if (isRight !== (n % 2 === 1)) faults.push(`no partner: ${cell.textContent}`);
    if (isRight && box.top !== cells[n - 1].getBoundingClientRect().top) {
      faults.push(`not beside: ${cell.textContent}`);
    }
  });
}
return faults;
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of six edits of 3,000 instructions, in another order, and of passes on 1,000."""
    folder = tmp_path_factory.mktemp("pages")
    left = hlo.parse(layered_module(3_000))
    edited, rng = left.clone(), random.Random(1)
    for kind in EDITS:
        assert edit(edited, kind, rng) is not None
    right = hlo.parse(str(shuffle(edited, 3)[0]))
    small = hlo.parse(layered_module(1_000))
    found = {
        "edited": hlo.diff(left, right),
        "optimized": hlo.diff(small, hlo.optimize(small.clone()), by_name=True),
    }
    for name, difference in found.items():
        (folder / f"{name}.html").write_text(difference.page())
    return {name: folder / f"{name}.html" for name in found}


@pytest.fixture
def opened(browser: Any, pages: dict[str, Path], request: pytest.FixtureRequest) -> Iterator[Any]:
    browser.get("about:blank")
    browser.get(pages[request.param].as_uri())
    yield browser
    assert browser.get_log("browser") == []


def count(browser: Any, selector: str) -> int:
    return len(browser.find_elements(By.CSS_SELECTOR, selector))


def both(name: str) -> Any:
    return pytest.mark.parametrize("opened", [name], indirect=True)


@pytest.mark.parametrize("opened", ["edited", "optimized"], indirect=True)
def test_pages_open_at_once_and_nothing_is_cut(opened: Any) -> None:
    assert opened.execute_script(FAULTS) == []
    assert opened.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert first_paint(opened) < 60_000, "milliseconds"


@both("edited")
def test_what_did_not_change_is_folded_and_unfolds(opened: Any) -> None:
    assert count(opened, "#patterns tbody tr") == len(EDITS)
    # Each of the changes with its neighbours, and no others.
    shown = count(opened, ".cell:not(.right)")
    assert 2 * len(EDITS) <= shown <= 7 * len(EDITS)
    fold = opened.find_element(By.CSS_SELECTOR, "button.fold")
    hidden = int(fold.text.split()[0])
    fold.click()
    assert count(opened, ".cell:not(.right)") == shown + hidden
    assert opened.execute_script(FAULTS) == []


@both("edited")
def test_places_and_names_lead_to_their_rows(opened: Any) -> None:
    place = opened.find_element(By.XPATH, "//tr[td[text()='multiply: now divide']]//summary")
    place.click()
    opened.find_element(By.XPATH, "//tr[td[text()='multiply: now divide']]//button").click()
    left, right = (cell.text for cell in opened.find_elements(By.CSS_SELECTOR, ".cell.target"))
    assert " multiply(" in left and " divide(" in right
    target = opened.find_element(By.CSS_SELECTOR, ".cell.target")
    top = opened.execute_script("return arguments[0].getBoundingClientRect().top", target)
    assert 0 < top < 800
    operand = target.find_elements(By.CSS_SELECTOR, "button.name")[1]
    name = operand.text
    operand.click()
    assert f"{name} = " in opened.find_element(By.CSS_SELECTOR, ".cell.target").text


@both("edited")
def test_the_search_finds_what_is_folded(opened: Any) -> None:
    field = opened.find_element(By.ID, "search")
    field.send_keys("rsqrt sm77")
    assert opened.find_element(By.ID, "found").text == "1 found"
    left, right = (cell.text for cell in opened.find_elements(By.CSS_SELECTOR, ".cell"))
    assert "%rs77 = " in left and " rsqrt(" in right
    field.clear()
    field.send_keys(" ")
    assert count(opened, "button.fold") > 1


@both("edited")
def test_computations_close_and_open(opened: Any) -> None:
    assert "ENTRY main" in opened.find_element(By.CSS_SELECTOR, ".section h3").text
    head = opened.find_element(By.CSS_SELECTOR, ".section h3")
    assert opened.find_element(By.CSS_SELECTOR, ".rows").is_displayed()
    head.click()
    assert not opened.find_element(By.CSS_SELECTOR, ".rows").is_displayed()
    last = opened.find_elements(By.CSS_SELECTOR, ".section h3")[-1]
    assert "unchanged" in last.text
    last.click()
    assert opened.find_elements(By.CSS_SELECTOR, ".section .rows")[-1].is_displayed()


@both("optimized")
def test_what_was_fused_says_where_it_is(opened: Any) -> None:
    notes = [note.text for note in opened.find_elements(By.CSS_SELECTOR, ".note")[:40]]
    assert any(note.startswith("now in ") for note in notes), notes
    opened.find_element(By.CSS_SELECTOR, "#patterns th:first-child").click()
    rows = opened.find_elements(By.CSS_SELECTOR, "#patterns tbody tr td:first-child")
    counts = [int(row.text) for row in rows]
    assert counts in (sorted(counts), sorted(counts, reverse=True)) and len(set(counts)) > 2
