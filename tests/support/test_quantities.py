"""Quantities with units and settings, as command lines spell them."""

from __future__ import annotations

import pytest

from hlo.errors import HloError
from hlo.support.quantities import quantity_text, read_positive, read_quantity, read_settings


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("50GB/s", "B/s", 50e9), ("50G", "B/s", 50e9), ("50e9", "B/s", 5e10), ("2us", "s", 2e-6),
        ("2u", "s", 2e-6), ("0", "s", 0.0), ("1.5 s", "s", 1.5), ("3ms", "s", 3e-3),
        ("1GiB/s", "B/s", 2.0**30), (".5TFLOP/s", "FLOP/s", 5e11),
    ],
)  # fmt: skip
def test_units_and_prefixes(text: str, unit: str, value: float) -> None:
    assert read_quantity(text, unit, "x") == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "fast", "-1", "2us", "5 GB", "GB/s", "1 2", "nan"])
def test_what_is_no_bandwidth(text: str) -> None:
    with pytest.raises(HloError, match=r"--network: bandwidth: .* is not a number of B/s"):
        read_quantity(text, "B/s", "--network: bandwidth")


@pytest.mark.parametrize("text", ["1e308s", "1e999", "1e-300", "1e30k"])
def test_beyond_any_machine(text: str) -> None:
    with pytest.raises(HloError, match=r"overhead: .* is beyond any machine"):
        read_quantity(text, "s", "overhead")


def test_zero_where_it_has_to_be_more() -> None:
    with pytest.raises(HloError, match="more than 0 B/s"):
        read_positive("0", "B/s", "bandwidth")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 s"), (1.234567, "1.235 s"), (0.99996, "1 s"), (2e-6, "2 us"), (4.5e-11, "0.045 ns"),
     (12345, "12.35 ks")],
)  # fmt: skip
def test_text(value: float, text: str) -> None:
    assert quantity_text(value, "s") == text


def test_settings() -> None:
    known = {"link_latency": "", "devices": ""}
    assert read_settings("devices=4, link-latency=1us", "--x", known) == {
        "devices": "4", "link_latency": "1us",
    }  # fmt: skip
    for text, message in [
        ("device=4", "--x: unknown setting device"), ("devices", "is not NAME=VALUE"),
        ("devices=", "is not NAME=VALUE"), ("devices=1,devices=2", "devices is given twice"),
    ]:  # fmt: skip
        with pytest.raises(HloError, match=message):
            read_settings(text, "--x", known)
