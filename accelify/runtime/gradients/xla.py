"""Training on XLA devices: a step's trace ends with its optimizer, gradients are averaged in one program."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import Optimizer

from accelify.runtime.gradients.replica import Replica, Trained
from accelify.runtime.gradients.strategy import Replicas, Strategy
from accelify.runtime.world.xla import CannotUseXla, Devices, module, own_program


class EndOfTrace:
    """Runs what a step traced when its optimizer has stepped, as `xm.optimizer_step(optimizer, barrier=True)` does."""

    @classmethod
    def follows(cls, optimizer: Optimizer) -> None:
        """Have every step of this optimizer end the trace."""
        hooks = optimizer._optimizer_step_post_hooks.values()
        if not any(isinstance(hook, cls) for hook in hooks):
            optimizer.register_step_post_hook(cls())

    def __call__(self, *_: object) -> None:
        module().sync()


class XlaSingle(Strategy):
    """One process on an XLA device."""

    def prepare_optimizer(self, optimizer: Optimizer) -> None:
        """Have its steps end the trace."""
        EndOfTrace.follows(optimizer)


class XlaReplica(Replica):
    """A replica on an XLA device. Gradients wait until the backward pass is traced, and then travel all at once."""

    def __init__(self, model: Trained, devices: Devices) -> None:
        super().__init__(model, devices.size)
        self._devices = devices
        self._norms: list[nn.Module] = []

    def copy_from_rank_0(self, tensors: list[torch.Tensor]) -> None:
        """Rank 0's values in the tensors of all ranks, in place, in one program."""
        if tensors:
            self._devices.copy(tensors, 0)

    def arrange(self, modules: list[nn.Module]) -> None:
        """Find the batch norms, whose statistics are averaged as gradients are."""
        self._norms = [each for each in modules if isinstance(each, nn.modules.batchnorm._NormBase)]

    def statistics(self) -> list[torch.Tensor]:
        """The statistics of the batch norms that keep any."""
        kept = [each for norm in self._norms for each in (norm.running_mean, norm.running_var)]
        return [each for each in kept if isinstance(each, torch.Tensor)]

    def open(self) -> None:
        """Begin a round."""
        self.is_open = True

    def arrived(self, index: int, parameter: torch.Tensor) -> None:
        """Raises: CannotUseXla for a backward pass whose gradients nothing averages."""
        if self.owner is not None and self.owner.synchronises and not self.is_open:
            raise CannotUseXla("loss.backward() averages no gradients on XLA devices: call accelerator.backward(loss)")


class XlaReplicas(Replicas[XlaReplica]):
    """Several XLA devices, each with a copy: gradients are averaged as `xm.optimizer_step` does, in `backward`."""

    def prepare_optimizer(self, optimizer: Optimizer) -> None:
        """Have its own parameters averaged, too, and its steps end the trace."""
        super().prepare_optimizer(optimizer)
        EndOfTrace.follows(optimizer)

    def make_replica(self, trained: Trained) -> XlaReplica:
        """A replica on this rank's device."""
        return XlaReplica(trained, Devices(self._world))

    def finish(self, replicas: list[XlaReplica]) -> None:
        """Average all gradients and statistics in one program, the same on every rank, whoever has which gradient.

        Only a rank that lacks a gradient has to look whether another one has it; the others wait for nothing.
        """
        for replica in replicas:
            replica.close()
        parameters = [parameter for replica in replicas for parameter in replica.parameters]
        if not parameters:
            return
        statistics = [each.data for replica in replicas for each in replica.statistics()]
        used = torch.tensor([float(p.grad is not None) for p in parameters]).to(self._world.device)
        # Copies: reduced in place through an alias, torch_xla 2.9 leaves the old values in the gradient itself.
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad.detach().clone() for p in parameters]
        means = [each.clone() for each in statistics]
        collectives = module("core.xla_model")
        with own_program():
            everything = [*gradients, *means, used]
            collectives.all_reduce(collectives.REDUCE_SUM, everything, scale=1.0 / self._world.size)
        lacking = [index for index, parameter in enumerate(parameters) if parameter.grad is None]
        used_by = used.tolist() if lacking else []
        for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            if parameter.grad is not None:
                parameter.grad.data.copy_(gradient)
            elif used_by[index] > 0:
                parameter.grad = gradient
        for statistic, mean in zip(statistics, means, strict=True):
            statistic.copy_(mean)
