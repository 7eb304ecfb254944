"""Pages in a browser without a network: what is drawn, and what clicks and keys do.

At three sizes. Chromium is driven headless; without it these tests are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hlo
from hlo.reports.html import report_page
from tests.generators.layered import layered_module

pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.reports.conftest import first_paint

Open = Callable[[str], Any]
SIZES = [200, 3_000, 10_000]

# Nodes that overlap others, texts that stick out of their box, and edges that cross a node which
# they neither leave nor enter, as texts.
FAULTS = """
const faults = [];
const boxes = [...document.querySelectorAll("g.node")].map((node) =>
  ({ node, at: node.querySelector("rect").getBoundingClientRect(), key: node.dataset.key }));
const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1 ||
  a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
boxes.forEach((a, n) => boxes.slice(n + 1).forEach((b) => {
  if (!apart(a.at, b.at)) faults.push(`${a.key} overlaps ${b.key}`);
}));
for (const { node, at, key } of boxes) {
  for (const text of node.querySelectorAll("text")) {
    const own = text.getBoundingClientRect();
    if (own.left < at.left - 1 || own.right > at.right + 1 || own.bottom > at.bottom + 2) {
      faults.push(`${key}: ${text.textContent} sticks out`);
    }
  }
}
for (const path of document.querySelectorAll("path.edge")) {
  if (path.getClientRects().length === 0) continue;
  const head = path.getAttribute("marker-end")?.slice(5, -1);
  if (head && document.getElementById(head).closest("svg") !== path.closest("svg")) {
    faults.push(`the arrowhead ${head} is another drawing's`);
  }
  const length = path.getTotalLength(), matrix = path.getScreenCTM();
  const steps = Math.min(200, Math.ceil(length / 6));
  for (let n = 2; n < steps - 1; n++) {
    const point = path.getPointAtLength(length * n / steps).matrixTransform(matrix);
    const hit = boxes.find(({ at }) => point.x > at.left + 2 && point.x < at.right - 2 &&
      point.y > at.top + 2 && point.y < at.bottom - 2);
    if (hit !== undefined) { faults.push(`an edge crosses ${hit.key}`); break; }
  }
}
return faults;
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    folder = tmp_path_factory.mktemp("pages")
    written: dict[tuple[str, str], Path] = {}

    def page(text: str, passes: str) -> Path:
        if (text, passes) not in written:
            path = folder / f"{len(written)}.html"
            path.write_text(report_page(hlo.parse(text), passes=passes))
            written[text, passes] = path
        return written[text, passes]

    return page


@pytest.fixture
def opened(browser: Any, pages: Callable[[str, str], Path]) -> Iterator[Open]:
    def show(text: str, tab: str = "graph", passes: str = "") -> Any:
        browser.get("about:blank")
        browser.get(f"{pages(text, passes).as_uri()}#{tab}")
        return browser

    yield show
    assert browser.get_log("browser") == []


def _until(browser: Any, condition: str) -> None:
    WebDriverWait(browser, 20).until(lambda b: b.execute_script(f"return Boolean({condition})"))


def _text(browser: Any, selector: str) -> str:
    return str(browser.find_element(By.CSS_SELECTOR, selector).text)


def _node(browser: Any, title: str) -> Any:
    return browser.find_element(
        By.XPATH, f"//*[contains(@class,'node')]/*[text()='{title}']/ancestor::*[@data-key][1]"
    )


@pytest.mark.parametrize(
    ("size", "scopes"), [*((size, True) for size in SIZES), (SIZES[-1], False)]
)
def test_graphs_of_all_sizes_are_readable(opened: Open, size: int, scopes: bool) -> None:
    browser = opened(layered_module(size, scopes=scopes))
    count = browser.execute_script("return document.querySelectorAll('g.node').length")
    assert 5 <= count <= 60
    if not scopes:
        # A chain: no edge is for the zero that all reductions start from, it stands there.
        assert (
            browser.execute_script("return document.querySelectorAll('path.edge').length") < count
        )
    assert browser.execute_script(FAULTS) == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    if size <= 3_000:
        assert first_paint(browser) < 60_000, "milliseconds"
    if size == SIZES[0]:
        browser.find_element(By.XPATH, "//button[text()='Open level']").click()
        assert browser.execute_script("return document.querySelectorAll('g.open').length") > 3
        assert browser.execute_script(FAULTS) == []


@pytest.mark.parametrize("size", SIZES)
def test_search_opens_what_is_around_a_hit(opened: Open, size: int) -> None:
    browser = opened(layered_module(size))
    layer = (size - 20) // 15 - 1
    ActionChains(browser).send_keys("/").perform()
    field = browser.find_element(By.CSS_SELECTOR, ".search input")
    assert browser.switch_to.active_element == field
    field.send_keys(f"dot_general layer_{layer}/")
    assert _text(browser, ".count") == "2 found"
    field.send_keys(Keys.ENTER)
    assert _text(browser, ".count") == "1 of 2"
    assert _text(browser, ".details h3") == f"up{layer}"
    assert "/src/model.py" in _text(browser, ".details")
    at = browser.find_element(By.CSS_SELECTOR, "g.selected").rect
    assert 0 <= at["x"] <= 1060 and 90 <= at["y"] <= 900
    assert browser.execute_script(FAULTS) == []


