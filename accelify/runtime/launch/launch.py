"""Run what was planned: one process becomes the script itself, more go to torchrun's elastic agent.

Nothing here imports torch until a second process is asked for.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys

from accelify.runtime.launch.plan import CannotLaunch, Launch


def run_launch(launch: Launch) -> int:
    """Run the program and return the exit status; a single process never returns, it becomes the program.

    Raises: CannotLaunch when nothing could be started.
    """
    launch.program.check()
    for name, value in launch.variables:
        os.environ[name] = value
    if launch.is_single:
        command = launch.program.command
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(command[0], command, dict(os.environ))
    if importlib.util.find_spec("torch") is None:
        raise CannotLaunch(f"{sys.executable} has no torch: pip install 'accelify[runtime]' into it")
    from accelify.runtime.launch.ranks import run_ranks  # it takes time to import, and one process needs none of it

    return run_ranks(launch)


def torchrun_command(launch: Launch) -> str:
    """The line that starts the same processes without accelify, ready to paste."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in launch.variables]
    if launch.is_single:
        return " ".join([*variables, shlex.join(launch.program.command)])
    least, most = launch.machines
    command = ["torchrun", "--nnodes", str(most) if least == most else f"{least}:{most}"]
    command += ["--nproc-per-node", str(launch.local_processes), "--rdzv-backend", launch.rendezvous.backend]
    command += ["--rdzv-endpoint", launch.rendezvous.endpoint]
    if launch.rendezvous.run_id:
        command += ["--rdzv-id", launch.rendezvous.run_id]
    if launch.rendezvous.options:
        command += ["--rdzv-conf", ",".join(f"{name}={value}" for name, value in launch.rendezvous.options)]
    if launch.machine_rank is not None:
        command += ["--node-rank", str(launch.machine_rank)]
    if launch.max_restarts:
        command += ["--max-restarts", str(launch.max_restarts)]
    if launch.log_dir is not None:
        command += ["--log-dir", str(launch.log_dir), "--redirects", "3"]
    if launch.tee is not None:
        command += ["--tee", launch.tee]
    if launch.local_address is not None:
        command += ["--local-addr", launch.local_address]
    kind = {"script": [], "module": ["-m"], "program": ["--no-python"]}[launch.program.kind]
    return " ".join([*variables, shlex.join([*command, *kind, launch.program.name, *launch.program.arguments])])
