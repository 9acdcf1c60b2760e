"""Qualified names of libraries, and what they stand for."""

from __future__ import annotations

import re

_LOADERS = {
    "torch.utils.data.DataLoader",
    "torch.utils.data.dataloader.DataLoader",
    "DataLoader",
    "torchdata.stateful_dataloader.StatefulDataLoader",
    "monai.data.DataLoader",
    "torch_geometric.data.DataLoader",
}
_LOADER_PACKAGES = ("torch_geometric.loader.", "dgl.dataloading.", "torchtext.data.", "torchtext.legacy.data.")
_LOADER_SUFFIXES = ("Loader", "Iterator")
_WRAPPERS = {
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "apex.parallel.DistributedDataParallel",
}
_SAME_MODEL = {"torch.compile", "torch.jit.script", "torch.jit.trace"}
_ITERATIONS = {
    "enumerate": "enumerate",
    "zip": "zip",
    "itertools.zip_longest": "zip",
    "iter": "same",
    "reversed": "same",
    "list": "same",
    "tuple": "same",
    "sorted": "same",
    "set": "same",
    "filter": "filter",
    "itertools.chain": "chain",
    "itertools.chain.from_iterable": "chain",
    "itertools.cycle": "same",
    "itertools.islice": "same",
    "tqdm": "same",
    "tqdm.tqdm": "same",
    "tqdm.auto.tqdm": "same",
    "tqdm.autonotebook.tqdm": "same",
    "tqdm.notebook.tqdm": "same",
    "tqdm.std.tqdm": "same",
    "tqdm.tqdm_notebook": "same",
    "progressbar.progressbar": "same",
    "barbar.Bar": "same",
    "rich.progress.track": "same",
    "alive_progress.alive_it": "same",
    "fastprogress.progress_bar": "same",
}
_OPTIMIZER_PACKAGES = (
    "transformers.",
    "apex.optimizers.",
    "apex.contrib.optimizers.",
    "timm.optim.",
    "torch_optimizer.",
    "bitsandbytes.optim.",
    "lion_pytorch.",
    "pytorch_pretrained_bert.",
    "pytorch_transformers.",
)
_OPTIMIZERS = {"Adam", "AdamW", "SGD", "Lion", "LAMB", "Lamb", "LARS", "Adafactor", "AdamP", "SGDP", "RAdam"}
_CUDA_TESTS = {
    "torch.cuda.is_available",
    "torch.cuda.device_count",
    "torch.backends.mps.is_available",
    "torch.backends.mps.is_built",
    "torch.mps.is_available",
    "torch.xpu.is_available",
    "torch.accelerator.is_available",
}
_DEVICES = {
    "torch.device",
    "torch.accelerator.current_accelerator",
    "torch.cuda.current_device",
    "torch.get_default_device",
}

_AUTOCASTS = {
    "torch.autocast",
    *(
        f"torch.{place}.autocast"
        for place in ("amp", "cuda.amp", "cpu.amp", "amp.autocast_mode", "cuda.amp.autocast_mode")
    ),
}
_SCALERS = {
    "torch.GradScaler",
    *(
        f"torch.{place}.GradScaler"
        for place in ("amp", "cuda.amp", "cpu.amp", "amp.grad_scaler", "cuda.amp.grad_scaler")
    ),
}


def is_optimizer(name: str | None) -> bool:
    """`torch.optim.AdamW` and the optimizers of other libraries, not schedulers."""
    if name is None:
        return False
    if name.startswith("torch.optim.") and ".lr_scheduler" not in name and ".swa_utils" not in name:
        return True
    last = name.rpartition(".")[2]
    if name.startswith(_OPTIMIZER_PACKAGES):
        return last in _OPTIMIZERS or last.startswith(("Adam", "Fused", "create_optimizer", "BertAdam", "OpenAIAdam"))
    return False


def is_scheduler(name: str | None) -> bool:
    """Learning-rate schedulers of torch and of transformers."""
    if name is None:
        return False
    if ".lr_scheduler." in name:
        return True
    last = name.rpartition(".")[2]
    return name.startswith(("transformers.", "diffusers.", "timm.scheduler", "pytorch_transformers.")) and (
        last == "get_scheduler" or "schedule" in last.lower()
    )


def is_loader(name: str | None) -> bool:
    """Things that yield batches."""
    if name is None:
        return False
    if name in _LOADERS:
        return True
    return name.startswith(_LOADER_PACKAGES) and name.rpartition(".")[2].endswith(_LOADER_SUFFIXES)


