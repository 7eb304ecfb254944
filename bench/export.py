"""Write the programs that are timed as HLO text with their inputs.

python bench/export.py FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

from cases import CASES, export
from measure import save_inputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in CASES:
        text, leaves = export(name)
        (folder / f"{name}.hlo").write_text(text)
        save_inputs(str(folder / f"{name}.npz"), leaves)
        print(f"{name:28}{len(text):9} bytes  {CASES[name].about}")


if __name__ == "__main__":
    main()
