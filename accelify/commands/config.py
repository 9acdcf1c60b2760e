"""`accelify config`: write, show, check and import the settings of launches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

DEFAULT_FILE = "accelify.toml"
HELP = {"help_option_names": ["-h", "--help"]}


@click.group(invoke_without_command=True, context_settings=HELP)
@click.option("--default", "defaults", is_flag=True, help="Ask nothing: let every launch use what it detects.")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help=f"The file to write, .toml or .yaml. [{DEFAULT_FILE}]"
)
@click.option(
    "--user", is_flag=True, help="Write your personal file, which only `accelify launch --user-config` reads."
)
@click.pass_context
def command(ctx: click.Context, defaults: bool, output: Path | None, user: bool) -> None:
    """Ask how this project is to be launched, and save the answers in a file of the project."""
    if ctx.invoked_subcommand is None:
        _run(lambda: _write(output, user, {} if defaults else _ask()))


def _run(body: Callable[[], int]) -> None:
    from accelify.errors import AccelifyError

    try:
        status = body()
    except AccelifyError as error:
        click.echo(f"accelify: {error}", err=True)
        status = 2
    sys.exit(status)


def _write(output: Path | None, user: bool, values: dict[str, Any]) -> int:
    from accelify.runtime.launch.config import user_file, write_config

    path = user_file(os.environ) if user else output or Path(DEFAULT_FILE)
    write_config(path, values)
    click.echo(f"wrote {path}")
    return 0


def _ask() -> dict[str, Any]:
    """The answers that differ from what a launch does anyway."""
    from accelify.runtime.launch.config import KEYS
    from accelify.runtime.launch.detection import count_gpus

    answers: dict[str, Any] = {}
    gpus = count_gpus(os.environ)
    click.echo(f"This machine has {gpus or 'no'} GPU{'s' * (gpus != 1)}.", err=True)
    if gpus:
        answers["cpu"] = not click.confirm("Use a GPU for each process?", default=True, err=True)
    machines = answers["num_machines"] = _question("num_machines", "How many machines?", 1)
    each = "auto" if gpus and not answers["cpu"] else 1
    answers["num_processes"] = _question("num_processes", "How many processes, on all machines together?", each)
    if machines != 1:
        answers["main_process_ip"] = _question("main_process_ip", "The address of machine 0?", None)
        answers["main_process_port"] = _question("main_process_port", "A free port on it?", 29500)
        if ":" not in str(machines):
            answers["machine_rank"] = _question("machine_rank", "Which of them is this one, from 0?", 0)
    answers["mixed_precision"] = _question("mixed_precision", "Mixed precision: no, fp16 or bf16?", "no")
    answers["gradient_accumulation_steps"] = _question(
        "gradient_accumulation_steps", "Micro-batches in one optimizer step?", 1
    )
    usual = {name: key.default for name, key in KEYS.items()} | {
        "mixed_precision": "no",
        "gradient_accumulation_steps": 1,
    }
    return {name: value for name, value in answers.items() if value != usual[name]}


def _question(name: str, text: str, default: Any) -> Any:
    from accelify.runtime.launch.config import BadSetting, read_value

    def parse(answer: Any) -> Any:
        try:
            return read_value(name, answer, "answer")
        except BadSetting as error:
            raise click.UsageError(str(error)) from None

    return click.prompt(text, default=default, value_proc=parse, err=True)


@command.command(context_settings=HELP)
@click.option("--config-file", type=click.Path(path_type=Path), help="Read this file and no other.")
def show(config_file: Path | None) -> None:
    """Print every setting of a launch from here, and where its value comes from."""
    _run(lambda: _show(config_file))


def _show(config_file: Path | None) -> int:
    from accelify.runtime.launch.config import config_files, format_settings, resolve
    from accelify.runtime.launch.detection import detect

    files = config_files(os.environ, Path.cwd(), config_file)
    click.echo(format_settings(detect(resolve({}, os.environ, files), os.environ)))
    return 0


@command.command(context_settings=HELP)
@click.argument("file", required=False, type=click.Path(path_type=Path))
def validate(file: Path | None) -> None:
    """Check FILE, or the files that a launch from here would read."""
    _run(lambda: _validate(file))


def _validate(file: Path | None) -> int:
    from accelify.runtime.launch.config import BadSetting, config_files, read_config

    files = config_files(os.environ, Path.cwd(), file)
    if not files:
        raise BadSetting(str(Path.cwd()), "has no accelify.toml, and $ACCELIFY_CONFIG names none")
    for path in files:
        count = len(read_config(path))
        click.echo(f"{path}: {count} setting{'s' * (count != 1)}, all good")
    return 0


@command.command("import", context_settings=HELP)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--output", "-o", type=click.Path(path_type=Path), default=Path(DEFAULT_FILE), show_default=True)
def import_(file: Path, output: Path) -> None:
    """Write our file from FILE, a Hugging Face Accelerate YAML; what has no counterpart is listed."""
    _run(lambda: _import(file, output))


def _import(file: Path, output: Path) -> int:
    from accelify.runtime.launch.config import import_accelerate

    values, left = import_accelerate(file)
    for line in left:
        click.echo(f"{file}: {line}", err=True)
    _write(output, False, values)
    return 1 if left else 0
