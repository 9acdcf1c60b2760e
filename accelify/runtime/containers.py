"""Batches and outputs as nested lists, tuples and dicts of tensors: moved, cast, cut, joined, described.

Under the names of Hugging Face Accelerate's `utils`. Only lists, tuples and mappings are containers here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # containers hold whatever a script's batches hold

import torch


@dataclass
class TensorInformation:
    """The shape and dtype from which a similar tensor can be made."""

    shape: torch.Size
    dtype: torch.dtype


def is_torch_tensor(tensor: object) -> bool:
    """Whether this is a tensor."""
    return isinstance(tensor, torch.Tensor)


def is_tensor_information(tensor_info: object) -> bool:
    """Whether this is the description of a tensor."""
    return isinstance(tensor_info, TensorInformation)


def is_namedtuple(data: object) -> bool:
    """Whether this is a named tuple, or a tuple that has what they have."""
    return isinstance(data, tuple) and hasattr(data, "_asdict") and hasattr(data, "_fields")


def honor_type(obj: Any, generator: Iterable[Any]) -> Any:
    """The elements in a container of the object's type: a list, a tuple, a named tuple."""
    return type(obj)(*generator) if is_namedtuple(obj) else type(obj)(generator)


def recursively_apply(
    func: Callable[..., Any],
    data: Any,
    *args: Any,
    test_type: Callable[[Any], bool] = is_torch_tensor,
    error_on_other_type: bool = False,
    **kwargs: Any,
) -> Any:
    """The same containers with `func(leaf, *args, **kwargs)` for what passes the test; the rest as it is.

    Raises: TypeError for what does not pass it, with `error_on_other_type`.
    """

    def applied(each: Any) -> Any:
        if isinstance(each, (tuple, list)):
            return honor_type(each, map(applied, each))
        if isinstance(each, Mapping):
            return _mapping_like(each, {key: applied(value) for key, value in each.items()})
        if test_type(each):
            return func(each, *args, **kwargs)
        if error_on_other_type:
            name = getattr(func, "__name__", repr(func))
            raise TypeError(f"{name}: a {type(each).__name__} is no list, tuple or dict, and nothing that it takes")
        return each

    return applied(data)


def send_to_device(
    tensor: Any, device: Any, non_blocking: bool = False, skip_keys: str | list[str] | None = None
) -> Any:
    """The tensors, and what else has a `to`, on a device, in the same containers; values under `skip_keys` stay."""
    if hasattr(tensor, "to"):
        try:
            return tensor.to(device, non_blocking=non_blocking)
        except TypeError:  # a `to` of one's own
            return tensor.to(device)
    move = functools.partial(send_to_device, device=device, non_blocking=non_blocking, skip_keys=skip_keys)
    if isinstance(tensor, (tuple, list)):
        return honor_type(tensor, map(move, tensor))
    if isinstance(tensor, Mapping):
        skipped = [skip_keys] if isinstance(skip_keys, str) else skip_keys or []
        return _mapping_like(tensor, {key: v if key in skipped else move(v) for key, v in tensor.items()})
    return tensor


def convert_to_fp32(tensor: Any) -> Any:
    """Tensors in float16 and bfloat16 as float32, in the same containers; the rest as it is."""
    return recursively_apply(lambda each: each.float(), tensor, test_type=_is_half)


def convert_outputs_to_fp32(model_forward: Callable[..., Any]) -> Callable[..., Any]:
    """The function with what it returns in half precision as float32."""

    @functools.wraps(model_forward)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return convert_to_fp32(model_forward(*args, **kwargs))

    return forward


def find_batch_size(data: Any) -> int:
    """The length of the first tensor. Units: rows. Raises: ValueError without any, TypeError for another first leaf."""
    if isinstance(data, (tuple, list, Mapping)):
        if not len(data):
            raise ValueError(f"find_batch_size: an empty {type(data).__name__} has no batch size")
        return find_batch_size(next(iter(data.values() if isinstance(data, Mapping) else data)))
    if not isinstance(data, torch.Tensor):
        raise TypeError(f"find_batch_size: a {type(data).__name__} is no tensor")
    return data.shape[0]


def ignorant_find_batch_size(data: Any) -> int | None:
    """The length of the first tensor; None where there is none. Units: rows."""
    try:
        return find_batch_size(data)
    except (ValueError, TypeError):
        return None


def find_device(data: Any) -> torch.device | None:
    """The device of the first tensor; None where there is none."""
    if isinstance(data, torch.Tensor):
        return data.device
    inner = data.values() if isinstance(data, Mapping) else data if isinstance(data, (tuple, list)) else ()
    return next((device for each in inner if (device := find_device(each)) is not None), None)


def listify(data: Any) -> Any:
    """The tensors as lists of numbers, in the same containers; of one without dimensions, the number."""
    return recursively_apply(lambda tensor: tensor.detach().cpu().tolist(), data)


def slice_tensors(
    data: Any, tensor_slice: Any, process_index: int | None = None, num_processes: int | None = None
) -> Any:
    """Each tensor's `tensor_slice`, in the same containers. Raises: TypeError for a leaf that is no tensor.

    The other two arguments are Accelerate's and change nothing.
    """
    return recursively_apply(lambda tensor: tensor[tensor_slice], data, error_on_other_type=True)


def concatenate(data: Sequence[Any], dim: int = 0) -> Any:
    """Several batches of one structure as one, their tensors joined along `dim`; a single one as it is.

    Raises: TypeError for leaves that are no tensors.
    """
    first = data[0]
    if isinstance(first, (tuple, list)):
        return honor_type(first, (concatenate([each[i] for each in data], dim) for i in range(len(first))))
    if isinstance(first, Mapping):
        return _mapping_like(first, {key: concatenate([each[key] for each in data], dim) for key in first})
    if isinstance(first, torch.Tensor):
        return torch.cat(list(data), dim=dim)
    if len(data) == 1:
        return first
    raise TypeError(f"concatenate: a {type(first).__name__} is no tensor")


def get_data_structure(data: Any) -> Any:
    """The containers with the shape and dtype of each tensor in its place."""
    return recursively_apply(lambda tensor: TensorInformation(tensor.shape, tensor.dtype), data)


def initialize_tensors(data_structure: Any) -> Any:
    """The containers with a tensor of any values for each description."""
    return recursively_apply(
        lambda one: torch.empty(*one.shape, dtype=one.dtype), data_structure, test_type=is_tensor_information
    )


def _is_half(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.dtype in (torch.float16, torch.bfloat16)


def _mapping_like(original: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    return items if type(original) is dict else type(original)(items)  # type: ignore[call-arg]  # as dicts take them
