"""The options of commands that report on many files: in which format, into which file, with how many processes."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from accelify.codemod.files.discover import is_folder

Command = TypeVar("Command", bound=Callable[..., Any])
FORMATS = ("text", "json", "sarif", "github")

output_file = click.option(
    "-o",
    "--output-file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Write the report into this file.",
)
jobs = click.option(
    "-j", "--jobs", type=click.IntRange(min=1), help="Processes for many files.  [default: one for each core]"
)


def output_format(explanation: str) -> Callable[[Command], Command]:
    """The option for one of FORMATS."""
    return click.option(
        "--output-format", type=click.Choice(FORMATS), default="text", show_default=True, help=explanation
    )


def prepare_output(file: Path | None) -> None:
    """Let the terminal show any name and any reason; a file in no folder is an error of the command line."""
    if file is not None and not is_folder(str(file.parent)):
        raise click.BadParameter(f"{file.parent} is no folder to write into", param_hint="--output-file")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what the terminal cannot show must not stop us
            stream.reconfigure(errors="backslashreplace")
