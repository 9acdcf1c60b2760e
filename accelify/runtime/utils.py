"""The names of Hugging Face Accelerate's `utils`, for scripts written for it; docs/api.md lists the differences."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Mapping, MutableMapping
from functools import reduce as fold
from pathlib import Path
from typing import IO, Any  # values are of every kind

import torch

from accelify.runtime.availability import (
    are_libraries_initialized,
    compare_versions,
    get_current_device_type,
    is_4bit_bnb_available,
    is_8bit_bnb_available,
    is_aim_available,
    is_amdsmi_available,
    is_bf16_available,
    is_bitsandbytes_multi_backend_available,
    is_bnb_available,
    is_boto3_available,
    is_clearml_available,
    is_comet_ml_available,
    is_cuda_available,
    is_datasets_available,
    is_deepspeed_available,
    is_dvclive_available,
    is_fp8_available,
    is_fp16_available,
    is_habana_gaudi1,
    is_hpu_available,
    is_import_timer_available,
    is_lomo_available,
    is_matplotlib_available,
    is_megatron_lm_available,
    is_mlflow_available,
    is_mlu_available,
    is_mps_available,
    is_msamp_available,
    is_musa_available,
    is_neuron_available,
    is_npu_available,
    is_pandas_available,
    is_peft_available,
    is_pippy_available,
    is_pynvml_available,
    is_pytest_available,
    is_rich_available,
    is_rocm_available,
    is_sagemaker_available,
    is_schedulefree_available,
    is_sdaa_available,
    is_swanlab_available,
    is_tensorboard_available,
    is_timm_available,
    is_torch_version,
    is_torch_xla_available,
    is_torchao_available,
    is_torchdata_available,
    is_torchdata_stateful_dataloader_available,
    is_torchvision_available,
    is_trackio_available,
    is_transformer_engine_available,
    is_transformer_engine_mxfp8_available,
    is_transformers_available,
    is_triton_available,
    is_wandb_available,
    is_weights_only_available,
    is_xccl_available,
    is_xpu_available,
)
from accelify.runtime.checkpoint.weights import size_of
from accelify.runtime.choices import (
    ComputeEnvironment,
    DDPCommunicationHookType,
    DistributedType,
    DynamoBackend,
    LoggerType,
    PrecisionType,
    RNGType,
)
from accelify.runtime.containers import (
    TensorInformation,
    concatenate,
    convert_outputs_to_fp32,
    convert_to_fp32,
    find_batch_size,
    find_device,
    get_data_structure,
    honor_type,
    ignorant_find_batch_size,
    initialize_tensors,
    is_namedtuple,
    is_tensor_information,
    is_torch_tensor,
    listify,
    recursively_apply,
    send_to_device,
    slice_tensors,
)
from accelify.runtime.data.random_state import (
    set_seed,
)
from accelify.runtime.launch.config import write_config
from accelify.runtime.memory import (
    find_executable_batch_size,
    release_memory,
)
from accelify.runtime.options import (
    AutocastKwargs,
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
    GradScalerKwargs,
    InitProcessGroupKwargs,
    KwargsHandler,
    ProfileKwargs,
    ProjectConfiguration,
    TorchDynamoPlugin,
)
from accelify.runtime.state import (
    PartialState,
    broadcast,
    broadcast_object_list,
    gather,
    pad_across_processes,
    reduce,
    save,
    synchronize_rng_state,
    synchronize_rng_states,
    wait_for_everyone,
)
from accelify.runtime.world.environment import DEFAULT_PORT, Environment
from accelify.runtime.world.variables import (
    clear_environment,
    get_int_from_env,
    parse_choice_from_env,
    parse_flag_from_env,
    patch_environment,
    str_to_bool,
)
from accelify.runtime.wrappers import (
    extract_model_from_parallel,
    has_compiled_regions,
    is_compiled_module,
)

__all__ = [
    "SAFE_WEIGHTS_INDEX_NAME",
    "SAFE_WEIGHTS_NAME",
    "WEIGHTS_NAME",
    "AutocastKwargs",
    "ComputeEnvironment",
    "DDPCommunicationHookType",
    "DataLoaderConfiguration",
    "DistributedDataParallelKwargs",
    "DistributedType",
    "DynamoBackend",
    "GradScalerKwargs",
    "GradientAccumulationPlugin",
    "InitProcessGroupKwargs",
    "KwargsHandler",
    "LoggerType",
    "PrecisionType",
    "ProfileKwargs",
    "ProjectConfiguration",
    "RNGType",
    "TensorInformation",
    "TorchDynamoPlugin",
    "are_libraries_initialized",
    "broadcast",
    "broadcast_object_list",
    "clear_environment",
    "compare_versions",
    "concatenate",
    "convert_bytes",
    "convert_file_size_to_int",
    "convert_outputs_to_fp32",
    "convert_to_fp32",
    "extract_model_from_parallel",
    "find_batch_size",
    "find_device",
    "find_executable_batch_size",
    "gather",
    "gather_object",
    "get_current_device_type",
    "get_data_structure",
    "get_int_from_env",
    "get_pretty_name",
    "has_compiled_regions",
    "honor_type",
    "ignorant_find_batch_size",
    "initialize_tensors",
    "is_4bit_bnb_available",
    "is_8bit_bnb_available",
    "is_aim_available",
    "is_amdsmi_available",
    "is_bf16_available",
    "is_bitsandbytes_multi_backend_available",
    "is_bnb_available",
    "is_boto3_available",
    "is_clearml_available",
    "is_comet_ml_available",
    "is_compiled_module",
    "is_cuda_available",
    "is_datasets_available",
    "is_deepspeed_available",
    "is_dvclive_available",
    "is_fp8_available",
    "is_fp16_available",
    "is_habana_gaudi1",
    "is_hpu_available",
    "is_import_timer_available",
    "is_lomo_available",
    "is_matplotlib_available",
    "is_megatron_lm_available",
    "is_mlflow_available",
    "is_mlu_available",
    "is_mps_available",
    "is_msamp_available",
    "is_musa_available",
    "is_namedtuple",
    "is_neuron_available",
    "is_npu_available",
    "is_pandas_available",
    "is_peft_available",
    "is_pippy_available",
    "is_port_in_use",
    "is_pynvml_available",
    "is_pytest_available",
    "is_rich_available",
    "is_rocm_available",
    "is_sagemaker_available",
    "is_schedulefree_available",
    "is_sdaa_available",
    "is_swanlab_available",
    "is_tensor_information",
    "is_tensorboard_available",
    "is_timm_available",
    "is_torch_tensor",
    "is_torch_version",
    "is_torch_xla_available",
    "is_torchao_available",
    "is_torchdata_available",
    "is_torchdata_stateful_dataloader_available",
    "is_torchvision_available",
    "is_trackio_available",
    "is_transformer_engine_available",
    "is_transformer_engine_mxfp8_available",
    "is_transformers_available",
    "is_triton_available",
    "is_wandb_available",
    "is_weights_only_available",
    "is_xccl_available",
    "is_xpu_available",
    "listify",
    "load",
    "merge_dicts",
    "pad_across_processes",
    "parse_choice_from_env",
    "parse_flag_from_env",
    "patch_environment",
    "recursive_getattr",
    "recursively_apply",
    "reduce",
    "release_memory",
    "save",
    "send_to_device",
    "set_seed",
    "slice_tensors",
    "str_to_bool",
    "synchronize_rng_state",
    "synchronize_rng_states",
    "tqdm",
    "wait_for_everyone",
    "write_basic_config",
]

# The files that `save_model` writes, and the one of them that pickles.
SAFE_WEIGHTS_NAME = "model.safetensors"
SAFE_WEIGHTS_INDEX_NAME = "model.safetensors.index.json"
WEIGHTS_NAME = "pytorch_model.bin"


def gather_object(object: Any) -> list[Any]:
    """Every process's list, one after the other, as one list. In one process: that list.

    `accelify.runtime.gather_object` takes any object, and gives one for each process.
    Raises: TypeError for what is no list, tuple or set.
    """
    if not isinstance(object, (list, tuple, set)):
        raise TypeError(
            f"utils.gather_object joins lists, and this is a {type(object).__name__}: give a list of it, or take "
            "accelify.runtime.gather_object, which gives one object for each process"
        )
    return [element for part in PartialState().gather_object(object) for element in part]


def tqdm(*args: Any, main_process_only: bool = True, **kwargs: Any) -> Any:
    """The progress bar of the library `tqdm`, shown by process 0 of each machine alone unless asked otherwise.

    Raises: ImportError where the library is not installed; ValueError for a bool in place of what is iterated over.
    """
    if args and isinstance(args[0], bool):
        raise ValueError("tqdm: give main_process_only by name")
    if main_process_only and not kwargs.get("disable", False):
        kwargs["disable"] = Environment.read().local_rank != 0
    return importlib.import_module("tqdm.auto").tqdm(*args, **kwargs)


def load(f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, **kwargs: Any) -> Any:
    """`torch.load` that runs no code in the file, unless `weights_only=False` says so."""
    return torch.load(f, map_location=map_location, **{"weights_only": True, **kwargs})


def write_basic_config(
    mixed_precision: str = "no", save_location: str | os.PathLike[str] = "accelify.toml"
) -> Path | bool:
    """Write a file for `accelify launch` that holds the precision, and return its path; False where there is one.

    Raises: BadSetting for an unknown precision.
    """
    path = Path(save_location)
    if path.exists():
        return False
    write_config(path, {"mixed_precision": mixed_precision.lower()})
    return path


def is_port_in_use(port: int | None = None) -> bool:
    """Whether something listens on a port of this machine; without a number, on that where processes meet."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        return client.connect_ex(("localhost", DEFAULT_PORT if port is None else port)) == 0


