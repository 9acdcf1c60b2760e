"""Which libraries, devices and precisions are there: `is_*_available`, under the names of Hugging Face Accelerate.

A library counts where it can be found and has been installed; it is not imported.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import operator
import sys
from collections.abc import Callable
from typing import Any  # versions come in several classes

import torch
from torch.torch_version import TorchVersion

from accelify.runtime.choices import DistributedType

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
}


def compare_versions(library_or_version: object, operation: str, requirement_version: str) -> bool:
    """Whether a library's version, or one given as such (`torch.__version__`, a `packaging` one), compares so.

    Raises: ValueError for an operation that is none of > >= == != <= <; PackageNotFoundError for a library that is
    not installed.
    """
    if operation not in _COMPARISONS:
        raise ValueError(f"operation={operation!r}: choose one of {' '.join(_COMPARISONS)}")
    is_name = isinstance(library_or_version, str) and not isinstance(library_or_version, TorchVersion)
    text = importlib.metadata.version(str(library_or_version)) if is_name else str(library_or_version)
    return bool(_COMPARISONS[operation](TorchVersion(text), requirement_version))


def is_torch_version(operation: str, version: str) -> bool:
    """Whether torch's version compares so: `is_torch_version(">=", "2.6")`. Raises: as `compare_versions`."""
    return compare_versions(TorchVersion(torch.__version__), operation, version)


def _installed(*names: str) -> str | None:
    """The version of a library that can be imported as the first of the names and was installed as any of them."""
    if importlib.util.find_spec(names[0]) is None:
        return None
    found = (found for name in names for found in importlib.metadata.distributions(name=name))
    return next((each.version for each in found), None)


def _library(*names: str, compares: tuple[str, str] | None = None) -> Callable[[], bool]:
    """A function that says whether a library is there, of a version that compares so."""

    def is_available() -> bool:
        version = _installed(*names)
        return version is not None and (compares is None or compare_versions(TorchVersion(version), *compares))

    is_available.__doc__ = f"Whether {names[0]} is installed{f', {compares[0]} {compares[1]}' if compares else ''}."
    return is_available


def _nothing(what: str) -> Callable[..., bool]:
    """A function that says no: there is nothing of the kind here, whatever is asked."""

    def is_available(*arguments: object, **options: object) -> bool:
        return False

    is_available.__doc__ = f"False: {what}."
    return is_available


is_4bit_bnb_available = _library("bitsandbytes", compares=(">=", "0.39.0"))
is_8bit_bnb_available = _library("bitsandbytes", compares=(">=", "0.37.2"))
is_aim_available = _library("aim", compares=("<", "4.0.0"))
is_amdsmi_available = _library("amdsmi")
is_boto3_available = _library("boto3")
is_clearml_available = _library("clearml")
is_comet_ml_available = _library("comet_ml")
is_datasets_available = _library("datasets")
is_deepspeed_available = _library("deepspeed")
is_dvclive_available = _library("dvclive")
is_import_timer_available = _library("import_timer")
is_lomo_available = _library("lomo_optim")
is_matplotlib_available = _library("matplotlib")
is_mlflow_available = _library("mlflow", "mlflow-skinny")
is_msamp_available = _library("msamp", "ms-amp")
is_pandas_available = _library("pandas")
is_peft_available = _library("peft")
is_pynvml_available = _library("pynvml", "nvidia-ml-py")
is_pytest_available = _library("pytest")
is_rich_available = _library("rich")
is_sagemaker_available = _library("sagemaker")
is_schedulefree_available = _library("schedulefree")
is_swanlab_available = _library("swanlab")
is_timm_available = _library("timm")
is_torchao_available = _library("torchao", compares=(">=", "0.6.1"))
is_torchdata_available = _library("torchdata")
is_torchdata_stateful_dataloader_available = _library("torchdata", compares=(">=", "0.8.0"))
is_torchvision_available = _library("torchvision")
is_trackio_available = _library("trackio")
is_transformer_engine_available = _library("transformer_engine", "transformer-engine")
is_transformers_available = _library("transformers")
is_triton_available = _library("triton")
is_wandb_available = _library("wandb")

