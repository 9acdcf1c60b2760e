"""Whether the parameters have diverged: a change on one rank alone raises no error by itself.

Such as `load_state_dict` where one rank found a file, or a step along gradients that `torch.autograd.grad` gave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any  # states of every kind

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.desync import hash_of_text
from accelify.runtime.world.tensors import content_of


def named_parameters(models: Iterable[nn.Module]) -> dict[str, torch.Tensor]:
    """The parameters of several models, each under a name of its own."""
    return {
        f"{name} of {type(model).__name__}{f' {number}' if number else ''}": parameter
        for number, model in enumerate(models)
        for name, parameter in model.named_parameters()
    }


def named_states(objects: Iterable[Any]) -> dict[str, Any]:
    """The numbers and tensors in the states of optimizers and schedulers, each under a name of its own."""
    return {
        f"{path} of {type(one).__name__}{f' {number}' if number else ''}": value
        for number, one in enumerate(objects)
        for path, value in _parts("", one.state_dict())
        if value is None or isinstance(value, (bool, int, float, str, torch.Tensor))
    }


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        inner: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, (list, tuple)):
        inner = enumerate(value)
    else:
        yield path, value
        return
    for key, part in inner:
        yield from _parts(f"{path}.{key}" if path else str(key), part)


def find_divergence(collectives: Collectives, asked: str, values: Mapping[str, Any]) -> str | None:
    """Which rank holds other numbers than rank 0, and where; None while all hold the same. Every rank must ask.

    asked: what the script asked for, to be named where another rank asked for something else.
    Cost: one reading of the tensors, and one small message. What only some ranks have is not compared.
    """
    mine = {
        name: _sums(value) if isinstance(value, torch.Tensor) else repr(value)
        for name, value in values.items()
        if not isinstance(value, torch.Tensor) or _is_readable(value)
    }
    if collectives.is_alike(asked, f"parameters {hash_of_text(repr(mine)):x}"):
        return None
    first, *others = collectives.gather_object(mine)
    for rank, theirs in enumerate(others, start=1):
        differing = [name for name in first if name in theirs and theirs[name] != first[name]]
        if differing:
            more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
            return f"rank {rank} holds another {differing[0]}{more} than rank 0"
    return None


def _is_readable(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.device.type not in ("meta", "xla") and not is_lazy(tensor)


def _sums(tensor: torch.Tensor) -> list[int]:
    """A checksum of the tensor's bits, two integers: hardly any change leaves both as they are."""
    content = content_of(tensor)
    if content.data_ptr() % 8:
        content = content.clone()
    whole = len(content) // 8 * 8
    # Eight bytes at a time: four take forty times as long.
    sums: list[int] = torch.stack([content[:whole].view(torch.int64).sum(), content[whole:].sum()]).tolist()
    return sums
