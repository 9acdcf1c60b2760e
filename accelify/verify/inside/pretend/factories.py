"""Operations that make tensors on a GPU from nothing, where torch itself asks for them, in a backward pass say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # operations take everything

import torch

from accelify.verify.inside.pretend.tensors import GpuTensor

FACTORIES = (
    *("empty.memory_format", "empty_strided", "full", "zeros", "ones", "arange.start_step", "rand", "randn"),
    *("randint.low", "randperm", "eye", "linspace", "scalar_tensor"),
)
_libraries: list[torch.library.Library] = []  # an operation is gone with its library


def install() -> None:
    """Let torch make tensors on a GPU from here on."""
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    _libraries.append(library)
    for name in FACTORIES:
        operation, _, overload = name.partition(".")
        known = getattr(getattr(torch.ops.aten, operation), overload or "default")
        library.impl(name, _on_gpu(known), "PrivateUse1")  # type: ignore[no-untyped-call]


def _on_gpu(operation: Any) -> Callable[..., GpuTensor]:
    def made(*given: Any, **options: Any) -> GpuTensor:
        options.pop("pin_memory", None)
        options["device"] = "cpu"
        with torch._C.DisableTorchFunctionSubclass():
            return GpuTensor(operation(*given, **options))

    return made
