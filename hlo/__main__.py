"""`python -m hlo COMMAND ...`: the commands by their names without `hlo-`."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution


def commands() -> dict[str, EntryPoint]:
    """Return the commands that are installed with this package, by name without `hlo-`."""
    try:
        scripts = distribution("hlo-tools").entry_points.select(group="console_scripts")
    except PackageNotFoundError:
        return {}
    return {script.name.removeprefix("hlo-"): script for script in sorted(scripts)}


def main() -> None:
    """Run the command that the first argument names on the others. Exits as it does."""
    found = commands()
    match sys.argv[1:]:
        case [name, *rest] if name in found:
            found[name].load()(rest)
        case ["-h" | "--help"]:
            print(f"Usage: python -m hlo COMMAND ...\n\nCommands: {', '.join(found)}")
        case [name, *_]:
            sys.exit(_usage(f"no command {name!r}", list(found)))
        case _:
            sys.exit(_usage("a command is missing", list(found)))


def _usage(problem: str, names: list[str]) -> int:
    known = f"one of {', '.join(names)}" if names else "none: hlo-tools is not installed"
    print(f"python -m hlo: {problem}; there is {known}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
