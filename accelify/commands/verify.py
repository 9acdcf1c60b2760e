"""`accelify verify`: prove by running that a migrated script still trains the same model."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

SECONDS = click.FloatRange(0, min_open=True)
STEPS = "Optimizer steps to compare.  [default: 20, and on to an evaluation, a checkpoint, the end of an epoch]"
OPTIONS = {"allow_interspersed_args": False}  # what follows the script is the script's own


@click.command(short_help="Prove by running that the migrated script trains the same model.", context_settings=OPTIONS)
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--against",
    type=click.Path(path_type=Path, exists=True),
    metavar="NEW",
    help="A migrated script to compare with, instead of accelify's.",
)
@click.option(
    "--also",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Migrate this file, too: one that no import leads to.",
)
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is a module, package.train, run as by `python -m`.")
@click.option(
    "--processes", type=click.IntRange(min=2), default=2, show_default=True, help="Processes of the runs on several."
)
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help=STEPS)
@click.option("--full", is_flag=True, help="Run until the script ends, instead of for some steps.")
@click.option(
    "--synthetic", is_flag=True, help="Use small made-up data in place of data sets that are not on this machine."
)
@click.option(
    "--pretend-gpu/--no-pretend-gpu",
    default=True,
    help="Also run on pretend GPUs, which find mistakes of devices without a GPU.  [default: pretend-gpu]",
)
@click.option(
    "--device", type=click.Choice(["cuda"]), help="Make that run on this machine's GPUs instead of pretend ones."
)
@click.option(
    "--timeout", type=SECONDS, default=600.0, show_default=True, metavar="SECONDS", help="Longest time for one run."
)
@click.option(
    "--silence",
    type=SECONDS,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="After this time without progress, a process counts as hanging.",
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write an HTML report into this file.",
)
def command(
    script: Path,
    arguments: tuple[str, ...],
    against: Path | None,
    also: tuple[Path, ...],
    is_module: bool,
    processes: int,
    steps: int | None,
    full: bool,
    synthetic: bool,
    pretend_gpu: bool,
    device: str | None,
    timeout: float,
    silence: float,
    output_format: str,
    html: Path | None,
) -> None:
    """Run SCRIPT with its ARGUMENTS before and after migration, and compare what the runs compute.

    The migrated script runs on one process, on several, and as `accelify launch` starts it.

    Options come before SCRIPT. Everything runs in temporary copies, on the CPU but for --device cuda; your folder is
    only read. The migration is what `accelify rewrite` makes, with the settings of [tool.accelify.rewrite] in the
    nearest pyproject.toml.

    \b
    Exit status:
      0  proven: nothing differs
      1  something differs
      2  could not run: the script itself fails, or there is nothing to prove
    """
    from accelify.codemod.options import ACCELIFY
    from accelify.commands.setting_options import settings_for
    from accelify.report.colour import paint_for, plain
    from accelify.verify.experiment import Request
    from accelify.verify.prove import prove
    from accelify.verify.report import text
    from accelify.verify.runs import DRIVEN, Limits
    from accelify.verify.stopping import tidy_end

    if html is not None and not os.access(html.parent, os.W_OK):
        raise click.BadParameter(f"{html.parent} is no folder to write into", param_hint="--html")
    if arguments[:1] == ("--",):
        arguments = arguments[1:]
    far = DRIVEN if steps is None else Limits(steps)
    limits = replace(far, steps=None if full else far.steps, seconds=timeout, silence=silence)
    path = _file_of(str(script)) if is_module else script
    options = settings_for([str(path)], {"config": None, "isolated": False}).options()
    if against is None and options.runtime is not ACCELIFY:
        raise click.UsageError('the settings say runtime = "accelerate": verify runs accelify\'s own runtime only.')
    request = Request(
        script=path,
        arguments=arguments,
        module=str(script) if is_module else None,
        against=against,
        also=also,
        options=options,
        processes=processes,
        limits=limits,
        synthetic=64 if synthetic else 0,
        on_gpus=pretend_gpu or device is not None,
        gpus=_gpus() if device is not None else 0,
        folder=Path.cwd(),
    )
    with tidy_end():
        verdict = prove(request, tell_progress())
    if html is not None:
        from accelify.verify.report import html as page

        html.write_text(page.render(verdict), encoding="utf-8")
    if output_format == "json":
        from accelify.verify.report import json

        click.echo(json.render(verdict), nl=False)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        stream = sys.stderr if verdict.error is not None else sys.stdout
        paint = paint_for(stream) if stream.isatty() else plain
        click.echo(text.render(verdict, paint, width), nl=False, err=verdict.error is not None)
    sys.exit(verdict.status)


def _gpus() -> int:
    """How many GPUs there are; ends here where there is none, before anything has run."""
    from accelify.verify.gpus import count_gpus
    from accelify.verify.scratch import CannotVerify

    try:
        return count_gpus()
    except CannotVerify as error:
        raise click.UsageError(str(error)) from None


def _file_of(module: str) -> Path:
    """The file of a module below the current folder: itself, or a package's `__main__.py`."""
    path = Path(*module.split("."))
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def tell_progress() -> Callable[[str], None]:
    """Says which run is under way: on a line that is drawn over on a terminal, a line for each run elsewhere."""
    shown: list[str] = []

    def tell(words: str) -> None:
        run = words.partition(":")[0]
        if sys.stderr.isatty():
            click.echo(f"\r\033[K{words}", nl=False, err=True)
        elif run not in shown:
            shown.append(run)
            click.echo(f"accelify verify: {run}", err=True)

    return tell
