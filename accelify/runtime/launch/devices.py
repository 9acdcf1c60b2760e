"""How many accelerators and cores this machine offers, counted without importing torch."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

NVIDIA_PROC = Path("/proc/driver/nvidia/gpus")
AMD_TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")
CGROUP_CPU = Path("/sys/fs/cgroup/cpu.max")


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
    """The processor cores this process may use, a container's share included."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = CGROUP_CPU.read_text().split()
        if quota != "max":
            cores = min(cores, -(-int(quota) // int(period)))
    return max(1, cores)
