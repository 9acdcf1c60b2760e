"""Tensors in the CPU's memory that say they are on a GPU, and refuse what a GPU refuses, with where both came from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any  # operations take and give everything

import torch
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

aten: Any = torch.ops.aten
COPIES = {aten.copy_.default, aten._to_copy.default}
# The indices of these may be on the CPU.
INDEXES = {
    *(aten.index.Tensor, aten.index_put_.default, aten.index_put.default),
    *(aten._index_put_impl_.default, aten._unsafe_index.Tensor),
}
# Rows of several lengths are packed by lengths and counts that are on the CPU, and stay there.
PACKS = {aten._pack_padded_sequence.default, aten._pack_padded_sequence_backward.default}
MADE_AT = "_accelify_made_at"
MOVED_AT = "_accelify_moved_at"
NAMED = "_accelify_name"
# The name that torch has for the device of a backend written in Python; scripts see `cuda`.
BACKEND = "gpu"


class WrongDevice(RuntimeError):
    """An operation would fail on a GPU since its tensors are not on one device."""


class NotOnTheHost(TypeError):
    """A tensor on a GPU is given to what reads the CPU's memory."""


class Gpu:
    """The process's own pretend GPU, and how many there are."""

    def __init__(self) -> None:
        self.index = 0
        self.count = 1
        self.process = os.getpid()
        self.place: Callable[[], str | None] = lambda: None
        self.report_other: Callable[[int], None] = lambda index: None

    def index_of(self, device: Any) -> int | None:
        """The number of a GPU that a script names in any way; None for the CPU."""
        if isinstance(device, int) and not isinstance(device, bool):
            return device
        named = torch.device(device)
        if named.type not in ("cuda", BACKEND):
            return None
        index = self.index if named.index is None or named.type == BACKEND else named.index
        if index >= self.count:
            raise WrongDevice(f"CUDA error: invalid device ordinal: cuda:{index} of {self.count} devices")
        return index

    def check_process(self) -> None:
        """Refuse a forked process, as a loader's worker is. Raises: WrongDevice."""
        if os.getpid() != self.process:
            raise WrongDevice(
                "Cannot re-initialize CUDA in forked subprocess: a dataset or its collate function puts tensors on the "
                f"GPU in a worker of a DataLoader, at {self.place()}"
            )


GPU = Gpu()


class GpuTensor(torch.Tensor):
    """Stands for `held`, which is in the CPU's memory, on a pretend GPU."""

    held: torch.Tensor
    gpu: int

    @staticmethod
    def __new__(cls, inner: torch.Tensor, index: int | None = None) -> GpuTensor:
        """A tensor of the same shape on the GPU."""
        GPU.check_process()
        is_strided = inner.layout == torch.strided
        made: GpuTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride() if is_strided else None,
            storage_offset=inner.storage_offset() if is_strided else None,
            dtype=inner.dtype,
            layout=inner.layout,
            device=torch.device(BACKEND, 0),
            requires_grad=False,
        )
        return made

    def __init__(self, inner: torch.Tensor, index: int | None = None) -> None:
        self.held = inner.detach()
        self.gpu = GPU.index if index is None else index
        if self.gpu != GPU.index:
            GPU.report_other(self.gpu)

    def __tensor_flatten__(self) -> tuple[list[str], int]:
        return ["held"], self.gpu

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], index: int, size: Any, stride: Any) -> GpuTensor:
        return GpuTensor(inner["held"], index)

    def __repr__(self, **how: Any) -> str:  # type: ignore[override]  # torch types it oddly
        return f"{repr(self.held)[:-1]}, device='cuda:{self.gpu}')"

    def __format__(self, specification: str) -> str:
        return format(self.held.item() if self.dim() == 0 else repr(self), specification)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's own is no class method
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """The operation on the CPU, unless a GPU would refuse it."""
        kwargs = dict(kwargs or {})
        if function in PACKS:
            return _packed(function, *args)
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        if function not in COPIES:
            _check_devices(function, args, tensors)
        goes_to = next((each.gpu for each in tensors if isinstance(each, GpuTensor)), GPU.index)
        stays: int | None = goes_to
        if kwargs.get("device") is not None:
            stays = GPU.index_of(kwargs["device"])
            kwargs["device"] = torch.device("cpu")
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        out = function(*tree_map_only(GpuTensor, _inner, args), **tree_map_only(GpuTensor, _inner, kwargs))
        if function is aten.copy_.default:
            return args[0]
        if stays is not None:
            out = tree_map_only(torch.Tensor, lambda each: as_gpu(each, stays), out)
        if function is aten._to_copy.default or "device" in kwargs:
            return out
        return return_and_correct_aliasing(function, args, kwargs, out)  # type: ignore[no-untyped-call]


def _inner(tensor: GpuTensor) -> torch.Tensor:
    return tensor.held


