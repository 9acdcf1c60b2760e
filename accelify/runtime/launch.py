"""From settings to running processes: one becomes the script itself, more go to torchrun's elastic agent.

Nothing here imports torch until a second process is asked for.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from accelify.errors import AccelifyError
from accelify.runtime.config import BadSetting, Setting, Settings, read_value
from accelify.runtime.devices import count_cores, count_gpus

if TYPE_CHECKING:
    from accelify.runtime.environment import Environment

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
DEFAULT_PORT = 29500  # torchrun's
OUTER_LAUNCHERS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK")
HANDED_ON = ("mixed_precision", "gradient_accumulation_steps")  # the script's Accelerator reads these variables


class CannotLaunch(AccelifyError):
    """A launch that could not even begin; one line that says what to change."""


@dataclass(frozen=True, slots=True)
class Program:
    """What every process runs. `kind` is script (a file), module (as `python -m`) or program (anything executable)."""

    kind: str
    name: str
    arguments: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises: CannotLaunch when there is no such file, module or program."""
        if self.kind == "script":
            path = Path(self.name)
            if not path.exists():
                raise CannotLaunch(f"there is no script {self.name} in {Path.cwd()}")
            if path.is_dir() and not (path / "__main__.py").exists():
                raise CannotLaunch(f"{self.name} is a folder without a __main__.py")
            if not os.access(path, os.R_OK):
                raise CannotLaunch(f"the script {self.name} may not be read")
        elif self.kind == "module" and not _has_module(self.name):
            raise CannotLaunch(f"there is no module {self.name} on Python's path")
        elif self.kind == "program" and shutil.which(self.name) is None:
            raise CannotLaunch(f"there is no program {self.name}")

    @property
    def command(self) -> list[str]:
        """The command of a single process."""
        if self.kind == "program":
            return [shutil.which(self.name) or self.name, *self.arguments]
        return [sys.executable, *(["-m"] if self.kind == "module" else []), self.name, *self.arguments]

    @property
    def rank_command(self) -> list[str]:
        """The command of one rank of several: unbuffered, and through our bootstrap."""
        if self.kind == "program":
            return self.command
        return [sys.executable, "-u", str(BOOTSTRAP), self.kind, self.name, *self.arguments]


def _has_module(name: str) -> bool:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
    finally:
        del sys.path[0]


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the agents of several machines meet; the default is one machine on a port that the system picks."""

    backend: str = "c10d"
    endpoint: str = "localhost:0"
    run_id: str = ""
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything that is decided before a process starts.

    Units: grace (how long ranks may take to end) and monitor_interval in seconds.
    """

    program: Program
    local_processes: int = 1
    machines: tuple[int, int] = (1, 1)
    machine_rank: int | None = None
    rendezvous: Rendezvous = field(default_factory=Rendezvous)
    variables: tuple[tuple[str, str], ...] = ()
    max_restarts: int = 0
    monitor_interval: float = 0.1
    grace: float = 30.0
    log_dir: Path | None = None
    tee: str | None = None
    local_address: str | None = None
    debug: bool = False
    is_rank: bool = False  # srun or mpirun has started all ranks, and this is one of them

    @property
    def is_single(self) -> bool:
        """Whether one plain process does: nobody to meet, nothing to restart."""
        if self.is_rank:
            return True
        return self.local_processes == 1 and self.machines == (1, 1) and self.max_restarts == 0


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


