"""The settings of a command as its options, and what a user has set with them and in files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from accelify.settings import REWRITE, BadSetting, Section, Settings, Value, settings

Command = TypeVar("Command", bound=Callable[..., Any])

_RULES_OF_REWRITE = (
    click.option(
        "--select", multiple=True, metavar="RULE,...", help="Make only the changes of these rules.  [default: ALL]"
    ),
    click.option(
        "--ignore",
        multiple=True,
        metavar="RULE,...",
        help="Leave these rules out; a file whose migration needs one is declined.",
    ),
)
_RULES_OF_CHECK = (
    click.option("--select", multiple=True, metavar="RULE,...", help="Check these rules only.  [default: ALL]"),
    click.option("--ignore", multiple=True, metavar="RULE,...", help="Leave these rules out."),
)
_FILES = (
    click.option(
        "--per-file-ignores",
        multiple=True,
        metavar="PATTERN:RULE,...",
        help="Leave these rules out in the files that match the pattern.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="PATTERN,...",
        help="What to skip in folders, instead of build, dist, node_modules and the like.",
    ),
    click.option("--extend-exclude", multiple=True, metavar="PATTERN,...", help="What else to skip in folders."),
    click.option(
        "--force-exclude/--no-force-exclude", default=None, help="Skip excluded files even if they are named."
    ),
)
_OF_REWRITE = (
    click.option(
        "--follow/--no-follow",
        default=None,
        help="Also read, and change where it must, the project's own files that a script imports.  [default: follow]",
    ),
    click.option(
        "--keep-global-batch/--no-keep-global-batch",
        default=None,
        help="Divide each of the script's batches between the processes, so that its learning rate stays right.",
    ),
    click.option(
        "--runtime",
        type=click.Choice(["accelify", "accelerate"]),
        help="The library that migrated scripts import: accelify's own, or Accelerate.  [default: accelify]",
    ),
)
_OF_CHECK = (
    click.option(
        "--follow/--no-follow",
        default=None,
        help="Also read the project's own files that a script imports.  [default: follow]",
    ),
)
_WHERE = (
    click.option(
        "--config",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="Read the settings from this TOML file, instead of the nearest pyproject.toml.",
    ),
    click.option("--isolated", is_flag=True, help="Read no settings from files."),
)


def with_settings(command: Command) -> Command:
    """Give a command the options; it gets them as keyword arguments, to be handed to `settings_for`."""
    return _with((*_RULES_OF_REWRITE, *_FILES, *_OF_REWRITE, *_WHERE), command)


def with_check_settings(command: Command) -> Command:
    """The same for `accelify check`."""
    return _with((*_RULES_OF_CHECK, *_FILES, *_OF_CHECK, *_WHERE), command)


def _with(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def settings_for(paths: Sequence[str], given: Mapping[str, Any], section: Section = REWRITE) -> Settings:
    """What counts for a run over some paths; a mistake is said in a line, and ends the process with 2."""
    try:
        asked = dict(_asked(given, section))
        return settings(asked, paths, given["config"], isolated=given["isolated"], section=section)
    except BadSetting as error:
        click.echo(f"accelify: {error}", err=True)
        sys.exit(2)


def _asked(given: Mapping[str, Any], section: Section) -> list[tuple[str, Value]]:
    """What the command line sets, by the names of the keys."""
    found: list[tuple[str, Value]] = []
    for name, value in given.items():
        key = name.replace("_", "-")
        if key in ("config", "isolated") or value in (None, ()):
            continue
        try:
            if key in ("select", "ignore"):
                value = section.rules_from(value)
            elif key == "per-file-ignores":
                value = section.rules_of_files_from(value)
            elif isinstance(value, tuple):
                value = tuple(pattern for each in value for pattern in each.split(",") if pattern)
        except ValueError as error:
            raise BadSetting(f"--{key}", str(error)) from None
        found.append((key, value))
    return found
