"""The version of the platform, which is part of the keys of JAX's persistent cache."""

from __future__ import annotations

import pytest

from hlo.pjrt.options import Options
from hlo.pjrt.topology import platform_version
from hlo.version import __version__


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(), ""),
        (Options(num_devices=8, platform="cpu", cache="/tmp/x"), ""),
        (Options(strict=True), " strict=True"),
        (Options(threads=2, passes="dce", tune=1.0), " threads=2 passes=dce tune=1.0"),
    ],
)
def test_it_names_the_options_that_programs_depend_on(options: Options, words: str) -> None:
    assert platform_version(options) == f"hlo-tools {__version__}{words}"
