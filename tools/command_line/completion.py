"""Completion of a command's words in bash, zsh and fish."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

_SHELLS = ("bash", "zsh", "fish")
# zsh knows `compdef` only after this.
_ZSH_START = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"


class FileName(click.types.StringParamType):
    """The name of a file, which a shell can complete."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


def complete_files(command: click.Command) -> None:
    """Have the options and arguments of a command that name files completed as such."""
    for param in command.params:
        metavar = param.metavar or param.human_readable_name.upper()
        if type(param.type) is click.types.StringParamType and re.search(
            r"\b(?:FILE|OUT|IN|DIR|PATH|SPEC)\b", metavar
        ):
            param.type = FileName()


def _variable(command: str) -> str:
    return f"_{command.replace('-', '_').upper()}_COMPLETE"


def answer_shell(command: click.Command) -> int | None:
    """Answer a shell that asks for a script or for words, by click's protocol.

    Returns the exit code, or None if no shell asks.
    """
    assert command.name is not None
    asked = os.environ.get(_variable(command.name))
    if not asked:
        return None
    return shell_complete(command, {}, command.name, _variable(command.name), asked)


def install(command: click.Command, shell: str) -> str:
    """Have a shell of the user complete a command from its next start on; returns what was done.

    shell: bash, zsh, fish, or `auto` for the user's own. The script is a file of its own; bash and
    zsh get a line in their start-up file that reads it, once. Raises HloError for another shell,
    and where a file cannot be written.
    """
    from hlo.errors import HloError
    from hlo.io.files import make_folder, read_bytes, write_files

    if shell == "auto":
        shell = Path(os.environ.get("SHELL", "")).name
    if shell not in _SHELLS:
        message = f"completion is for {', '.join(_SHELLS)}; the shell is {shell or 'not known'}"
        hint = "name the shell, as in --install-completion=bash"
        raise HloError.at("bad-value", message, None, hint)
    name = command.name
    assert name is not None
    maker = get_completion_class(shell)
    assert maker is not None
    script = maker(command, {}, name, _variable(name)).source()
    home = Path.home()
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        place, start = config / "fish" / "completions" / f"{name}.fish", None
    else:
        data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
        place = data / "hlo-tools" / f"{name}.{shell}"
        start = Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
        start = start if shell == "zsh" else home / ".bashrc"
        script = _ZSH_START + script if shell == "zsh" else script
    make_folder(place.parent)
    write_files({str(place): script.encode()})
    if start is not None:
        quoted = shlex.quote(str(place))
        line = f"[ -f {quoted} ] && . {quoted}\n".encode()
        text = read_bytes(start) if start.exists() else b""
        if line not in text:
            gap = b"\n" if text and not text.endswith(b"\n") else b""
            write_files({str(start): text + gap + line})
    return f"{place} completes {name} in {shell}, from the next shell on"


def install_option(command: Any) -> Any:
    """Add `--install-completion` to a command."""

    def run(context: click.Context, _: click.Parameter, shell: str | None) -> None:
        if shell is not None:
            click.echo(install(context.command, shell))
            context.exit()

    return click.option(
        "--install-completion", metavar="[SHELL]", is_flag=False, flag_value="auto",
        expose_value=False, is_eager=True, callback=run,
        help="Set up completion for bash, zsh or fish; by default for the current shell.",
    )(command)  # fmt: skip
