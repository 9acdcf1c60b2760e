"""This process's rank and world size, read from one table of variables; the only reader and writer of them."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from accelify.errors import AccelifyError

PRECISIONS = ("no", "bf16", "fp16")
DEFAULT_PORT = 29500
LONGEST = 10**7  # seconds, some 115 days: longer ones overflow in what counts them in nanoseconds


@dataclass(frozen=True, slots=True)
class Names:
    """The variables in which one launcher gives a process its place; several spellings, the first one set wins."""

    rank: tuple[str, ...]
    world_size: tuple[str, ...]
    local_rank: tuple[str, ...]
    local_world_size: tuple[str, ...]
    job: tuple[str, ...] = ()


# Source: https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
# Source: https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
# Source: https://docs.open-mpi.org/en/main/tuning-apps/environment-var.html (PMI_* and MPI_* are MPICH's and Intel's)
TABLE = {
    "torchrun": Names(("RANK",), ("WORLD_SIZE",), ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",)),
    "slurm": Names(
        ("SLURM_PROCID",),
        ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        ("SLURM_LOCALID",),
        ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"),
        ("SLURM_JOB_ID", "SLURM_JOBID"),
    ),
    "mpi": Names(
        ("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK"),
        ("OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_ID"),
    ),
}
ADDRESS, PORT, RESTARTS = "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"
MIXED_PRECISION, DEBUG, CPU = "ACCELIFY_MIXED_PRECISION", "ACCELIFY_DEBUG", "ACCELIFY_CPU"
TIMEOUT = "ACCELIFY_TIMEOUT"
STEPS, CONFIG = "ACCELIFY_GRADIENT_ACCUMULATION_STEPS", "ACCELIFY_CONFIG"
PJRT = "PJRT_DEVICE"  # torch_xla's own
# Libraries' caches outside the user's home folder: these, and all that say so
CACHES = ("HF_HOME", "TORCH_HOME", "MPLCONFIGDIR")


class BadEnvironment(AccelifyError):
    """A variable holds what no launcher would write, or one is missing beside the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """This process's place in the world and accelify's own settings."""

    launcher: str = "none"
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    address: str | None = None
    port: int | None = None
    restarts: int = 0
    mixed_precision: str | None = None
    debug: bool = False
    cpu: bool = False
    gradient_accumulation_steps: int | None = None
    timeout: float | None = None  # seconds that a rank waits for the others
    config: str | None = None
    pjrt: str | None = None  # the device that torch_xla is to use

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise BadEnvironment(f"rank {self.rank} does not fit {self.world_size} processes ({self.launcher})")
        if not 0 <= self.local_rank < max(self.local_world_size, 1):
            raise BadEnvironment(
                f"local rank {self.local_rank} does not fit {self.local_world_size} processes on this machine "
                f"({self.launcher})"
            )
        if self.mixed_precision is not None and self.mixed_precision not in PRECISIONS:
            raise BadEnvironment(f"{MIXED_PRECISION}={self.mixed_precision!r}: choose one of {', '.join(PRECISIONS)}")

    @property
    def process_index(self) -> int:
        """The rank, by its name elsewhere."""
        return self.rank

    @property
    def num_processes(self) -> int:
        """The world size, by its name elsewhere."""
        return self.world_size

    @property
    def is_main_process(self) -> bool:
        """Whether this is process 0, or a worker of it."""
        return self.rank == 0

    @classmethod
    def read(cls, variables: Mapping[str, str] | None = None) -> Environment:
        """The environment that the variables describe: torchrun's first, then SLURM's, then MPI's, else one process.

        Raises: BadEnvironment naming the variable and its value.
        """
        variables = os.environ if variables is None else variables
        launcher = _launcher(variables)
        place = {} if launcher == "none" else _place(launcher, variables)
        return cls(
            launcher=launcher,
            restarts=_integer(variables, (RESTARTS,)) or 0,
            mixed_precision=variables.get(MIXED_PRECISION) or None,
            debug=_flag(variables, DEBUG),
            cpu=_flag(variables, CPU),
            gradient_accumulation_steps=_integer(variables, (STEPS,)),
            timeout=_seconds(variables, TIMEOUT),
            config=variables.get(CONFIG) or None,
            pjrt=variables.get(PJRT) or None,
            **place,  # type: ignore[arg-type]  # one dict holds the integers and the address
        )

    def write(self) -> dict[str, str]:
        """The variables that make `read` give this environment again, in torchrun's spelling; none for defaults."""
        names, variables = TABLE["torchrun"], {}
        if self.launcher != "none":
            for group, value in (
                (names.rank, self.rank),
                (names.world_size, self.world_size),
                (names.local_rank, self.local_rank),
                (names.local_world_size, self.local_world_size),
            ):
                variables[group[0]] = str(value)
            if self.address is not None:
                variables[ADDRESS] = self.address
            if self.port is not None:
                variables[PORT] = str(self.port)
        if self.restarts:
            variables[RESTARTS] = str(self.restarts)
        if self.mixed_precision is not None:
            variables[MIXED_PRECISION] = self.mixed_precision
        if self.gradient_accumulation_steps is not None:
            variables[STEPS] = str(self.gradient_accumulation_steps)
        if self.timeout is not None:
            variables[TIMEOUT] = str(self.timeout)
        if self.config is not None:
            variables[CONFIG] = self.config
        if self.pjrt is not None:
            variables[PJRT] = self.pjrt
        variables.update({name: "1" for name, value in ((DEBUG, self.debug), (CPU, self.cpu)) if value})
        return variables