def test_groups_open_and_close_by_click_and_by_key(opened: Open) -> None:
    browser = opened(layered_module(200))
    node = _node(browser, "layer_3")
    assert node.get_attribute("aria-expanded") == "false"
    before = browser.execute_script("return document.querySelectorAll('g.node').length")
    node.find_element(By.CSS_SELECTOR, ".toggle").click()
    opened_count = browser.execute_script("return document.querySelectorAll('g.node').length")
    assert opened_count > before
    selected = browser.find_element(By.CSS_SELECTOR, "g.selected")
    assert selected.get_attribute("aria-expanded") == "true"
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.execute_script("return document.querySelectorAll('g.node').length") == before
    ActionChains(browser).double_click(_node(browser, "layer_3")).perform()
    now = browser.execute_script("return document.querySelectorAll('g.node').length")
    assert now == opened_count
    browser.find_element(By.XPATH, "//button[text()='Close all']").click()
    assert browser.execute_script("return document.querySelectorAll('g.open').length") == 0


def test_what_a_loop_and_a_call_run_is_inside_them(opened: Open) -> None:
    browser = opened(layered_module(200))
    browser.find_element(By.CSS_SELECTOR, ".search input").send_keys("while", Keys.ENTER)
    browser.find_element(By.CSS_SELECTOR, "g.selected .toggle").click()
    inside = [e.text for e in browser.find_elements(By.CSS_SELECTOR, "g.node.computation text")]
    assert "condition: unfinished" in inside and "body: halve" in inside
    _node(browser, "body: halve").find_element(By.CSS_SELECTOR, ".toggle").click()
    assert "halve" in _text(browser, ".details h3")
    assert _node(browser, "multiply (·, 0.5)").is_displayed()
    field = browser.find_element(By.CSS_SELECTOR, ".search input")
    field.clear()
    field.send_keys("tanh scaled", Keys.ENTER)
    assert _text(browser, "g.selected text") == "tanh"
    assert browser.execute_script(FAULTS) == []


def test_the_mouse_marks_edges_and_shows_what_is_under_it(opened: Open) -> None:
    browser = opened(layered_module(200))
    assert not browser.find_elements(By.CSS_SELECTOR, "path.strong")
    ActionChains(browser).move_to_element(_node(browser, "layer_2")).perform()
    assert browser.find_elements(By.CSS_SELECTOR, "path.strong")
    tip = browser.find_element(By.CSS_SELECTOR, ".tip")
    assert tip.is_displayed() and "instructions" in tip.text


def test_keys_walk_along_edges_and_zoom(opened: Open) -> None:
    browser = opened(layered_module(200))
    ActionChains(browser).click(_node(browser, "layer_2")).perform()
    browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert _text(browser, ".details h3") == "layer_3"
    browser.switch_to.active_element.send_keys(Keys.ARROW_UP)
    assert _text(browser, ".details h3") == "layer_2"
    width = browser.find_element(By.CSS_SELECTOR, "g.selected rect").rect["width"]
    browser.switch_to.active_element.send_keys("+")
    assert browser.find_element(By.CSS_SELECTOR, "g.selected rect").rect["width"] > width


def test_the_table_sorts_filters_and_leads_to_the_graph(opened: Open) -> None:
    browser = opened(layered_module(10_000), "instructions")
    rows = browser.find_elements(By.CSS_SELECTOR, ".grid-row")
    assert 10 < len(rows) < 100, "only the rows in sight exist"
    field = browser.find_element(By.CSS_SELECTOR, "#instructions input.find")
    field.send_keys("rsqrt layer_77/")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".grid-row")) == 1
    browser.find_element(By.CSS_SELECTOR, ".grid-row").click()
    _until(browser, "document.querySelector('#graph g.selected') !== null")
    assert _text(browser, ".details h3") == "rs77"
    browser.find_element(By.XPATH, "//button[text()='Show in the table']").click()
    assert _text(browser, ".grid-row.chosen").split("\n")[1] == "rs77"
    browser.find_element(By.XPATH, "//*[@class='grid-head']/button[text()='name']").click()
    top = browser.execute_script(
        "const g = document.querySelector('.grid'); g.scrollTop = 0; return g.scrollTop"
    )
    _until(browser, "document.querySelector('.grid-row [role=gridcell]:nth-child(2)')"
                    ".textContent === 'a'")  # fmt: skip
    assert top == 0


def test_every_part_of_a_report_is_shown(opened: Open) -> None:
    browser = opened(layered_module(200), "summary", "default")
    assert "Instructions" in _text(browser, "#summary")
    for tab, words in (
        ("roofline", "arithmetic intensity"), ("memory", "live bytes"), ("passes", "before"),
        ("instructions", "FLOP"), ("graph", "Close all"),
    ):  # fmt: skip
        browser.find_element(By.ID, f"tab-{tab}").click()
        panel = browser.find_element(By.ID, tab)
        assert panel.is_displayed() and words in panel.text
        assert not browser.find_element(By.ID, "summary").is_displayed()
    select = browser.find_element(By.CSS_SELECTOR, "select[title=Module]")
    select.find_element(By.CSS_SELECTOR, "[value=optimized]").click()
    _until(browser, "document.querySelectorAll('.stage').length === 2")
    assert browser.execute_script(FAULTS) == []


def test_hostile_text_does_nothing(opened: Open) -> None:
    bad = "</script><img src=x onerror=document.title=1><b>"
    text = layered_module(200).replace("layer_3/", f"{bad}/")
    browser = opened(text)
    assert browser.title == "layered: report"
    assert not browser.find_elements(By.CSS_SELECTOR, "img")
