"""`accelify rewrite`: migrate scripts, or show and check what would change."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import click

from accelify import atomic
from accelify.codemod import batch
from accelify.codemod.batch import Batch
from accelify.codemod.cache import FOLDER, Cache
from accelify.codemod.files.diff import unified_diff
from accelify.codemod.files.source import decode
from accelify.codemod.options import ACCELIFY
from accelify.codemod.result import FileResult, Status
from accelify.commands import output_options
from accelify.commands.setting_options import settings_for, with_settings
from accelify.report import github, json, sarif, text
from accelify.report.colour import paint_for, painted_diff, plain
from accelify.report.progress import progress_bar
from accelify.report.statistics import as_json, as_text, statistics
from accelify.settings import Settings

FEW = 10  # files of which all is said without asking


@dataclass(frozen=True, slots=True)
class Mode:
    """What to do with the results: write them or not, and what to print where.

    verbose: say all of each file, though there are many, and what is right as it stands.
    """

    diff: bool
    check: bool
    stdin: bool
    format: str = "text"
    file: Path | None = None
    verbose: bool = False
    quiet: bool = False
    statistics: bool = False

    @property
    def tentative(self) -> bool:
        """Whether to say only what would be."""
        return self.diff or self.check

    @property
    def writes(self) -> bool:
        """Whether files are changed."""
        return not (self.tentative or self.stdin)

    @property
    def stream(self) -> TextIO:
        """Where the text goes."""
        return sys.stderr if self.diff or self.stdin else sys.stdout


@click.command(short_help="Migrate training scripts.")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--diff", is_flag=True, help="Print the change as a diff, and write nothing.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@with_settings
@click.option("--show-settings", is_flag=True, help="Print the settings and where each comes from, and exit.")
@output_options.output_format(
    "json for programs, sarif for code scanning, github for workflows; with these, stdout has nothing else."
)
@output_options.output_file
@click.option(
    "-q", "--quiet", is_flag=True, help="Report only what needs your attention: reasons for declining, notes, errors."
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help=f"Report every change of every file, even of more than {FEW}, and the moves that stay.",
)
@click.option("--statistics", is_flag=True, help="Print counts by rule, instead of the report.")
@click.option("-n", "--no-cache", is_flag=True, help="Neither read nor keep results of earlier runs.")
@click.option(
    "--cache-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="ACCELIFY_CACHE_DIR",
    metavar="DIR",
    help="Where to keep these results.  [default: .accelify_cache beside pyproject.toml, or at the repository's top]",
)
@click.option(
    "--verify",
    is_flag=True,
    help="Run each script before and after, and write only migrations that train the same model.",
)
@click.option("--stdin-filename", default="-", metavar="NAME", help="What to call the script that `-` reads.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0, whatever became of the files.")
@output_options.jobs
def command(
    paths: tuple[str, ...],
    diff: bool,
    check: bool,
    show_settings: bool,
    output_format: str,
    output_file: Path | None,
    quiet: bool,
    verbose: bool,
    statistics: bool,
    no_cache: bool,
    cache_dir: Path | None,
    verify: bool,
    stdin_filename: str,
    exit_zero: bool,
    jobs: int | None,
    **given: Any,
) -> None:
    """Migrate training scripts, in place.

    PATH is a script, a notebook, a folder, or `-` to read a script on stdin and write it to stdout. In a folder, all
    scripts and notebooks are read, except hidden folders, virtual environments, and what .gitignore names. A script is
    migrated completely, or left as it is, with the reasons. Settings come from the options below and from
    [tool.accelify.rewrite] in the nearest pyproject.toml.

    \b
    Exit status:
      0  done, or nothing to do
      1  a file was declined, or would change under --check
      2  an error: a file could not be read, parsed or written
    """
    if not paths and not show_settings:
        raise click.UsageError("Missing argument 'PATH...': name a script, a notebook or a folder; `.` is this one.")
    if "-" in paths and len(paths) > 1:
        raise click.UsageError("`-` reads one script on stdin, so no other PATH can be given with it.")
    if verify and "-" in paths:
        raise click.UsageError("--verify runs the script, so it must be a file.")
    settings = settings_for([stdin_filename] if "-" in paths else paths, given)
    if show_settings:
        click.echo("\n".join(settings.lines()))
        return
    if verify and settings.options().runtime is not ACCELIFY:
        raise click.UsageError("--verify runs scripts on accelify's own runtime only.")
    output_options.prepare_output(output_file)
    mode = Mode(diff, check, paths == ("-",), output_format, output_file, verbose, quiet, statistics)
    cache = Cache(None if no_cache else cache_dir or settings.folder(paths) / FOLDER)
    if mode.stdin:
        data = sys.stdin.buffer.read()
        outcome = batch.rewrite_stdin(stdin_filename, data, settings.options(), settings.exclusion())
    else:
        outcome = _rewritten(paths, settings, cache, jobs, verify)
        outcome = batch.write(outcome) if mode.writes else outcome
    _print(outcome, mode)
    for traceback in outcome.tracebacks:
        click.echo(traceback, err=True)
    sys.exit(0 if exit_zero else _status(outcome.results(), mode))


def _rewritten(paths: tuple[str, ...], settings: Settings, cache: Cache, jobs: int | None, verify: bool) -> Batch:
    with progress_bar("Rewriting") as progress:
        rewritten = batch.rewrite_paths(paths, settings.options(), jobs, progress, settings.exclusion(), cache)
    if verify:
        from accelify.commands.verify import tell_progress  # here, as only --verify runs anything
        from accelify.verify.gate import keep_proven
        from accelify.verify.stopping import tidy_end

        with tidy_end():
            rewritten = replace(rewritten, programs=keep_proven(rewritten.programs, tell_progress()))
    return rewritten


def _status(results: Sequence[FileResult], mode: Mode) -> int:
    found = {result.status for result in results}
    if Status.ERROR in found:
        return 2
    return int(Status.DECLINED in found or (mode.check and Status.MIGRATED in found))


def _print(outcome: Batch, mode: Mode) -> None:
    """The report, and the diffs or the script from stdin where they were asked for.

    A diff or a script has stdout to itself, so that it can be piped; what is said about it then goes to stderr.
    """
    results = outcome.results()
    if mode.format == "text" or mode.file is not None:
        for result in results if mode.diff else ():
            _print_diff(result)
        if mode.stdin and not mode.tentative:
            _print_script(results[0])
    sys.stdout.flush()
    if mode.file is not None:
        is_text = mode.format == "text"
        report = "".join(words for _, words in _said(outcome, mode)) if is_text else _machine_report(results, mode)
        data = report.encode("utf-8", "backslashreplace")
        atomic.write(mode.file, lambda file: file.write(data))
    elif mode.format != "text":
        sys.stdout.write(_machine_report(results, mode))
    else:
        for is_error, words in _said(outcome, mode):
            stream = sys.stderr if is_error else mode.stream
            stream.write(words)
            stream.flush()  # so that on a terminal the two streams keep their order


def _machine_report(results: Sequence[FileResult], mode: Mode) -> str:
    """The report in one of the formats that other programs read."""
    if mode.format == "github":
        return github.render(results, tentative=not mode.writes)
    if mode.format == "sarif":
        from accelify.codemod.rules import pages  # here, as no other format describes the rules

        return sarif.render(results, pages(), tentative=not mode.writes)
    diffs = {r.path: _diff_text(r) for r in results} if mode.diff else None
    counts = as_json(statistics(results)) if mode.statistics else None
    return json.render(results, written=mode.writes, diffs=diffs, statistics=counts)


def _said(outcome: Batch, mode: Mode) -> Iterator[tuple[bool, str]]:
    """The pieces of the text, each with whether it is of a file that failed.

    An unchanged file is mentioned if it was named or something was noted in it.
    """
    results = outcome.results()
    told = [r for r in results if _is_reported(r, mode, only_named=outcome.only_named)]
    is_long = mode.verbose or len(told) <= FEW
    style = _style(mode)
    for result in told:
        if result.status is Status.ERROR:
            yield True, text.render_error(result, style)
        elif not mode.statistics:
            yield False, (text.render if is_long else text.line)(result, style)
    if mode.statistics:
        yield False, as_text(statistics(results))
    if len(results) != 1 and not mode.quiet:
        hint = "" if is_long or mode.statistics else " `-v` shows all changes and notes."
        yield False, text.summary(results, style).replace("\n", f"{hint}\n")


def _is_reported(result: FileResult, mode: Mode, *, only_named: bool) -> bool:
    if result.status is Status.MIGRATED:
        return bool(result.notes) or not mode.quiet
    if result.status is Status.UNCHANGED:
        return bool(result.notes) or (only_named and not mode.quiet)
    return True


def _style(mode: Mode) -> text.Style:
    stream = mode.stream
    if mode.file is not None:
        return text.Style(tentative=mode.tentative, quiet=mode.quiet, verbose=mode.verbose)
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    paint = paint_for(stream)
    return text.Style(tentative=mode.tentative, quiet=mode.quiet, verbose=mode.verbose, width=width, paint=paint)


def _diff_text(result: FileResult) -> str:
    diff = unified_diff(result.path, result.before, result.after)
    return diff.decode(decode(result.before, result.path).encoding, "replace") if diff else ""


def _print_diff(result: FileResult) -> None:
    diff = unified_diff(result.path, result.before, result.after)
    paint = paint_for(sys.stdout)
    if paint is plain:
        sys.stdout.buffer.write(diff)  # bytes, for the patch to fit a file in any encoding
    elif diff:
        sys.stdout.write(painted_diff(_diff_text(result), paint))


def _print_script(result: FileResult) -> None:
    """A filter passes on what it cannot improve, and prints nothing if it could not read it."""
    if result.status is not Status.ERROR:
        sys.stdout.buffer.write(result.after)
