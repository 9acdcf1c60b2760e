"""`accelify completion`: make a shell complete commands, options and files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_ACCELIFY_COMPLETE"
_COMPINIT = "#compdef accelify\n(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"


@click.command(short_help="Install or print shell completion for bash, zsh and fish.")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Install it for you, rather than printing it.")
def command(shell: str | None, install: bool) -> None:
    """Print the completion script of SHELL, or install it; without SHELL, that of the shell you use.

    \b
    accelify completion --install            once; then open a new shell
    eval "$(accelify completion bash)"       for this shell only
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        click.echo(f"accelify: cannot tell which shell this is: say `accelify completion {'|'.join(SHELLS)}`", err=True)
        sys.exit(2)
    script = _script(shell)
    if not install:
        click.echo(script)
        return
    try:
        _install(shell, script)
    except OSError as error:
        click.echo(f"accelify: {error.filename}: {(error.strerror or 'cannot be written').lower()}", err=True)
        sys.exit(2)


def _script(shell: str) -> str:
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    main = click.get_current_context().find_root().command
    script = kind(main, {}, "accelify", _VARIABLE).source().strip()
    return f"{_COMPINIT}\n{script}" if shell == "zsh" else script


def _install(shell: str, script: str) -> None:
    """Write the script where the shell finds it; bash and zsh are told so by one line of their start-up file."""
    home = Path.home()
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    if shell == "fish":
        _write(settings / "fish" / "completions" / "accelify.fish", script)
    else:
        path = settings / "accelify" / f"completion.{shell}"
        _write(path, script)
        _add_line(home / f".{shell}rc", f'source "{path}"  # completion of accelify')
    click.echo("Open a new shell to use it.")


def _write(path: Path, text: str) -> None:
    from accelify import atomic

    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, lambda file: file.write(f"{text}\n".encode()))
    click.echo(f"wrote {path}")


def _add_line(path: Path, line: str) -> None:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if line in text.splitlines():
        return
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n" if text.endswith("\n") or not text else f"\n{line}\n")
    click.echo(f"added a line to {path}")
