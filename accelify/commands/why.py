"""`accelify why`: the facts behind a line."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from accelify.commands.setting_options import settings_for, with_settings


@click.command(short_help="Print what is known of a line, and why it changes or stays.")
@click.argument("place", metavar="FILE[:CELL]:LINE")
@with_settings
def command(place: str, **given: Any) -> None:
    """Print what the rewriter does at FILE:LINE, or NOTEBOOK:CELL:LINE, and what it knows of the names there."""
    from accelify.codemod.why import why
    from accelify.errors import FileError

    found = re.fullmatch(r"(.+?)(?::(?:cell )?(\d+))?(?::|, line )(\d+)", place)
    if found is None:
        click.echo(f"accelify: {place} is no FILE:LINE: name a line, such as {place}:40", err=True)
        sys.exit(2)
    try:
        path, cell, line = found.groups()
        options = settings_for([path], given).options()
        facts = list(why(path, int(line), options, int(cell) if cell else None))
    except FileError as error:
        click.echo(f"{error.path}: error: {error.reason}", err=True)
        sys.exit(2)
    for fact in facts or ["nothing on this line matters to a migration"]:
        click.echo(fact)
