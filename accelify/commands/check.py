"""`accelify check`: find what goes wrong where a script runs on many processes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from accelify import atomic
from accelify.codemod import batch
from accelify.codemod.batch import Batch
from accelify.codemod.result import FileResult, Status
from accelify.commands import output_options
from accelify.commands.setting_options import settings_for, with_check_settings
from accelify.report import checks, github, json, sarif
from accelify.report.colour import paint_for, plain
from accelify.report.progress import progress_bar
from accelify.report.statistics import as_json, as_text, statistics
from accelify.settings import CHECK, Settings


@click.command(short_help="Find mistakes in scripts that run on many processes.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--fix", is_flag=True, help="Fix what can be fixed safely.")
@with_check_settings
@output_options.output_format("json for programs, sarif for code scanning, github for workflows.")
@output_options.output_file
@click.option("-q", "--quiet", is_flag=True, help="Print findings and errors only.")
@click.option("--statistics", is_flag=True, help="Print counts by rule, instead of the findings.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0, whatever was found.")
@click.option("--stdin-filename", default="-", metavar="NAME", help="What to call the script that `-` reads.")
@output_options.jobs
def command(
    paths: tuple[str, ...],
    fix: bool,
    output_format: str,
    output_file: Path | None,
    quiet: bool,
    statistics: bool,
    exit_zero: bool,
    stdin_filename: str,
    jobs: int | None,
    **given: Any,
) -> None:
    """Check scripts that run on many processes: with accelify, with Accelerate, or with torch.distributed.

    PATH is a script, a notebook, or a folder; or `-`, to read a script on stdin. Files that use none of these libraries
    are passed over. Settings come from here, and from [tool.accelify.check] in the nearest pyproject.toml. `accelify
    explain RULE` says what a rule finds and why.

    \b
    Exit status:
      0  nothing was found
      1  something was found
      2  an error: a file could not be read or parsed
    """
    if "-" in paths and (len(paths) > 1 or fix):
        raise click.UsageError("`-` reads one script on stdin, so neither another PATH nor --fix can be given with it.")
    settings = settings_for([stdin_filename] if "-" in paths else paths, given, CHECK)
    output_options.prepare_output(output_file)
    fixed = _fix(paths, settings, jobs) if fix else 0
    outcome = _on_stdin(stdin_filename, settings) if "-" in paths else _checked(paths, settings, jobs, fix=False)
    results = outcome.results()
    _print(outcome, output_format, output_file, fixed, quiet=quiet, counted=statistics)
    for traceback in outcome.tracebacks:
        click.echo(traceback, err=True)
    sys.exit(0 if exit_zero else _status(results))


def _checked(paths: Sequence[str], settings: Settings, jobs: int | None, *, fix: bool) -> Batch:
    from accelify.codemod.check import CheckOptions  # here, so that `--help` is quick

    options = CheckOptions(settings.selection(), settings.follow)
    with progress_bar("Checking") as progress:
        return batch.check_paths(paths, options, jobs, progress, settings.exclusion(), fix=fix)


def _on_stdin(name: str, settings: Settings) -> Batch:
    from accelify.codemod.check import CheckOptions  # here, so that `--help` is quick

    options = CheckOptions(settings.selection())
    return batch.check_stdin(name, sys.stdin.buffer.read(), options, settings.exclusion())


def _fix(paths: Sequence[str], settings: Settings, jobs: int | None) -> int:
    """How many problems were fixed."""
    written = batch.write(_checked(paths, settings, jobs, fix=True)).results()
    return sum(len(result.changes) for result in written if result.status is Status.MIGRATED)


def _status(results: Sequence[FileResult]) -> int:
    if any(result.status is Status.ERROR for result in results):
        return 2
    return int(any(result.notes for result in results))


def _print(outcome: Batch, form: str, file: Path | None, fixed: int, *, quiet: bool, counted: bool) -> None:
    results = outcome.results()
    paint = plain if file is not None else paint_for(sys.stdout)
    if form == "text":
        said = [(False, as_text(statistics(results), "problems"))] if counted else list(checks.lines(results, paint))
        if not quiet:
            said += [(False, f"{r.path}: {r.because}\n") for r in results if outcome.only_named and r.because]
            said.append((False, checks.summary(results, fixed)))
    elif form == "github":
        said = [(False, github.render(results, tentative=False))]
    elif form == "sarif":
        from accelify.codemod.checks import pages  # here, as no other format describes the rules

        said = [(False, sarif.render(results, pages(), tentative=False))]
    else:
        counts = as_json(statistics(results)) if counted else None
        said = [(False, json.render(results, written=bool(fixed), statistics=counts))]
    if file is not None:
        data = "".join(words for _, words in said).encode("utf-8", "backslashreplace")
        atomic.write(file, lambda stream: stream.write(data))
        return
    for is_error, words in said:
        click.echo(words, nl=False, err=is_error)
