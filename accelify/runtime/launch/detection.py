"""What the machine and an outer launcher add to the settings: how many GPUs and cores there are, who started us."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from accelify.runtime.launch.config import Setting, Settings
from accelify.runtime.launch.devices import count_cores, count_gpus
from accelify.runtime.launch.keys import BadSetting, read_value

if TYPE_CHECKING:
    from accelify.runtime.world.environment import Environment

OUTER_LAUNCHERS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK")


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
    machines = machine_range(settings)
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
    from accelify.runtime.world.environment import Environment

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


def machine_range(settings: Settings) -> tuple[int, int]:
    """The fewest and the most machines; the same number unless a range was given."""
    least, _, most = str(settings["num_machines"].value).partition(":")
    return int(least), int(most or least)