def convert_bytes(size: float) -> str:
    """A size in words: `1.5 KB`. Units: bytes, 1024 to a KB."""
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if size < 1024:
            return f"{round(size, 2)} {unit}"
        size /= 1024
    return f"{round(size, 2)} PB"


def convert_file_size_to_int(size: int | str) -> int:
    """`"10GB"` and `"5MiB"` as numbers. Units: bytes. Raises: ValueError for another text."""
    return size_of(size)


def get_pretty_name(obj: Any) -> str:
    """The qualified name of a function or class; of another object, that of its class."""
    named = obj if hasattr(obj, "__qualname__") or hasattr(obj, "__name__") else type(obj)
    return str(getattr(named, "__qualname__", None) or named.__name__)


def merge_dicts(source: Mapping[Any, Any], destination: MutableMapping[Any, Any]) -> MutableMapping[Any, Any]:
    """The destination, with the source's items in it; dicts below the same key are merged, too."""
    for key, value in source.items():
        if isinstance(value, dict):
            merge_dicts(value, destination.setdefault(key, {}))
        else:
            destination[key] = value
    return destination


def recursive_getattr(obj: Any, attr: str) -> Any:
    """`recursive_getattr(model, "encoder.layer")` is `model.encoder.layer`. Raises: AttributeError."""
    return fold(getattr, attr.split("."), obj)
