"""`hlo-lsp`: a language server for HLO text, on standard input and output."""

from __future__ import annotations

import importlib.util

import click

from ..command_line.common import Tool, common_options

_EXAMPLE = """
\b
Editors start it themselves; docs/editors.md says how to tell them:
  hlo-lsp                   serve one editor, by LSP on standard input and output
  hlo-lsp --log hlo.log     and write what goes wrong to a file
"""


@click.command(
    "hlo-lsp", cls=Tool, short_help="language server for HLO text",
    help="Serve an editor: diagnostics, hover, completion, navigation, renaming, formatting and "
    "more for HLO text, by the language server protocol on standard input and output.\n"
    + _EXAMPLE,
)  # fmt: skip
@click.option("--stdio", is_flag=True, help="Use standard input and output, the default.")
@click.option("--log", type=click.Path(dir_okay=False), metavar="FILE",
              help="Write a log of the connection to FILE.")  # fmt: skip
@common_options
def main(stdio: bool, log: str | None) -> int:
    from hlo.errors import HloError

    if importlib.util.find_spec("pygls") is None:
        raise HloError.at(
            "missing-extra", "hlo-lsp needs pygls, which is not installed", None,
            "pip install 'hlo-tools[lsp]'",
        )  # fmt: skip
    from .language_server import serve

    return serve(log)


if __name__ == "__main__":
    main()
