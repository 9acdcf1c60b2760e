"""The `accelify` command: a group that imports a command when it runs, so that `--version` and `--help` are quick.

To add a command: write `accelify/commands/<name>.py` with one click command called `command`, whose docstring is its
help, and give it a line in COMMANDS. Keep what is heavy (libcst, rich, torch) inside the function's body, so that
`accelify <name> --help` stays quick too, and end with `sys.exit(status)`: 0 done, 1 something is left for a person,
2 an error.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any  # what a command returns, which nobody reads

import click

from accelify import __version__

INTERRUPTED = 130  # 128 plus SIGINT, as shells count

# name -> what it does, in one line; in the order that `accelify --help` shows
COMMANDS = {
    "rewrite": "Migrate training scripts, or show and check what would change.",
    "check": "Find mistakes in scripts that run on many processes.",
    "explain": "Explain a rule: the name beside each line of a report.",
    "why": "Print what is known about a line, and why it changes or stays.",
    "launch": "Run a script on one process or many, on one machine or many.",
    "verify": "Prove by running that the migrated script trains the same model.",
    "config": "Ask how to launch this project, and save the answers.",
    "env": "Print versions, devices and settings, for a bug report.",
    "test": "Check that training on several processes works on this machine.",
    "completion": "Install or print shell completion for bash, zsh and fish.",
}


class Commands(click.Group):
    """The commands of COMMANDS, each imported from `accelify.commands` on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the table's order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"accelify.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; Ctrl-C ends it without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except click.Abort as error:  # what a question makes of Ctrl-C, and of the end of its input
            if isinstance(error.__context__, KeyboardInterrupt):
                sys.exit(INTERRUPTED)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant; an unknown one ends with the nearest name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from accelify.errors import did_you_mean

            hint = did_you_mean(args[0], COMMANDS)
            if hint == "." and (args[0].endswith((".py", ".ipynb")) or args[0] in (".", "-")):
                hint = f": to migrate it, say `accelify rewrite {args[0]}`."
            ctx.fail(f"No such command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Turn a plain PyTorch training script into one that runs on any number of devices.

    \b
    accelify rewrite train.py --diff    show what would change
    accelify rewrite train.py           change it
    """
