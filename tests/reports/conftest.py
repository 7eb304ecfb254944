"""A browser for the tests of pages; without one they are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def first_paint(browser: Any) -> float:
    """Return when the page that is open was first seen, in milliseconds after it was asked for."""
    from selenium.webdriver.support.ui import WebDriverWait

    return float(WebDriverWait(browser, 20).until(lambda b: b.execute_script(PAINT)))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window and without a network."""
    webdriver = pytest.importorskip("selenium.webdriver")
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium or chromedriver is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1400,900",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--proxy-server=127.0.0.1:9",
    ):
        options.add_argument(argument)  # fmt: skip
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(driver)
    started = webdriver.Chrome(options=options, service=service)
    yield started
    started.quit()
