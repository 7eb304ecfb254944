"""The page of the commands: what `--help` says of each, with a link for each option.

A directive for Sphinx; `page` returns the text in Markdown.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def installed() -> dict[str, click.Command]:
    """Return the commands of this package by name."""
    scripts = distribution("hlo-tools").entry_points.select(group="console_scripts")
    return {script.name: script.load() for script in sorted(scripts)}


def page() -> str:
    """Return the sections of all commands."""
    return "\n".join("\n".join(_section(name, c)) for name, c in installed().items())


def _section(name: str, command: click.Command) -> Iterator[str]:
    yield f"## {name}\n"
    with click.Context(command, info_name=name) as context:
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"```console\n$ {name} {usage}\n```\n"
        yield from _description(command)
        yield "| option | meaning |\n|---|---|"
        for param in command.get_params(context):
            record = param.get_help_record(context)
            if record is not None and isinstance(param, click.Option):
                names, meaning = record
                yield f"| {_anchor(name, param)}`` {_cell(names)} `` | {_escaped(meaning)} |"
        yield ""


def _description(command: click.Command) -> Iterator[str]:
    """Yield the paragraphs of a command's docstring, its examples as a console block."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.lstrip().startswith("\b"):
            heading, *lines = paragraph.lstrip("\b\n ").split("\n")
            shown = "\n".join(f"$ {line.strip()}" for line in lines)
            yield f"{heading.strip()}\n\n```console\n{shown}\n```\n"
        else:
            yield f"{_escaped(paragraph)}\n"


def _anchor(command: str, param: click.Option) -> str:
    name = max(param.opts, key=len).lstrip("-")
    return f'<a id="{command}-{name}"></a>'


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Return plain text as Markdown: what it would read as markup stands for itself."""
    parts = re.split(r"(`[^`\n]+`)", text)
    return "".join(
        p if n % 2 else re.sub(r"([\\*_{}\[\]<>|#~$])", r"\\\1", p) for n, p in enumerate(parts)
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive, which stands for the sections of all commands."""
    from sphinx.util.docutils import SphinxDirective

    class Commands(SphinxDirective):
        def run(self) -> list[Any]:
            return self.parse_text_to_nodes(page(), allow_section_headings=True)

    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
