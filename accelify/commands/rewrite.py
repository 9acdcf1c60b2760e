"""`accelify rewrite`: migrate scripts, or show and check what would change."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TextIO

import click

from accelify.codemod import batch
from accelify.codemod.batch import Batch
from accelify.codemod.files.diff import unified_diff
from accelify.codemod.files.source import decode
from accelify.codemod.result import FileResult, Status
from accelify.report import json, text
from accelify.report.colour import paint_for, painted_diff, plain
from accelify.report.progress import progress_bar

if TYPE_CHECKING:
    from accelify.codemod.rewrite import Options


@dataclass(frozen=True, slots=True)
class Mode:
    """What to do with the results: write them or not, and what to print where."""

    diff: bool
    check: bool
    json: bool
    stdin: bool

    @property
    def tentative(self) -> bool:
        """Whether to say only what would be."""
        return self.diff or self.check

    @property
    def writes(self) -> bool:
        """Whether files are changed."""
        return not (self.tentative or self.stdin)


@click.command(short_help="Migrate training scripts.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--diff", is_flag=True, help="Print the change as a diff, and write nothing.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option(
    "--follow/--no-follow",
    default=True,
    show_default=True,
    help="Also read, and change where it must, the project's own files that a script imports.",
)
@click.option(
    "--keep-global-batch",
    is_flag=True,
    help="Let all processes share the script's batch size, so that its learning rate stays right.",
)
@click.option(
    "--runtime",
    type=click.Choice(["accelify", "accelerate"]),
    default="accelify",
    show_default=True,
    help="The library that migrated scripts import: ours, or Hugging Face Accelerate.",
)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="With json, stdout gets one JSON document and nothing else.",
)
@click.option("--verify", is_flag=True, help="Run each script before and after, and change only what is proven.")
@click.option("--stdin-filename", default="-", metavar="NAME", help="What to call the script that `-` reads.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0, whatever became of the files.")
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), help="Processes for many files.  [default: one for each core]"
)
def command(
    paths: tuple[str, ...],
    diff: bool,
    check: bool,
    follow: bool,
    keep_global_batch: bool,
    runtime: str,
    output_format: str,
    verify: bool,
    stdin_filename: str,
    exit_zero: bool,
    jobs: int | None,
) -> None:
    """Migrate training scripts, in place.

    PATH is a script or a notebook; a folder, for those in it, apart from what .gitignore names, virtual environments
    and hidden folders; or `-`, to read a script on stdin and write it on stdout. A script is migrated whole, or left as
    it is with the reasons.

    \b
    Exit status:
      0  done, or nothing to do
      1  something is left for a person: a file was declined, or would change under --check
      2  an error: a file could not be read, parsed or written
    """
    from accelify.codemod.libraries.runtimes import RUNTIMES
    from accelify.codemod.rewrite import Options  # here, as `accelify rewrite --help` needs no parser

    if "-" in paths and len(paths) > 1:
        raise click.UsageError("`-` reads one script on stdin, so no other PATH can be given with it.")
    if verify and "-" in paths:
        raise click.UsageError("--verify runs the script, so it must be a file.")
    if verify and runtime != "accelify":
        raise click.UsageError("--verify runs scripts on accelify's own runtime only.")
    options = Options(follow=follow, keep_global_batch=keep_global_batch, runtime=RUNTIMES[runtime])
    mode = Mode(diff=diff, check=check, json=output_format == "json", stdin=paths == ("-",))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name or a reason that the terminal cannot show must not stop us
            stream.reconfigure(errors="backslashreplace")
    outcome = _rewritten(paths, stdin_filename, options, mode, jobs, verify)
    _print(outcome, mode)
    for traceback in outcome.tracebacks:
        click.echo(traceback, err=True)
    sys.exit(0 if exit_zero else _status(outcome.results(), mode))


def _rewritten(
    paths: tuple[str, ...], stdin_filename: str, options: Options, mode: Mode, jobs: int | None, verify: bool
) -> Batch:
    if mode.stdin:
        return batch.rewrite_stdin(stdin_filename, sys.stdin.buffer.read(), options)
    with progress_bar("Rewriting") as progress:
        rewritten = batch.rewrite_paths(paths, options, jobs, progress)
    if verify:
        from accelify.commands.verify import tell_progress  # here, as only --verify runs anything
        from accelify.verify.gate import keep_proven
        from accelify.verify.stopping import tidy_end

        with tidy_end():
            rewritten = replace(rewritten, programs=keep_proven(rewritten.programs, tell_progress()))
    return batch.write(rewritten) if mode.writes else rewritten


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
    if mode.json:
        sys.stdout.write(json.render(results))
        return
    if mode.diff:
        for result in results:
            _print_diff(result)
    elif mode.stdin and not mode.check:
        _print_script(results[0])
    said = sys.stderr if mode.diff or mode.stdin else sys.stdout
    sys.stdout.flush()
    for result, words in _said(outcome, mode, said):
        stream = sys.stderr if result.status is Status.ERROR else said
        stream.write(words)
        stream.flush()  # so that on a terminal the two streams keep their order
    if len(results) > 1:
        said.write(text.summary(results, _style(mode, said)))


def _said(outcome: Batch, mode: Mode, said: TextIO) -> Iterator[tuple[FileResult, str]]:
    """What to say of each file; an unchanged one is mentioned if it was named or something was noted in it."""
    for result in outcome.results():
        if result.status is Status.ERROR:
            yield result, text.render_error(result, _style(mode, sys.stderr))
        elif result.status is not Status.UNCHANGED or result.notes or outcome.only_named:
            yield result, text.render(result, _style(mode, said))


def _style(mode: Mode, stream: TextIO) -> text.Style:
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    return text.Style(tentative=mode.tentative, width=width, paint=paint_for(stream))


def _print_diff(result: FileResult) -> None:
    diff = unified_diff(result.path, result.before, result.after)
    paint = paint_for(sys.stdout)
    if paint is plain:
        sys.stdout.buffer.write(diff)  # bytes, for the patch to fit a file in any encoding
    elif diff:
        encoding = decode(result.before, result.path).encoding
        sys.stdout.write(painted_diff(diff.decode(encoding, "replace"), paint))


def _print_script(result: FileResult) -> None:
    """A filter passes on what it cannot improve, and prints nothing if it could not read it."""
    if result.status is not Status.ERROR:
        sys.stdout.buffer.write(result.after)
