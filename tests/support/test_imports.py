"""What is made once is old for the cycle collector at once."""

from __future__ import annotations

import gc

import pytest

from hlo.support.imports import first_import, lasting


@pytest.fixture(autouse=True)
def thawed() -> object:
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.enable()


def test_what_lasts_is_in_no_young_generation() -> None:
    with lasting():
        assert not gc.isenabled()
        made = [[] for _ in range(1000)]
    assert gc.isenabled()
    young = {id(x) for n in (0, 1) for x in gc.get_objects(n)}
    assert young.isdisjoint(map(id, made))
    assert gc.get_freeze_count() == 0


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    with lasting():
        pass
    assert not gc.isenabled()


def test_what_others_have_frozen_stays_frozen() -> None:
    gc.freeze()
    with lasting():
        pass
    assert gc.get_freeze_count() > 0


def test_what_is_imported_needs_no_care() -> None:
    with first_import("gc"):
        assert gc.isenabled()
    with first_import("no_such_module"):
        assert not gc.isenabled()
