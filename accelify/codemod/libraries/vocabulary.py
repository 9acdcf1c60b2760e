"""Words of libraries that name no function: texts and options for devices, variables of launchers, whole libraries."""

from __future__ import annotations

import re

from accelify.codemod.libraries.row import Asks

_DEVICE_TYPES = ("cuda", "cpu", "mps", "xpu")
_DEVICE_NAME = re.compile(r"(^|_)(devices?|dev|gpus?|cuda)(_ids?)?$|^(local_)?rank$")
_LOW_PRECISION = {"torch.float16": "fp16", "torch.half": "fp16", "torch.bfloat16": "bf16"}
_RUN_TRAINING = ("accelify.runtime", "accelerate", "pytorch_lightning", "lightning", "ignite", "fastai", "catalyst")
# Which process this is, as torchrun, SLURM, MPI and others say it; and what all processes are told alike.
_RANK_VARIABLES = frozenset(
    "RANK LOCAL_RANK GROUP_RANK ROLE_RANK NODE_RANK SLURM_PROCID SLURM_LOCALID SLURM_NODEID OMPI_COMM_WORLD_RANK "
    "OMPI_COMM_WORLD_LOCAL_RANK PMI_RANK PMIX_RANK MPI_LOCALRANKID MV2_COMM_WORLD_RANK MV2_COMM_WORLD_LOCAL_RANK "
    "HOROVOD_RANK HOROVOD_LOCAL_RANK CUDA_VISIBLE_DEVICES HOSTNAME".split()
)
_GROUP_VARIABLES = frozenset(
    "WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT SLURM_NTASKS SLURM_NPROCS SLURM_JOB_NUM_NODES "
    "SLURM_NTASKS_PER_NODE OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE PMI_SIZE MV2_COMM_WORLD_SIZE "
    "HOROVOD_SIZE HOROVOD_LOCAL_SIZE".split()
)
_ASKED_BY_VARIABLE = {
    **dict.fromkeys(("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"), Asks.RANK),
    **dict.fromkeys(("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"), Asks.LOCAL_RANK),
    **dict.fromkeys(("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"), Asks.SIZE),
}


def is_device_text(value: object) -> bool:
    """`"cuda"`, `"cuda:1"`, `"cpu"`, `"mps"`."""
    return isinstance(value, str) and value.partition(":")[0] in _DEVICE_TYPES


def is_device_name(last: str) -> bool:
    """The last names of what holds devices: `device`, `gpu_id`, `teacher_device`, `rank`."""
    return _DEVICE_NAME.search(last) is not None


def low_precision(name: str) -> str | None:
    """`fp16` for `torch.float16`, `bf16` for `torch.bfloat16`."""
    return _LOW_PRECISION.get(name)


def migrated_by(name: str) -> str | None:
    """The library that already runs the training loop, when a name of it is used."""
    return next((each for each in _RUN_TRAINING if name == each or name.startswith(f"{each}.")), None)


def is_rank_variable(name: str) -> bool:
    """Whether an environment variable differs between the processes of a run."""
    return name in _RANK_VARIABLES


def is_launcher_variable(name: str) -> bool:
    """Whether a launcher sets an environment variable: for the rank, the size of the group, the address."""
    return name in _RANK_VARIABLES or name in _GROUP_VARIABLES


def asked_by_variable(name: str) -> Asks | None:
    """What an environment variable says of the run: that of the rank, the number of processes."""
    return _ASKED_BY_VARIABLE.get(name)
