"""Format files of HLO text: each result is canonical, and what is printed of them is as well.

    python -m tests.sweeps.format_texts FILE ...

`format_text` itself checks that the module stays what it is.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import hlo
from hlo.frontends.text.format import format_text


def problems(text: str) -> list[str]:
    """Return what is wrong with the formatting of a text, of one module or several."""
    found = []
    for part in re.split(r"^//\s*-{5,}\s*$", text, flags=re.M):
        try:
            module = hlo.parse(part)
        except hlo.HloError:
            continue
        result = format_text(part)
        if format_text(result) != result:
            found.append("a second time, it changes")
        for options in (hlo.PrintOptions(), hlo.PrintOptions.short_parsable()):
            printed = hlo.print_module(module, options)
            if format_text(printed) != printed:
                found.append("what is printed of it changes")
    return found


def main() -> int:
    failed = 0
    for path in sys.argv[1:]:
        for problem in problems(Path(path).read_text()):
            print(f"{path}: {problem}")
            failed += 1
    print(f"{len(sys.argv) - 1} files, {failed} problems")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