def is_torch_loader(name: str | None) -> bool:
    """Loaders that are `torch.utils.data.DataLoader` or a subclass of it."""
    return name is not None and (name in _LOADERS or name.startswith(("torch_geometric.loader.", "dgl.dataloading.")))


def is_module(name: str | None) -> bool:
    """Classes and factories of `nn.Module`s, losses included."""
    if name is None:
        return False
    if name.startswith(
        ("torch.nn.functional", "torch.nn.init", "torch.nn.utils", "torch.nn.parameter", "torch.nn.Param")
    ):
        return False
    if name.startswith("torch.nn."):
        return name.rpartition(".")[2][:1].isupper()
    if name.startswith(("torchvision.models.", "torch.hub.load", "timm.create_model", "segmentation_models_pytorch.")):
        return True
    if name.startswith(("efficientnet_pytorch.", "torch_geometric.nn.", "dgl.nn.", "pretrainedmodels.")):
        return True
    return name.endswith(".from_pretrained") and not any(
        word in name for word in ("Tokenizer", "Config", "Processor", "FeatureExtractor", "Scheduler", "Pipeline")
    )


def is_loss(name: str | None) -> bool:
    """Loss modules: `torch.nn.CrossEntropyLoss`."""
    return name is not None and name.startswith("torch.nn.") and name.endswith(("Loss", "Criterion"))


def is_module_base(name: str) -> bool:
    """Base classes that make a class an `nn.Module`."""
    return is_module(name) or name.rpartition(".")[2] in ("PreTrainedModel", "MessagePassing")


def is_wrapper(name: str | None) -> bool:
    """`nn.DataParallel` and `DistributedDataParallel`."""
    return name in _WRAPPERS


def adds_up_itself(name: str | None) -> bool:
    """Metrics that, asked for their value, add up over all processes by themselves."""
    return name is not None and name.startswith("torchmetrics.") and not name.startswith("torchmetrics.functional.")


def returns_its_model(name: str | None) -> bool:
    """Calls whose result is their first argument, seen as a model."""
    return name in _WRAPPERS or name in _SAME_MODEL


def iteration(name: str | None) -> str | None:
    """How a call passes on what its arguments yield: `same`, `enumerate`, `zip`, `chain` or `filter`."""
    return None if name is None else _ITERATIONS.get(name)


def is_device(name: str | None) -> bool:
    """Calls that return a device."""
    return name is not None and (name in _DEVICES or name.endswith(".device"))


def is_device_text(value: object) -> bool:
    """`"cuda"`, `"cuda:1"`, `"cpu"`, `"mps"`."""
    return isinstance(value, str) and value.partition(":")[0] in ("cuda", "cpu", "mps", "xpu")


def is_device_name(last: str) -> bool:
    """The last names of what holds devices: `device`, `gpu_id`, `teacher_device`, `rank`."""
    return re.search(r"(^|_)(devices?|dev|gpus?|cuda)(_ids?)?$|^(local_)?rank$", last) is not None


def is_autocast(name: str | None) -> bool:
    """`torch.autocast` and its older names."""
    return name in _AUTOCASTS


def is_scaler(name: str | None) -> bool:
    """`GradScaler`, under its names."""
    return name in _SCALERS


def low_precision(name: str) -> str | None:
    """`fp16` for `torch.float16`, `bf16` for `torch.bfloat16`."""
    return {"torch.float16": "fp16", "torch.half": "fp16", "torch.bfloat16": "bf16"}.get(name)


def is_cuda_test(name: str | None) -> bool:
    """Calls that ask whether there is an accelerator."""
    return name in _CUDA_TESTS


def is_distributed(name: str) -> bool:
    """Names whose use means that a script already spreads over processes by itself."""
    return name.startswith(
        (
            "torch.distributed",
            "torch.nn.parallel.DistributedDataParallel",
            "torch.nn.parallel.distributed",
            "torch.utils.data.distributed",
            "torch.utils.data.DistributedSampler",
            "apex.parallel.DistributedDataParallel",
            "apex.parallel.Reducer",
            "horovod",
            "deepspeed",
            "torch.multiprocessing.spawn",
            "torch.multiprocessing.Process",
            "mpi4py",
            "torch_xla",
            "byteps",
            "fairscale",
        )
    )


def runs_beside(name: str) -> bool:
    """Classes whose objects run in processes or threads of their own."""
    return name in ("torch.multiprocessing.Process", "multiprocessing.Process", "threading.Thread")


def migrated_by(name: str) -> str | None:
    """The library that already runs the training loop, when a name of it is used."""
    for library in ("accelify.runtime", "accelerate", "pytorch_lightning", "lightning", "ignite", "fastai", "catalyst"):
        if name == library or name.startswith(library + "."):
            return library
    return None
