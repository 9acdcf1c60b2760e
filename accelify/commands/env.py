"""`accelify env`: what a bug report needs, and nothing that should stay private."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

import click

PACKAGES = ("torch", "numpy", "safetensors", "libcst", "click", "transformers", "accelerate")
# The variables that change how processes are started and joined; any other may hold a secret and is not printed.
VARIABLES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS"),
    *("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    *("NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "GLOO_SOCKET_IFNAME"),
    *("TORCH_DISTRIBUTED_DEBUG", "TORCH_CPP_LOG_LEVEL", "PYTORCH_CUDA_ALLOC_CONF"),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--devices", is_flag=True, help="Import torch and print the devices that it sees, too.")
def command(devices: bool) -> None:
    """Print versions, devices, settings with their origins, and the torchrun command of a launch from here."""
    for name, value in _facts():
        click.echo(f"{name:<28} {value}")
    if devices:
        _print_torch()
    click.echo("")
    sys.exit(_print_settings())


def _facts() -> list[tuple[str, str]]:
    import platform

    from accelify import __version__
    from accelify.runtime.launch.detection import count_cores, count_gpus

    facts = [("accelify", __version__), ("python", f"{platform.python_version()} ({sys.executable})")]
    facts += [("system", f"{platform.system()} {platform.release()} {platform.machine()}")]
    facts += [(name, version) for name in PACKAGES if (version := _version(name))]
    facts += [("cores", str(count_cores())), ("gpus", str(count_gpus(os.environ)))]
    facts += [("gpu", model) for model in _models()]
    ours = sorted(name for name in os.environ if name.startswith("ACCELIFY_"))
    return facts + [(name, os.environ[name]) for name in (*VARIABLES, *ours) if name in os.environ]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _models() -> list[str]:
    """What NVIDIA's driver calls the GPUs."""
    found = []
    for information in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        found += [line.partition(":")[2].strip() for line in information.read_text().splitlines() if "Model" in line]
    return found


def _print_torch() -> None:
    from accelify.runtime.launch.detection import torch_facts

    for name, value in torch_facts():
        click.echo(f"{name:<28} {value}")


def _print_settings() -> int:
    from accelify.errors import AccelifyError
    from accelify.runtime.launch.config import config_files, format_settings, resolve
    from accelify.runtime.launch.detection import detect
    from accelify.runtime.launch.launch import torchrun_command
    from accelify.runtime.launch.plan import Program, plan_launch

    files = config_files(os.environ, Path.cwd())
    click.echo(f"configuration: {', '.join(map(str, files)) or 'none'}")
    try:
        settings = detect(resolve({}, os.environ, files), os.environ)
        click.echo(format_settings(settings))
        click.echo(f"\n{torchrun_command(plan_launch(settings, Program('script', 'SCRIPT')))}")
    except AccelifyError as error:
        click.echo(f"accelify: {error}", err=True)
        return 2
    return 0
