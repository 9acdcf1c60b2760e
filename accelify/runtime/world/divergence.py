"""Whether the parameters have diverged: a change on one rank alone raises no error by itself.

Such as `load_state_dict` where one rank found a file, or a step along gradients that `torch.autograd.grad` gave.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar  # states of every kind

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from accelify.runtime.world.collectives import Collectives
from accelify.runtime.world.desync import hash_of_text
from accelify.runtime.world.tensors import content_of

T = TypeVar("T")

# Between different kinds of hardware, whose rounding adds up over many steps
NEAR = 0.01


def named_parameters(models: Iterable[nn.Module]) -> dict[str, torch.Tensor]:
    """The parameters of several models, each under a name of its own; results that stand in for some are left out."""
    return {
        f"{name} of {owner}": parameter
        for owner, model in numbered(models)
        for name, parameter in model.named_parameters()
        if parameter.is_leaf
    }


def named_buffers(models: Iterable[nn.Module]) -> dict[str, torch.Tensor]:
    """The buffers that belong to the states of several models, each under a name of its own."""
    return {
        f"{prefix}{'.' if prefix else ''}{name} of {owner}": buffer
        for owner, model in numbered(models)
        for prefix, module in model.named_modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and buffer.is_leaf and name not in module._non_persistent_buffers_set
    }


def numbered(objects: Iterable[T]) -> Iterator[tuple[str, T]]:
    """Objects by their classes, and all but the first by their places: `Adam`, `Adam 1`."""
    for number, one in enumerate(objects):
        yield f"{type(one).__name__}{f' {number}' if number else ''}", one


def named_states(objects: Iterable[Any]) -> dict[str, Any]:
    """The numbers and tensors in the states of optimizers and schedulers, each under a name of its own."""
    return {
        f"{path} of {owner}": value
        for owner, one in numbered(objects)
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


@dataclass(frozen=True, slots=True)
class Divergence:
    """In what some rank differs from rank 0."""

    rank: int  # the first one that does
    names: tuple[str, ...]  # first those in which this one does
    values: tuple[Any, Any]  # the first of these, on rank 0 and on this rank

    def __str__(self) -> str:
        more = f" and {len(self.names) - 1} more" if len(self.names) > 1 else ""
        return f"rank {self.rank} holds another {self.names[0]}{more} than rank 0"


def find_divergence(collectives: Collectives, asked: str, values: Mapping[str, Any]) -> Divergence | None:
    """Which rank holds other numbers than rank 0, and where; None while all hold the same. Every rank must ask.

    asked: what the script asked for, to be named where another rank asked for something else.
    Cost: one reading of the tensors, and one small message. Not compared is what only some ranks have, and what has
    another shape on each. Ranks on different kinds of hardware round differently: a hundredth counts as equal there.
    """
    tensors = {name: one for name, one in values.items() if isinstance(one, torch.Tensor) and _is_readable(one)}
    plain = {name: one for name, one in values.items() if not isinstance(one, torch.Tensor)}
    mine = plain | {name: list(sums) for name, sums in zip(tensors, _sums(list(tensors.values())), strict=True)}
    if collectives.is_alike(asked, f"parameters {hash_of_text(repr(mine)):x}"):
        return None
    rough = plain | {name: _norm(one) for name, one in tensors.items()}
    shapes = {name: tuple(one.shape) for name, one in tensors.items()}
    first, *others = collectives.gather_object((_hardware(tensors.values()), mine, rough, shapes))
    differing = {rank: list(_differing(first, theirs)) for rank, theirs in enumerate(others, start=1)}
    rank, names = next(((rank, names) for rank, names in differing.items() if names), (0, []))
    if not names:
        return None
    every = tuple(dict.fromkeys([*names, *(name for found in differing.values() for name in found)]))
    return Divergence(rank, every, (first[1][every[0]], others[rank - 1][1][every[0]]))


def _differing(first: tuple[Any, ...], other: tuple[Any, ...]) -> Iterator[str]:
    (hardware, exact, rough, shapes), (its_hardware, its_exact, its_rough, its_shapes) = first, other
    for name in exact:
        if name not in its_exact or shapes.get(name) != its_shapes.get(name):
            continue
        is_near = hardware != its_hardware and _is_near(rough[name], its_rough[name])
        if not is_near and repr(exact[name]) != repr(its_exact[name]):
            yield name


def _is_near(mine: Any, other: Any) -> bool:
    if isinstance(mine, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(mine) == len(other) and all(map(_is_near, mine, other))
    if isinstance(mine, float) and isinstance(other, float):
        return math.isclose(mine, other, rel_tol=NEAR, abs_tol=NEAR**3)
    return bool(mine == other)


def _hardware(tensors: Iterable[torch.Tensor]) -> list[str]:
    """The kinds of devices that tensors are on."""
    cpu = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    devices = {one.device for one in tensors if one.device.type == "cuda"}
    return sorted({cpu, *map(torch.cuda.get_device_name, devices)})


def _is_readable(tensor: torch.Tensor) -> bool:
    is_plain = tensor.layout == torch.strided and not tensor.is_quantized
    # Subclasses that hold tensors of their own, as shards do, have no memory to read.
    is_whole = not hasattr(tensor, "__tensor_flatten__")
    return is_plain and is_whole and tensor.device.type not in ("meta", "xla") and not is_lazy(tensor)


def _norm(tensor: torch.Tensor) -> float:
    values = tensor.detach()
    return float(torch.linalg.vector_norm(values.abs() if values.is_complex() else values.double()))


def _sums(tensors: Sequence[torch.Tensor]) -> list[list[int]]:
    """A checksum of each tensor's bits, two integers: hardly any change leaves both as they are.

    A device is waited for once, whatever the number of tensors.
    """
    by_device: dict[torch.device, list[int]] = {}
    for at, tensor in enumerate(tensors):
        by_device.setdefault(tensor.device, []).append(at)
    sums: list[list[int]] = [[]] * len(tensors)
    for places in by_device.values():
        read = torch.stack([part for at in places for part in _parts_of(tensors[at])]).view(-1, 2).tolist()
        for at, pair in zip(places, read, strict=True):
            sums[at] = pair
    return sums


def _parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    content = content_of(tensor)
    if content.data_ptr() % 8:
        content = content.clone()
    whole = len(content) // 8 * 8
    # Eight bytes at a time: four take forty times as long.
    return [content[:whole].view(torch.int64).sum(), content[whole:].sum()]