def detect(settings: Settings, variables: Mapping[str, str], per_machine: str | None = None) -> Settings:
    """The settings with every `auto` and gap filled from the machine, each saying so.

    `per_machine` is torchrun's way to count processes; it stands above the setting, which counts all machines.

    Raises: BadSetting for what this machine cannot give: more processes than GPUs, processes that do not divide.
    """
    place = outer_place(variables)
    if place is not None and place.local_world_size > 1:
        return _as_rank(settings, place)
    found = dict(settings) if place is None else _as_machine(settings, place)
    settings = found
    seen = dict(variables)
    if settings["gpu_ids"].value is not None:
        seen["CUDA_VISIBLE_DEVICES"] = str(settings["gpu_ids"].value)
    gpus = 0 if settings["cpu"].value else count_gpus(seen)
    machines = _machine_range(settings)
    processes = settings["num_processes"]
    if per_machine is not None:
        count = read_value("num_processes", "auto" if per_machine == "gpu" else per_machine, "flag --nproc-per-node")
        total = count if isinstance(count, str) else count * machines[1]
        processes = found["num_processes"] = Setting(total, "flag --nproc-per-node")
    if processes.value == "auto":
        what = f"{gpus} GPUs" if gpus != 1 else "1 GPU"
        why = "asked to use the CPU" if settings["cpu"].value else f"{what} here" if gpus else "no GPU here"
        origin = f"detected: {why}" if processes.origin == "default" else f"{processes.origin}, detected: {why}"
        found["num_processes"] = Setting(max(1, gpus) * machines[1], origin)
    elif int(processes.value or 1) % machines[1]:
        reason = f"num_processes {processes.value} counts all machines, and does not divide by {machines[1]} of them"
        raise BadSetting(processes.origin, reason)
    local = int(found["num_processes"].value or 1) // machines[1]
    if gpus and local > gpus:
        reason = f"{local} processes on this machine, but {gpus} GPU{'s' * (gpus > 1)}; give --cpu to use none"
        raise BadSetting(found["num_processes"].origin, reason)
    if settings["num_cpu_threads_per_process"].value is None and (local > 1 or machines[1] > 1):
        if variables.get("OMP_NUM_THREADS"):
            found["num_cpu_threads_per_process"] = Setting(variables["OMP_NUM_THREADS"], "variable OMP_NUM_THREADS")
        else:
            cores = count_cores()
            origin = f"detected: {cores} cores for {local} processes"
            found["num_cpu_threads_per_process"] = Setting(max(1, cores // local), origin)
    return found


def outer_place(variables: Mapping[str, str]) -> Environment | None:
    """This process's place when srun or mpirun started it as one of several; None when nobody did."""
    if not any(name in variables for name in OUTER_LAUNCHERS):
        return None
    from accelify.runtime.environment import Environment

    place = Environment.read(variables)
    return place if place.launcher in ("slurm", "mpi") and place.world_size > 1 else None


def _as_machine(settings: Settings, place: Environment) -> Settings:
    """One task on each machine: the tasks are agents, and start this machine's processes themselves."""
    origin = f"detected: {place.launcher} started one task on each machine"
    values = {
        "num_machines": place.world_size,
        "machine_rank": place.rank,
        "main_process_ip": place.address,
        "main_process_port": place.port,
    }
    detected = {name: Setting(value, origin) for name, value in values.items() if settings[name].origin == "default"}
    return {**settings, **detected}


def _as_rank(settings: Settings, place: Environment) -> Settings:
    """Several tasks on a machine: each is a rank already, so that nothing is left to start.

    Raises: BadSetting when another number of processes was asked for.
    """
    processes, origin = settings["num_processes"], f"detected: {place.launcher} started each of them"
    if processes.value not in ("auto", place.world_size):
        reason = f"{processes.value} processes, but {place.launcher} has started {place.world_size} of them already; "
        raise BadSetting(processes.origin, reason + "leave the number away, or start one task on each machine")
    return {**settings, "num_processes": Setting(place.world_size, origin)}


def _machine_range(settings: Settings) -> tuple[int, int]:
    least, _, most = str(settings["num_machines"].value).partition(":")
    return int(least), int(most or least)


def script_variables(settings: Settings) -> tuple[tuple[str, str], ...]:
    """What the script's processes find in their environment, beside what was there."""
    variables: list[tuple[str, str]] = []
    if settings["cpu"].value:
        variables.append(("ACCELIFY_CPU", "1"))
    if settings["gpu_ids"].value is not None:
        variables.append(("CUDA_VISIBLE_DEVICES", str(settings["gpu_ids"].value)))
    handed = [(f"ACCELIFY_{name.upper()}", settings[name].value) for name in HANDED_ON]
    variables += [(name, str(value)) for name, value in handed if value is not None]
    if settings["debug"].value:
        variables.append(("ACCELIFY_DEBUG", "1"))
    threads = settings["num_cpu_threads_per_process"]
    if threads.value is not None and threads.origin != "variable OMP_NUM_THREADS":
        variables.append(("OMP_NUM_THREADS", str(threads.value)))
    return tuple(variables)


def meeting_point(settings: Settings, endpoint: str | None) -> str:
    """`host:port` where the machines meet; one machine meets itself on a port that the system picks.

    Raises: BadSetting when several machines have no place to meet.
    """
    if endpoint:
        return endpoint
    machines, address, port = (settings[name] for name in ("num_machines", "main_process_ip", "main_process_port"))
    if _machine_range(settings)[1] == 1:
        return f"localhost:{port.value or 0}"
    if address.value is None:
        raise BadSetting(
            machines.origin, f"{machines.value} machines need --main-process-ip, the address of the first of them"
        )
    return f"{address.value}:{port.value or DEFAULT_PORT}"


def plan_launch(
    settings: Settings, program: Program, *, rendezvous: Rendezvous | None = None, **options: object
) -> Launch:
    """A launch from detected settings; `options` are fields of Launch that no setting covers.

    Raises: BadSetting when the settings contradict each other.
    """
    if options.get("is_rank"):
        return Launch(program=program, variables=script_variables(settings), **options)  # type: ignore[arg-type]
    machines = _machine_range(settings)
    given = rendezvous or Rendezvous(endpoint="")
    rank = settings["machine_rank"].value
    if rank is not None and int(rank) >= machines[1]:
        raise BadSetting(settings["machine_rank"].origin, f"machine {rank} of {machines[1]}: they count from 0")
    if machines[1] > 1 and machines[0] == machines[1] and rank is None and not given.endpoint:
        raise BadSetting(settings["num_machines"].origin, f"{machines[1]} machines need --machine-rank on each of them")
    return Launch(
        program=program,
        local_processes=int(settings["num_processes"].value or 1) // machines[1],
        machines=machines,
        machine_rank=int(rank) if rank is not None and machines[1] > 1 else None,
        rendezvous=Rendezvous(
            backend=given.backend,
            endpoint=meeting_point(settings, given.endpoint),
            run_id=given.run_id or ("accelify" if machines[1] > 1 else ""),
            options=given.options,
        ),
        variables=script_variables(settings),
        max_restarts=int(settings["max_restarts"].value or 0),
        debug=bool(settings["debug"].value),
        **options,  # type: ignore[arg-type]  # named fields of Launch, checked by its constructor
    )


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
    from accelify.runtime.ranks import run_ranks

    return run_ranks(launch)
