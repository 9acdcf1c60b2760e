"""Python's side of torch's devices on the pretend GPU: `.to`, `.cuda()`, `device=...`, `.device`, numpy, autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # functions take and give everything

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _device
from torch.utils._pytree import tree_leaves, tree_map_only

from accelify.verify.inside.pretend.tensors import (
    GPU,
    MADE_AT,
    GpuTensor,
    NotOnTheHost,
    WrongDevice,
    as_gpu,
    device_of,
    inner_of,
    mark,
    off,
    onto,
    refuse,
)

Call = Callable[..., Any]
TYPES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Byte", "Bool", "Short", "Char")
RECURRENT = {f"{kind}{cell}" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for cell in ("", "_cell")}
# Under autocast on a GPU these compute in the lower precision, and those in float32.
# Source: https://docs.pytorch.org/docs/stable/amp.html
LOWER = {
    *(torch.matmul, torch.mm, torch.bmm, torch.addmm, torch.addbmm, torch.baddbmm, torch.mv, torch.chain_matmul),
    *(torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.mm, torch.Tensor.bmm, functional.linear),
    *(functional.conv1d, functional.conv2d, functional.conv3d, functional.conv_transpose1d),
    *(functional.conv_transpose2d, functional.conv_transpose3d, functional.prelu, torch.prelu),
    functional.scaled_dot_product_attention,
}
FULL = {
    *(
        functional.cross_entropy,
        functional.nll_loss,
        functional.mse_loss,
        functional.l1_loss,
        functional.smooth_l1_loss,
    ),
    *(functional.kl_div, functional.binary_cross_entropy_with_logits, functional.cosine_embedding_loss),
    *(functional.softmax, functional.log_softmax, functional.layer_norm, functional.group_norm, functional.softplus),
    *(
        torch.softmax,
        torch.log_softmax,
        torch.exp,
        torch.log,
        torch.pow,
        torch.sum,
        torch.norm,
        torch.prod,
        torch.cumsum,
    ),
    *(torch.Tensor.softmax, torch.Tensor.log_softmax, torch.Tensor.exp, torch.Tensor.log, torch.Tensor.sum),
    *(torch.Tensor.pow, torch.Tensor.__pow__, torch.Tensor.norm, torch.Tensor.prod, torch.Tensor.cumsum),
}


class Functions(TorchFunctionMode):
    """Stands between the script and torch's functions."""

    def __init__(self) -> None:
        super().__init__()
        tensor: Any = torch.Tensor
        self._handlers: dict[Any, Call] = {
            tensor.cuda: _cuda,
            tensor.cpu: lambda function, tensor, *_, **__: off(tensor),
            tensor.to: _to,
            tensor.type: _type,
            tensor.device.__get__: lambda function, tensor, *_: torch.device(device_of(tensor)),
            tensor.is_cuda.__get__: lambda function, tensor, *_: isinstance(tensor, GpuTensor),
            tensor.is_cpu.__get__: lambda function, tensor, *_: not isinstance(tensor, GpuTensor),
            tensor.get_device: lambda function, tensor: tensor.gpu if isinstance(tensor, GpuTensor) else -1,
            tensor.pin_memory: _pin,
            tensor.is_pinned: lambda function, tensor, *_: "_accelify_pinned" in vars(tensor),
            tensor.numpy: _on_host,
            tensor.__array__: _on_host,
            tensor.tolist: lambda function, tensor: function(inner_of(tensor)),
            torch.tensor: _from_data,
            torch.as_tensor: _from_data,
        }

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if _device.CURRENT_DEVICE is not None and function in _device._device_constructors():
            kwargs.setdefault("device", _device.CURRENT_DEVICE)
        handler = self._handlers.get(function)
        if handler is not None:
            return mark(handler(function, *args, **kwargs))
        if kwargs.get("device") is not None and function is not torch.Generator:
            return mark(_placed(function, args, kwargs))
        if kwargs.get("generator") is not None:
            _check_generator(kwargs["generator"], next((x.gpu for x in args if isinstance(x, GpuTensor)), None))
        if getattr(function, "__name__", "") in RECURRENT:
            return mark(_recurrent(function, args, kwargs))
        if function in LOWER or function in FULL:
            args, kwargs = _autocast(function, args, kwargs)
        return mark(function(*args, **kwargs))


def _cuda(function: Call, tensor: torch.Tensor, device: Any = None, *_: Any, **__: Any) -> torch.Tensor:
    index = GPU.index_of("cuda" if device is None else device)
    if index is None:
        raise WrongDevice(f"Invalid device, must be cuda device: {device}")
    return onto(tensor, index)


