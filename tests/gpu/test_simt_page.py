"""`docs/simt.md` says the truth: its example fails as it says, and with the barrier it does not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from hlo.errors import HloError
from tests.harness.paths import ROOT

_BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "docs/simt.md").read_text(), re.M | re.S)
[_CODE] = [text for language, text in _BLOCKS if language == "python"]
_ERROR, _REPORT = (text.strip() for language, text in _BLOCKS if language == "text")


def test_the_example_without_a_barrier() -> None:
    with pytest.raises(HloError) as caught:
        exec(_CODE, {})
    assert str(caught.value) == _ERROR


def test_the_example_with_a_barrier() -> None:
    names: dict[str, Any] = {}
    exec(_CODE.replace("// bar.sync", "bar.sync"), names)
    data = np.empty(4096, np.uint8)
    names["device"].read(names["target"], data)
    assert (data.view(np.float32).reshape(32, 32) == names["x"].reshape(32, 32).T).all()
    assert str(names["device"].report) == _REPORT
