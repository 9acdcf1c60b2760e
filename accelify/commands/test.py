"""`accelify test`: the self-check of the runtime, on as many processes as a launch from here has."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: name.replace("_", "-"),
    }
)
@click.option("--cpu", is_flag=True, default=None, help="Use no GPU even if there is one.")
@click.option("--num-processes", metavar="N|auto", help="Processes on this machine. [as configured, else 2]")
@click.option("--config-file", type=click.Path(path_type=Path), help="Read this file and no other.")
def command(**flags: Any) -> None:
    """Check that several processes find each other, exchange tensors, and train one model together."""
    from accelify.errors import AccelifyError
    from accelify.runtime.launch.config import config_files, resolve
    from accelify.runtime.launch.detection import detect
    from accelify.runtime.launch.launch import run_launch
    from accelify.runtime.launch.plan import Program, plan_launch

    program = Program("module", "accelify.runtime.launch.selfcheck")
    try:
        settings = resolve(flags, os.environ, config_files(os.environ, Path.cwd(), flags["config_file"]))
        found = detect(settings, os.environ)
        if settings["num_processes"].value == "auto" and found["num_processes"].value == 1:
            found = detect(settings, os.environ, "2")  # one process would check nothing
        status = run_launch(plan_launch(found, program))
    except AccelifyError as error:
        click.echo(f"accelify: {error}", err=True)
        status = 2
    sys.exit(status)