def _to(function: Call, tensor: torch.Tensor, *given: Any, **options: Any) -> torch.Tensor:
    rest = list(given)
    device = options.pop("device", None)
    options.pop("non_blocking", None)
    other = options.pop("other", None)
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    if other is not None:
        device, rest = device_of(other), [other.dtype]
    elif rest and not isinstance(rest[0], torch.dtype):
        device = rest.pop(0)
    kinds = [each for each in rest if isinstance(each, torch.dtype)]
    moved = tensor
    if kinds or options:
        with torch._C.DisableTorchFunctionSubclass():
            moved = function(tensor, *kinds[:1], **options)
    if device is None:
        return moved
    index = GPU.index_of(device)
    return off(moved) if index is None else onto(moved, index)


def _type(function: Call, tensor: torch.Tensor, dtype: Any = None, *_: Any, **__: Any) -> Any:
    if dtype is None:
        name = function(inner_of(tensor))
        return name.replace("torch.", "torch.cuda.") if isinstance(tensor, GpuTensor) else name
    if isinstance(dtype, torch.dtype):
        return _to(torch.Tensor.to, tensor, dtype)
    name = dtype if isinstance(dtype, str) else getattr(dtype, "pretended", f"torch.{getattr(dtype, '__name__', '')}")
    plain = function(off(tensor), name.replace("cuda.", ""))
    return onto(plain, GPU.index) if "cuda." in name else plain


def _pin(function: Call, tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    if isinstance(tensor, GpuTensor):
        raise WrongDevice("cannot pin a tensor on the GPU: only dense tensors on the CPU can be pinned")
    pinned = tensor.clone() if MADE_AT in vars(tensor) else tensor
    vars(pinned)["_accelify_pinned"] = True
    return pinned


def _on_host(function: Call, tensor: torch.Tensor, *given: Any, **options: Any) -> Any:
    if isinstance(tensor, GpuTensor):
        raise NotOnTheHost(
            f"can't convert cuda:{tensor.gpu} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )
    return function(tensor, *given, **options)


def _from_data(function: Call, data: Any, *given: Any, **options: Any) -> Any:
    """`torch.tensor` reads numbers from anywhere, and `torch.as_tensor` leaves a tensor where it is."""
    device = options.pop("device", None)
    index = data.gpu if isinstance(data, GpuTensor) else None
    if device is not None:
        index = GPU.index_of(device)
    made = function(_as_numbers(data), *given, **options)
    if index is None:
        return made
    placed = as_gpu(made.detach(), index)
    return placed.requires_grad_() if made.requires_grad else placed


def _as_numbers(data: Any) -> Any:
    if isinstance(data, GpuTensor):
        return data.held
    if isinstance(data, (list, tuple)):
        return type(data)(_as_numbers(each) for each in data) if type(data) in (list, tuple) else data
    return data


def _placed(function: Call, args: Any, kwargs: Any) -> Any:
    """A function that takes the device of its result as an argument."""
    index = GPU.index_of(kwargs["device"])
    _check_generator(kwargs.get("generator"), index)
    needs = kwargs.pop("requires_grad", False) if index is not None else kwargs.get("requires_grad", False)
    if index is not None:
        kwargs = {name: value for name, value in kwargs.items() if name != "pin_memory"} | {"device": "cpu"}
    out = function(*tree_map_only(GpuTensor, inner_of, args), **tree_map_only(GpuTensor, inner_of, kwargs))
    if index is not None:
        out = tree_map_only(torch.Tensor, lambda each: as_gpu(each, index), out)
        if needs:
            out.requires_grad_()
    return out


def _check_generator(generator: Any, index: int | None) -> None:
    """A generator of another device is refused. Raises: WrongDevice."""
    theirs = None if generator is None else generator.device.type
    ours = "cpu" if index is None else "cuda"
    if theirs is not None and theirs != ours:
        raise WrongDevice(f"Expected a '{ours}' device type for generator but found '{theirs}'")


def _recurrent(function: Call, args: Any, kwargs: Any) -> Any:
    """These are one operation on a GPU, which wants everything there but the lengths of packed sequences."""
    tensors = [each for each in tree_leaves(args) if isinstance(each, torch.Tensor)]
    on_gpu = [each for each in tensors if isinstance(each, GpuTensor)]
    if not on_gpu:
        return function(*args, **kwargs)
    for each in tensors:
        if not isinstance(each, GpuTensor) and not (each.dtype == torch.int64 and each.dim() == 1):
            refuse(function.__name__, on_gpu[0], each)
    index = on_gpu[0].gpu
    return tree_map_only(torch.Tensor, lambda each: onto(each, index), function(*tree_map_only(GpuTensor, off, args)))


def _autocast(function: Call, args: Any, kwargs: Any) -> tuple[Any, Any]:
    if not torch.is_autocast_enabled("cuda"):
        return args, kwargs
    dtype = torch.get_autocast_dtype("cuda") if function in LOWER else torch.float32

    def cast(tensor: GpuTensor) -> torch.Tensor:
        is_wanted = tensor.is_floating_point() and tensor.dtype not in (dtype, torch.float64)
        return tensor.to(dtype) if is_wanted else tensor

    return tree_map_only(GpuTensor, cast, args), tree_map_only(GpuTensor, cast, kwargs)
