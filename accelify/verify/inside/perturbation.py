"""Moves a training by as much as rounding does, so that it shows what rounding comes to after some steps.

Every parameter is changed by the distance to its next number, up or down at random: before it is first used, and
after each step that the script takes.
Source: TTrace, https://arxiv.org/abs/2506.09280
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any  # torch's hooks are untyped

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook


class Perturbation:
    """Changes parameters by rounding; the seed says which way each goes."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._seen: dict[int, nn.Module] = {}  # kept alive, so that no other gets one's identity

    def before_forward(self, module: nn.Module, *_: Any) -> None:
        """Called by torch before each module computes: the first time its own parameters are moved."""
        if id(module) not in self._seen:
            self._seen[id(module)] = module
            self._move(each for each in module._parameters.values() if each is not None)

    def after_step(self, optimizer: Optimizer, *_: Any) -> None:
        """Called by torch after each optimizer's step: what it stepped is moved."""
        stepped = [each for group in optimizer.param_groups for each in group["params"]]
        self._move(each for each in stepped if each.grad is not None)

    def _move(self, parameters: Iterable[torch.Tensor]) -> None:
        for each in parameters:
            if each.is_floating_point() and each.layout == torch.strided:
                signs = torch.randint(0, 2, each.shape, generator=self._generator, device="cpu") * 2 - 1
                each.data.mul_(1 + torch.finfo(each.dtype).eps * signs.to(each.dtype))  # what autograd has saved stays


def install(seed: int) -> None:
    """Perturb from here on."""
    perturbation = Perturbation(seed)
    register_module_forward_pre_hook(perturbation.before_forward)
    register_optimizer_step_post_hook(perturbation.after_step)
