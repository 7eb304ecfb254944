"""Write man pages and completion scripts of the commands under a folder, as in /usr/share."""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import Path

from click.shell_completion import get_completion_class
from click_man.core import write_man_pages

_SCRIPTS = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/site-functions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}


def main(folder: Path) -> None:
    package = distribution("hlo-tools")
    pages = folder / "man" / "man1"
    pages.mkdir(parents=True, exist_ok=True)
    for entry in package.entry_points.select(group="console_scripts"):
        name, command = entry.name, entry.load()
        write_man_pages(name, command, version=package.version, target_dir=str(pages))
        variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
        for shell, place in _SCRIPTS.items():
            maker = get_completion_class(shell)
            assert maker is not None
            path = folder / place.format(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(maker(command, {}, name, variable).source())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