def cache_folders(variables: Mapping[str, str] | None = None) -> list[str]:
    """The folders that variables name for libraries' caches."""
    variables = os.environ if variables is None else variables
    return [
        value for name, value in variables.items() if ("CACHE" in name or name in CACHES) and value.startswith(os.sep)
    ]


def _launcher(variables: Mapping[str, str]) -> str:
    torchrun, slurm, mpi = TABLE["torchrun"], TABLE["slurm"], TABLE["mpi"]
    if _integer(variables, torchrun.rank) is not None and _integer(variables, torchrun.world_size) is not None:
        return "torchrun"
    under_mpi = _integer(variables, mpi.rank) is not None and _integer(variables, mpi.world_size) is not None
    if _is_slurm_step(variables):
        # mpirun inside a SLURM step starts its own world: the inner one counts.
        tasks = _integer(variables, slurm.world_size)
        if not under_mpi or _integer(variables, mpi.world_size) == tasks:
            return "slurm"
    return "mpi" if under_mpi else "none"


def _is_slurm_step(variables: Mapping[str, str]) -> bool:
    """Whether srun started us. An sbatch script has SLURM_NTASKS and SLURM_PROCID=0 too, but is one process."""
    if "SLURM_PROCID" not in variables:
        return False
    if "SLURM_STEP_NUM_TASKS" in variables:
        return True
    return "SLURM_NTASKS" in variables and variables.get("ENVIRONMENT") != "BATCH"


def _place(launcher: str, variables: Mapping[str, str]) -> dict[str, int | str | None]:
    names = TABLE[launcher]
    rank, world_size = _integer(variables, names.rank) or 0, _integer(variables, names.world_size) or 1
    address, port = variables.get(ADDRESS), _integer(variables, (PORT,))
    if launcher == "slurm":
        address = address or _first_host(variables)
    local_rank, local_size = _integer(variables, names.local_rank), _local_size(launcher, variables)
    if local_rank is None:
        # Without LOCAL_RANK: ranks on this machine when they meet on it, else one process per machine.
        local_rank = rank if (address or "localhost") in ("localhost", "127.0.0.1", "::1") else 0
    if local_size is None:
        local_size = world_size if local_rank == rank else local_rank + 1
    if address is None and local_size >= world_size:
        address = "localhost"
    if world_size > 1 and address is None:
        raise BadEnvironment(f"{world_size} processes on several machines ({launcher}), but {ADDRESS} is not set")
    if port is None and launcher == "torchrun" and world_size > 1:
        raise BadEnvironment(f"{world_size} processes (torchrun), but {PORT} is not set")
    if port is None:
        port = _job_port(names, variables)
    return {
        "rank": rank,
        "world_size": world_size,
        "local_rank": local_rank,
        "local_world_size": local_size,
        "address": address,
        "port": port,
    }


def _local_size(launcher: str, variables: Mapping[str, str]) -> int | None:
    names = TABLE[launcher].local_world_size
    if launcher != "slurm":
        return _integer(variables, names)
    # "2(x3),1" means 2 tasks on each of three nodes, then 1 on the fourth; this node's is by SLURM_NODEID.
    text = next((variables[name] for name in names if variables.get(name)), None)
    if text is None:
        return None
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            return None
        counts += [int(match[1])] * int(match[2] or 1)
    node = _integer(variables, ("SLURM_NODEID",)) or 0
    return counts[node] if node < len(counts) else counts[0]


def _first_host(variables: Mapping[str, str]) -> str | None:
    """The first host of a SLURM list such as `gpu[003-007,012],login`."""
    names = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    hosts = next((variables[name] for name in names if variables.get(name)), None)
    if hosts is None:
        return None
    match = re.match(r"([^,\[]+)(?:\[(\d+)[^\]]*\]([^,\[]*))?", hosts)
    return match[1] + (match[2] or "") + (match[3] or "") if match else None


def _job_port(names: Names, variables: Mapping[str, str]) -> int:
    """A port that the ranks of one job agree on and two jobs on a machine hardly share."""
    job = next((variables[name] for name in names.job if variables.get(name)), None)
    if job is None:
        return DEFAULT_PORT
    step = variables.get("SLURM_STEP_ID", "")
    return 20000 + zlib.crc32(f"{job}.{step}".encode()) % 10000


def _integer(variables: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        if variables.get(name):
            try:
                return int(variables[name])
            except ValueError:
                raise BadEnvironment(f"{name}={variables[name]!r} is not a whole number") from None
    return None


def _seconds(variables: Mapping[str, str], name: str) -> float | None:
    value = variables.get(name)
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST:
        raise BadEnvironment(f"{name}={value!r} is no number of seconds up to {LONGEST}")
    return seconds


def _flag(variables: Mapping[str, str], name: str) -> bool:
    value = variables.get(name, "").strip().lower()
    if value in ("", "0", "false", "no", "off"):
        return False
    if value in ("1", "true", "yes", "on"):
        return True
    raise BadEnvironment(f"{name}={value!r}: use 1 or 0")
