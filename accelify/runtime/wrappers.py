"""Wrappers of a model, and the model inside: compiled modules, DistributedDataParallel, DataParallel."""

from __future__ import annotations

import sys
from types import MethodType
from typing import Any  # a model inside may be of any class

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel


def is_compiled_module(module: nn.Module) -> bool:
    """Whether this is what `torch.compile(model)` gives; a model that is compiled in place is itself."""
    compiler = sys.modules.get("torch._dynamo")  # takes a second to import, and nothing is compiled before that
    return compiler is not None and isinstance(module, compiler.eval_frame.OptimizedModule)


def has_compiled_regions(module: nn.Module) -> bool:
    """Whether any part of the model is what `torch.compile` gives."""
    return any(is_compiled_module(each) for each in module.modules())


def extract_model_from_parallel(
    model: Any, keep_fp32_wrapper: bool = True, keep_torch_compile: bool = True, recursive: bool = False
) -> Any:
    """The model inside DDP and DataParallel; with `recursive`, each part that something with a `module` wraps.

    A compiled model is compiled still, unless `keep_torch_compile` is false. Without `keep_fp32_wrapper` a forward
    method that a wrapper of Accelerate's replaced is the model's own again; accelify replaces none.
    """
    compiled = model if is_compiled_module(model) else None
    inner = model if compiled is None else compiled._orig_mod
    while isinstance(inner, (DataParallel, DistributedDataParallel)):
        inner = inner.module
    if recursive:
        inner = _unwrapped(inner)
    if not keep_fp32_wrapper and (original := vars(inner).pop("_original_forward", None)) is not None:
        inner.forward = MethodType(getattr(original, "__func__", original), inner)
    if compiled is None or not keep_torch_compile:
        return inner
    compiled._orig_mod = inner
    return compiled


def _unwrapped(module: nn.Module) -> Any:
    wrapped = getattr(module, "module", None)
    inner = _unwrapped(wrapped) if isinstance(wrapped, nn.Module) else module
    for name, child in inner.named_children():
        setattr(inner, name, _unwrapped(child))
    return inner
