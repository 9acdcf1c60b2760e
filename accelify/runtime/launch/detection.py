"""Settings found on the machine and in an outer launcher: how many GPUs and cores there are, who started us."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from accelify.runtime.launch.config import BadSetting, Setting, Settings, read_value

if TYPE_CHECKING:
    from accelify.runtime.world.environment import Environment
import contextlib
import os
import sys
from pathlib import Path

OUTER_LAUNCHERS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK")

NVIDIA_PROC = Path("/proc/driver/nvidia/gpus")

AMD_TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")

CGROUP_CPU = Path("/sys/fs/cgroup/cpu.max")


def detect(settings: Settings, variables: Mapping[str, str], per_machine: str | None = None) -> Settings:
    """The settings with every `auto` and gap filled from the machine, each saying so.

    `per_machine` is torchrun's way to count processes; it overrides the setting, which counts all machines.

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


def count_gpus(variables: Mapping[str, str]) -> int:
    """How many GPUs a script started with these variables would see.

    Source: https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables
    """
    present = _present()
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        if name in variables:
            return min(present, len(_visible(variables[name]))) if present else 0
    return present


def _visible(text: str) -> list[str]:
    """The devices a list names: CUDA stops reading at the first entry that is no device."""
    names = []
    for name in (part.strip() for part in text.split(",")):
        if not name or name == "-1":
            break
        names.append(name)
    return names


def _present() -> int:
    if NVIDIA_PROC.is_dir():
        return len(list(NVIDIA_PROC.iterdir()))
    return _nvml() or _amd()


def _nvml() -> int:
    """The count of NVIDIA's management library, which is there under WSL too; 0 where the library is not."""
    if sys.platform != "linux":
        return 0
    import ctypes

    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0
    count = ctypes.c_uint(0)
    if library.nvmlInit_v2() != 0:
        return 0
    failed = library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    library.nvmlShutdown()
    return 0 if failed else int(count.value)


def _amd() -> int:
    """AMD's driver lists a node for each processor; those with SIMD units are GPUs."""
    found = 0
    for properties in AMD_TOPOLOGY.glob("*/properties"):
        with contextlib.suppress(OSError):
            for line in properties.read_text().splitlines():
                name, _, value = line.partition(" ")
                found += name == "simd_count" and value.strip() != "0"
    return found


def has_mps() -> bool:
    """Whether this is a Mac whose GPU PyTorch can use."""
    return sys.platform == "darwin" and os.uname().machine == "arm64"


def count_cores() -> int:
    """The processor cores this process may use, a container's limit included."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = CGROUP_CPU.read_text().split()
        if quota != "max":
            cores = min(cores, -(-int(quota) // int(period)))
    return max(1, cores)


def torch_facts() -> list[tuple[str, str]]:
    """Names and values for a bug report; one line says why if torch is missing or broken."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return [("torch", f"cannot be imported: {error}")]
    backends = [name for name in ("nccl", "gloo", "mpi") if getattr(torch.distributed, f"is_{name}_available")()]
    facts = [("torch sees", f"{torch.cuda.device_count()} CUDA devices, CUDA {torch.version.cuda or 'not built in'}")]
    facts += [("torch sees", torch.cuda.get_device_name(number)) for number in range(torch.cuda.device_count())]
    return [*facts, ("torch backends", " ".join(backends)), ("torch threads", str(torch.get_num_threads()))]
