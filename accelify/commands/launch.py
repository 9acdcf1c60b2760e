"""`accelify launch`: options into settings, settings into a launch."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import click

OPTIONS = {
    "allow_interspersed_args": False,  # the script's own options may look like ours
    "token_normalize_func": lambda name: name.replace("_", "-"),
    "help_option_names": ["-h", "--help"],
}
SOME = click.FloatRange(0, min_open=True)  # seconds


@click.command(context_settings=OPTIONS)
@click.option("--cpu", is_flag=True, default=None, help="Use no GPU even if there is one.")
@click.option("--num-processes", metavar="N|auto", help="Processes on all machines together. [one for each GPU]")
@click.option("--nproc-per-node", metavar="N|auto", help="Processes on this machine, as torchrun counts.")
@click.option("--num-machines", "--nnodes", metavar="N|MIN:MAX", help="Machines, or a range that may change.")
@click.option("--machine-rank", "--node-rank", metavar="I", help="This machine's number, from 0.")
@click.option("--main-process-ip", "--master-addr", metavar="HOST", help="The address of machine 0.")
@click.option("--main-process-port", "--master-port", metavar="PORT", help="The port of machine 0. [29500]")
@click.option("--mixed-precision", metavar="no|fp16|bf16", help="Precision of the forward pass.")
@click.option("--gradient-accumulation-steps", metavar="N", help="Micro-batches in one optimizer step.")
@click.option("--num-cpu-threads-per-process", metavar="N", help="Threads of one process. [an equal share]")
@click.option("--gpu-ids", metavar="0,1", help="The GPUs of this machine to use.")
@click.option("--max-restarts", metavar="N", help="Start all processes again after a failure, up to N times.")
@click.option("--monitor-interval", type=SOME, default=0.1, metavar="SECONDS", help="How often the ranks are checked.")
@click.option("--timeout", metavar="SECONDS", help="How long a rank waits for the others before it gives up. [600]")
@click.option("--stall-timeout", metavar="SECONDS", help="Report ranks that do nothing for so long; 0: never. [60]")
@click.option("--shutdown-timeout", metavar="SECONDS", help="How long ranks may take to end when asked to. [30]")
@click.option("--rdzv-backend", default="c10d", metavar="NAME", help="How machines meet. [c10d]")
@click.option("--rdzv-endpoint", metavar="HOST:PORT", help="Where machines meet.")
@click.option("--rdzv-id", default="", metavar="NAME", help="The job's name, the same on all of its machines.")
@click.option(
    "--rdzv-conf", default="", metavar="K=V,...", help="More settings of the rendezvous, such as join_timeout=60."
)
@click.option("--local-addr", metavar="HOST", help="This machine's address, if its name cannot be resolved.")
@click.option("--module", "-m", "kind", flag_value="module", help="SCRIPT is a module, as for `python -m`.")
@click.option("--no-python", "kind", flag_value="program", help="SCRIPT is a program of any kind.")
@click.option("--config-file", type=click.Path(path_type=Path), help="Read this file and no other.")
@click.option("--user-config", is_flag=True, help="Read the file that `accelify config --user` wrote.")
@click.option("--log-dir", type=click.Path(path_type=Path), help="Keep the ranks' output in a new folder in here.")
@click.option("--tee", "-t", metavar="3|0:3,1:3", help="Show more ranks: 1 output, 2 errors, 3 both.")
@click.option("--dry-run", is_flag=True, help="Show every value, where it came from, and the torchrun command.")
@click.option("--debug", is_flag=True, default=None, help="Check collectives; show the elastic agent's own messages.")
@click.option("--multi-gpu", "--standalone", "--gpu", is_flag=True, hidden=True, help="Accepted: it is what we do.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(script: str, arguments: tuple[str, ...], kind: str | None, **flags: Any) -> None:
    """Run SCRIPT with its ARGUMENTS on one or many processes.

    One process is the script itself, as if started by python. With more, rank 0's output is shown and the others' is
    kept until all have succeeded. Arguments after SCRIPT are passed to it.
    """
    from accelify.errors import AccelifyError
    from accelify.runtime.launch.launch import run_launch
    from accelify.runtime.launch.plan import Program

    try:
        program = Program(kind or "script", script, arguments)
        launch, settings = _plan(program, flags)
        if flags["dry_run"]:
            _show(launch, settings)
            status = 0
        else:
            status = run_launch(launch)
    except AccelifyError as error:
        click.echo(f"accelify: {error}", err=True)
        status = 2
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


def _plan(program: Any, flags: dict[str, Any]) -> Any:
    from accelify.runtime.launch.config import BadSetting, config_files, resolve, user_file
    from accelify.runtime.launch.detection import detect, outer_place
    from accelify.runtime.launch.plan import Rendezvous, plan_launch

    if not re.fullmatch(r"[0-3]|\d+:[0-3](,\d+:[0-3])*", flags["tee"] or "0"):
        raise BadSetting("flag --tee", f"{flags['tee']!r} is neither 1, 2, 3 nor a list such as 0:3,1:3")
    pairs = flags["rdzv_conf"].split(",") if flags["rdzv_conf"] else []
    for pair in pairs:
        if "=" not in pair:
            raise BadSetting("flag --rdzv-conf", f"{pair!r} is no NAME=VALUE")
    variables = os.environ
    explicit = user_file(variables) if flags["user_config"] else flags["config_file"]
    settings = resolve(flags, variables, config_files(variables, Path.cwd(), explicit))
    settings = detect(settings, variables, flags["nproc_per_node"])
    place = outer_place(variables)
    conf: Any = tuple(tuple(pair.split("=", 1)) for pair in pairs)
    launch = plan_launch(
        settings,
        program,
        rendezvous=Rendezvous(flags["rdzv_backend"], flags["rdzv_endpoint"] or "", flags["rdzv_id"], conf),
        log_dir=flags["log_dir"],
        tee=flags["tee"],
        monitor_interval=flags["monitor_interval"],
        local_address=flags["local_addr"],
        is_rank=place is not None and place.local_world_size > 1,
    )
    return launch, settings


def _show(launch: Any, settings: Any) -> None:
    from accelify.runtime.launch.config import format_settings
    from accelify.runtime.launch.launch import torchrun_command

    click.echo(f"{format_settings(settings)}\n\n{torchrun_command(launch)}")