def as_gpu(tensor: torch.Tensor, index: int | None = None) -> GpuTensor:
    """The tensor itself if it is on a GPU already, else one that stands for it."""
    return tensor if isinstance(tensor, GpuTensor) else GpuTensor(tensor, index)


def _packed(function: Any, rows: torch.Tensor, *rest: Any) -> Any:
    """Rows, or their gradient, packed on the GPU. Raises: WrongDevice for lengths that are there, too."""
    other = next((each for each in rest if isinstance(each, GpuTensor)), None)
    if other is not None:
        refused = f"'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:{other.gpu} tensor"
        raise WrongDevice(f"{refused}: {described(other)}")
    out = function(inner_of(rows), *rest)
    index = rows.gpu if isinstance(rows, GpuTensor) else None
    return (as_gpu(out[0], index), *out[1:]) if isinstance(out, tuple) else as_gpu(out, index)


def _check_devices(function: Any, args: Any, tensors: list[torch.Tensor]) -> None:
    """Refuse tensors on several devices. Raises: WrongDevice."""
    on_gpu = [each for each in tensors if isinstance(each, GpuTensor)]
    on_cpu = [each for each in tensors if not isinstance(each, GpuTensor)]
    other = next((each for each in on_gpu if each.gpu != on_gpu[0].gpu), None)
    if other is not None:
        refuse(str(function), on_gpu[0], other)
    bad = [each for each in on_cpu if each.dim()]
    if function in INDEXES and isinstance(args[0], GpuTensor):
        values = args[2] if len(args) > 2 else None
        bad = [each for each in bad if each is values]
    elif function in INDEXES:  # a tensor on the CPU, indexed by one on the GPU
        bad = on_cpu
    if bad and on_gpu:
        refuse(str(function), on_gpu[0], bad[0])


def refuse(operation: str, one: torch.Tensor, other: torch.Tensor) -> None:
    """Raises: WrongDevice, with where the tensors come from."""
    name = operation.removeprefix("aten.").partition(".")[0]
    raise WrongDevice(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{device_of(one)} and {device_of(other)}: {name} of {described(one)} and {described(other)}"
    )


def device_of(tensor: torch.Tensor) -> str:
    """`cpu`, or `cuda:0`."""
    return f"cuda:{tensor.gpu}" if isinstance(tensor, GpuTensor) else "cpu"


def described(tensor: torch.Tensor) -> str:
    """A description of a tensor: its shape, where it was made and where it was moved."""
    known = vars(tensor)
    what = known.get(NAMED) or f"a tensor of shape {list(tensor.shape)}"
    made = f" made at {known[MADE_AT]}" if known.get(MADE_AT) else ""
    moved = f" moved there at {known[MOVED_AT]}" if known.get(MOVED_AT) else ""
    if not isinstance(tensor, GpuTensor):
        moved = " and never moved to the GPU" if made else " that was never moved to the GPU"
    return f"{what} on {device_of(tensor)} ({(made + moved).strip()})" if made or moved else f"{what}"


def mark(out: Any) -> Any:
    """Remember for new tensors the line that made them."""
    if isinstance(out, (torch.Tensor, tuple, list, dict)):
        for each in _fresh(out):
            setattr(each, MADE_AT, GPU.place())
    return out


def _fresh(out: Any) -> Iterator[torch.Tensor]:
    return (each for each in tree_leaves(out) if isinstance(each, torch.Tensor) and MADE_AT not in vars(each))


class _ToGpu(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, index: int) -> torch.Tensor:
        """A copy there."""
        context.index = tensor.gpu if isinstance(tensor, GpuTensor) else None
        return GpuTensor(inner_of(tensor).detach().clone(), index)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:
        """The gradient back where the tensor was."""
        plain = inner_of(gradient).clone()
        return (plain if context.index is None else GpuTensor(plain, context.index)), None


class _ToCpu(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tensor: GpuTensor) -> torch.Tensor:
        """A copy here."""
        context.index = tensor.gpu
        return tensor.held.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:
        """The gradient back to the GPU."""
        return as_gpu(gradient.clone(), context.index)


def inner_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in the CPU's memory."""
    return tensor.held if isinstance(tensor, GpuTensor) else tensor


def onto(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """The tensor on a GPU, as `.to("cuda")` gives it."""
    if isinstance(tensor, GpuTensor) and tensor.gpu == index:
        return tensor
    moved: torch.Tensor = GpuTensor(tensor, index) if tensor.is_sparse else _ToGpu.apply(tensor, index)  # type: ignore[no-untyped-call]
    for name in (MADE_AT, NAMED):
        if name in vars(tensor):
            setattr(moved, name, vars(tensor)[name])
    setattr(moved, MOVED_AT, GPU.place())
    return moved


def off(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the CPU, as `.cpu()` gives it."""
    return _ToCpu.apply(tensor) if isinstance(tensor, GpuTensor) else tensor  # type: ignore[no-untyped-call]
