"""The plan of a launch, made before any process starts: which program, on how many processes, where they meet."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from accelify.errors import AccelifyError
from accelify.runtime.launch.config import BadSetting, Settings
from accelify.runtime.launch.detection import machine_range

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
DEFAULT_PORT = 29500  # torchrun's
HANDED_ON = (
    "mixed_precision",
    "gradient_accumulation_steps",
    "timeout",
)  # the script's Accelerator reads these variables


class CannotLaunch(AccelifyError):
    """A launch that could not even begin; one line that says what to change."""


@dataclass(frozen=True, slots=True)
class Program:
    """The program of every process. `kind` is script (a file), module (`python -m`) or program (any executable)."""

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

    Units: grace (how long ranks may take to end), stall_timeout (how long they may do nothing before it is reported)
    and monitor_interval in seconds.
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
    stall_timeout: float = 60.0
    log_dir: Path | None = None
    tee: str | None = None
    local_address: str | None = None
    debug: bool = False
    is_rank: bool = False  # srun or mpirun has started all ranks, and this is one of them

    @property
    def is_single(self) -> bool:
        """Whether one plain process does: no other machine to meet, nothing to restart."""
        if self.is_rank:
            return True
        return self.local_processes == 1 and self.machines == (1, 1) and self.max_restarts == 0


def script_variables(settings: Settings) -> tuple[tuple[str, str], ...]:
    """The variables that are added to the environment of the script's processes."""
    variables: list[tuple[str, str]] = []
    if settings["cpu"].value:
        # The script's own question `torch.cuda.is_available()` has to have the same answer.
        variables += [("ACCELIFY_CPU", "1"), ("CUDA_VISIBLE_DEVICES", "")]
    elif settings["gpu_ids"].value is not None:
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
    if machine_range(settings)[1] == 1:
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
    machines = machine_range(settings)
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
        grace=float(settings["shutdown_timeout"].value or 0),
        stall_timeout=float(settings["stall_timeout"].value or 0),
        debug=bool(settings["debug"].value),
        **options,  # type: ignore[arg-type]  # named fields of Launch, checked by its constructor
    )
