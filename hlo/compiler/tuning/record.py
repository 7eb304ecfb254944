"""What measuring has found, as a file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hlo.codegen.choices import Choices
from hlo.errors import HloError
from hlo.io.files import named_file, reason_of, write_files
from hlo.runtime.cache import digest

VERSION = 1


@dataclass(frozen=True)
class Tuning:
    """The fastest way at each site that was measured, by the names of `hlo.codegen.choices`.

    processor: where it was measured. Elsewhere it gives the same results, only maybe slower. Sites
    that a module does not have, and ways that a machine does not have, do nothing.
    """

    processor: str
    choices: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", dict(sorted(self.choices.items())))

    @property
    def key(self) -> str:
        """What is different for choices that are."""
        return digest(text.encode() for pair in self.choices.items() for text in pair)

    def taken(self) -> Choices:
        """Return what code generation is told."""
        return Choices(self.choices)

    def merged(self, newer: Tuning) -> Tuning:
        """Return both; what is in both is as in the newer one."""
        return Tuning(newer.processor, {**self.choices, **newer.choices})

    def save(self, path: str | Path) -> None:
        """Write a file that `hlo.compile(tune=path)` and `hlo-compile --tuning` take."""
        write_files({str(path): self.to_json().encode()})

    def to_json(self) -> str:
        found = {"version": VERSION, "processor": self.processor, "choices": self.choices}
        return json.dumps(found, indent=1) + "\n"


def read_tuning(path: str | Path) -> Tuning:
    """Return what a file contains. Raises HloError, code `bad-file`."""
    try:
        text = Path(named_file(path)).read_text()
    except OSError as e:
        raise HloError.at("bad-file", f"{path}: {reason_of(e)}") from None
    except UnicodeDecodeError:
        raise HloError.at("bad-file", f"{path}: not a tuning file: it is not text") from None
    return tuning_of(text, str(path))


def tuning_of(text: str, name: str) -> Tuning:
    """Return what the text of a file says. name: of the file. Raises HloError, code `bad-file`."""

    def bad(reason: str) -> HloError:
        return HloError.at("bad-file", f"{name}: not a tuning file: {reason}")

    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as e:
        raise bad(str(e) if isinstance(e, ValueError) else "it is nested too deeply") from None
    if not isinstance(found, dict):
        raise bad("it is no JSON object")
    if found.get("version") != VERSION:
        raise bad(f"its version is {found.get('version')!r}, not {VERSION}")
    processor: Any = found.get("processor")
    choices: Any = found.get("choices")
    if not isinstance(processor, str):
        raise bad("`processor` is not a string")
    if not isinstance(choices, dict) or not all(isinstance(v, str) for v in choices.values()):
        raise bad("`choices` is not an object of texts")
    return Tuning(processor, choices)


def kept(path: Path, processor: str) -> Tuning:
    """Return what `keep` wrote; nothing is known where that cannot be read."""
    try:
        return tuning_of(path.read_text(), str(path))
    except (OSError, ValueError, HloError):
        return Tuning(processor)


def keep(path: Path, tuning: Tuning) -> None:
    """Write a file, if that is possible, with what other processes have found meanwhile.

    Where it cannot be written it is measured again the next time.
    """
    with contextlib.suppress(OSError, HloError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        merged = kept(path, tuning.processor).merged(tuning)
        write_files({str(path): merged.to_json().encode()})
