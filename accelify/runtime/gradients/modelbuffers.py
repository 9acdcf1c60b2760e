"""A model's buffers, which the ranks keep alike: what a batch norm has seen, and whatever else changes in a step."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parameter import is_lazy

from accelify.runtime.gradients.buckets import copy_from_rank_0, mean_over_ranks

_INSTANCE_NORM = nn.modules.instancenorm._InstanceNorm


class Buffers:
    """The buffers of some modules, by module and name: a script may put another tensor in a buffer's place."""

    def __init__(self, modules: list[nn.Module], before: Buffers | None = None) -> None:
        """They agree now, or where there is a `before`, as far as those did: what is new may differ."""
        self._places = [(module, name) for module in modules for name, _ in module._buffers.items()]
        # The kernel of a batch norm writes its statistics without a new version; only the count of batches tells.
        counts = {id(module): at for at, (module, name) in enumerate(self._places) if name == "num_batches_tracked"}
        self._witnesses = [counts.get(id(module), at) for at, (module, _) in enumerate(self._places)]
        self._versions = self._current_versions()
        if before is not None:
            agreed = {(id(module), name): at for at, (module, name) in enumerate(before._places)}
            known = [agreed.get((id(module), name)) for module, name in self._places]
            self._versions = [None if at is None else before._versions[at] for at in known]

    def __len__(self) -> int:
        return len(self._places)

    def _current_versions(self) -> list[tuple[int, int] | None]:
        return [_version(_held(module, name)) for module, name in self._places]

    def changed(self) -> list[bool]:
        """Which may have changed since they last agreed."""
        if not self._places:
            return []
        current = self._current_versions()
        moved = [new is not None and new != old for new, old in zip(current, self._versions, strict=True)]
        return [
            moved[at] or moved[witness] or (isinstance(module, _INSTANCE_NORM) and module.training)
            for at, (witness, (module, _)) in enumerate(zip(self._witnesses, self._places, strict=True))
        ]

    def share(self, changed: list[float], group: dist.ProcessGroup | None, world_size: int) -> None:
        """Make those agree that have changed on some rank; every rank does so at once.

        The statistics of batch norms become means over ranks, anything else is as rank 0 has it.
        """
        tensors = [
            (module, tensor)
            for (module, name), flag in zip(self._places, changed, strict=True)
            if flag > 0 and (tensor := _held(module, name)) is not None
        ]
        if not tensors:
            return
        means = [tensor for module, tensor in tensors if isinstance(module, nn.modules.batchnorm._NormBase)]
        others = [tensor for module, tensor in tensors if not isinstance(module, nn.modules.batchnorm._NormBase)]
        mean_over_ranks(means, group, world_size)
        copy_from_rank_0(others, group)
        self._versions = self._current_versions()


def _held(module: nn.Module, name: str) -> torch.Tensor | None:
    # What a scripted module has instead of a dict knows no `get`.
    return module._buffers[name] if name in module._buffers else None  # noqa: SIM401


def _version(tensor: torch.Tensor | None) -> tuple[int, int] | None:
    if tensor is None or is_lazy(tensor):
        return None
    return id(tensor), 0 if tensor.is_inference() else tensor._version