is_bitsandbytes_multi_backend_available = _nothing("quantization is not here")
is_fp8_available = _nothing("fp8 is not here")
is_habana_gaudi1 = _nothing("accelify trains on CPU, CUDA, MPS and XLA")
is_hpu_available = _nothing("accelify trains on CPU, CUDA, MPS and XLA")
is_megatron_lm_available = _nothing("Megatron-LM is not here")
is_mlu_available = _nothing("accelify trains on CPU, CUDA, MPS and XLA")
is_musa_available = _nothing("accelify trains on CPU, CUDA, MPS and XLA")
is_neuron_available = _nothing("accelify trains on CPU, CUDA, MPS and XLA")
is_npu_available = _nothing("accelify trains on CPU, CUDA, MPS and XLA")
is_pippy_available = _nothing("pipelines are not here")
is_sdaa_available = _nothing("accelify trains on CPU, CUDA, MPS and XLA")
is_transformer_engine_mxfp8_available = _nothing("fp8 is not here")
is_xccl_available = _nothing("accelify trains on CPU, CUDA, MPS and XLA")
is_xpu_available = _nothing("accelify trains on CPU, CUDA, MPS and XLA")


def is_bnb_available(min_version: str | None = None) -> bool:
    """Whether bitsandbytes is installed, in this version or a later one."""
    version = _installed("bitsandbytes")
    return version is not None and (min_version is None or compare_versions(TorchVersion(version), ">=", min_version))


def is_tensorboard_available() -> bool:
    """Whether tensorboard or tensorboardX is installed."""
    return _installed("tensorboard") is not None or _installed("tensorboardX") is not None


def is_weights_only_available() -> bool:
    """True: every torch that accelify runs with has `weights_only`."""
    return True


def is_cuda_available() -> bool:
    """Whether there is a CUDA device; CUDA may be initialised by asking."""
    return torch.cuda.is_available()


def is_rocm_available() -> bool:
    """Whether CUDA devices are AMD's."""
    return torch.version.hip is not None and torch.cuda.is_available()


def is_mps_available(min_version: str = "1.12") -> bool:
    """Whether there is Apple's GPU, and torch is of this version or a later one."""
    return is_torch_version(">=", min_version) and torch.backends.mps.is_available()


def is_torch_xla_available(check_is_tpu: bool = False, check_is_gpu: bool = False) -> bool:
    """Whether torch_xla is installed; asked for a TPU or GPU, whether its device is one.

    Raises: ValueError if asked for both.
    """
    if check_is_tpu and check_is_gpu:
        raise ValueError("check_is_tpu and check_is_gpu: ask for one of them")
    if _installed("torch_xla") is None:
        return False
    if not (check_is_tpu or check_is_gpu):
        return True
    kind = str(importlib.import_module("torch_xla.runtime").device_type())
    return kind == "TPU" if check_is_tpu else kind in ("GPU", "CUDA")


def is_bf16_available(ignore_tpu: bool = False) -> bool:
    """Whether the device computes in bfloat16; a CPU does."""
    if is_torch_xla_available() and is_torch_xla_available(check_is_tpu=True):
        return not ignore_tpu
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    return not torch.backends.mps.is_available() or torch.backends.mps.is_macos_or_newer(14, 0)


def is_fp16_available() -> bool:
    """True: every device that accelify runs on has it."""
    return True


def are_libraries_initialized(*library_names: str) -> list[str]:
    """Those of the libraries that have been imported."""
    return [name for name in library_names if name in sys.modules]


def get_current_device_type() -> tuple[str, str]:
    """The kind of device of this machine, and what several processes on such devices are: `("cuda", "MULTI_GPU")`."""
    if torch.cuda.is_available():
        return "cuda", DistributedType.MULTI_GPU.value
    return "cpu", DistributedType.MULTI_CPU.value
