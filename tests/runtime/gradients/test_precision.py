"""The scale of fp16 losses, with the scaler that the CPU has, too."""

import pytest
import torch
from torch import nn

from accelify.runtime import Accelerator, Environment, GradScalerKwargs
from accelify.runtime.gradients.precision import Float16


def prepared(count, **options):
    precision = Float16(torch.device("cpu"), {}, {"init_scale": 1024.0, **options})
    weights = [nn.Parameter(torch.zeros(1)) for _ in range(count)]
    optimizers = [torch.optim.SGD([weight], lr=1.0) for weight in weights]
    for optimizer in optimizers:
        precision.watch(optimizer)
    return precision, weights, optimizers


def step(precision, weight, optimizer, gradient):
    """One step by a loss of this gradient; whether it was taken."""
    precision.scale((weight * gradient).sum()).backward()
    _, is_taken = precision.step(optimizer, optimizer.step)
    optimizer.zero_grad()
    return is_taken


def test_an_overflow_of_an_optimizer_that_steps_alone_lowers_the_scale():
    precision, (weight, _), (optimizer, _) = prepared(2)
    assert not step(precision, weight, optimizer, float("inf"))
    assert step(precision, weight, optimizer, 3.0)
    assert precision.scaler.get_scale() == 512.0
    assert weight.item() == -3.0


def test_an_optimizer_that_steps_alone_raises_the_scale():
    precision, (weight, _), (optimizer, _) = prepared(2, growth_interval=2)
    assert all(step(precision, weight, optimizer, 3.0) for _ in range(3))
    assert precision.scaler.get_scale() == 2048.0
    assert weight.item() == -9.0


@pytest.mark.parametrize("gradient", [float("inf"), 3.0])
def test_gradients_that_wait_follow_the_scale(gradient):
    precision, (first, second), (often, seldom) = prepared(2, growth_interval=1)
    precision.scale((second * 5.0).sum()).backward()
    for _ in range(3):
        step(precision, first, often, gradient)
    assert precision.scaler.get_scale() != 1024.0
    precision.scale((second * 2.0).sum()).backward()
    precision.step(seldom, seldom.step)
    assert second.item() == -7.0


def test_the_scale_changes_once_when_both_have_stepped():
    precision, weights, optimizers = prepared(2)
    for _ in range(2):
        assert not step(precision, weights[0], optimizers[0], float("inf"))
        assert step(precision, weights[1], optimizers[1], 1.0)
    assert precision.scaler.get_scale() == 256.0
    assert weights[1].item() == -2.0


def test_clipping_unscales_what_it_clips_alone_and_once():
    scaler = GradScalerKwargs(init_scale=1024.0)
    alone = Accelerator(cpu=True, environment=Environment(), mixed_precision="fp16", kwargs_handlers=[scaler])
    first, second = alone.prepare(nn.Linear(2, 1, bias=False), nn.Linear(2, 1, bias=False))
    optimizers = alone.prepare(*(torch.optim.SGD(net.parameters(), lr=1.0) for net in (first, second)))
    before = [net.weight.detach().clone() for net in (first, second)]
    for net in (first, second):
        alone.backward((net.weight * torch.tensor([[3.0, 4.0]])).sum())
    assert alone.clip_grad_norm_(first.parameters(), 100.0).item() == 5.0
    assert second.weight.grad.tolist() == [[3072.0, 4096.0]]
    alone.clip_grad_value_(first.parameters(), 3.5)
    assert first.weight.grad.tolist() == [[3.0, 3.5]]
    alone.unscale_gradients(optimizers[1])
    alone.unscale_gradients()
    assert second.weight.grad.tolist() == [[3.0, 4.0]]
    for optimizer in optimizers:
        optimizer.step()
    assert not alone.optimizer_step_was_skipped
    taken = [old - net.weight for old, net in zip(before, (first, second), strict=True)]
    torch.testing.assert_close(taken, [torch.tensor([[3.0, 3.5]]), torch.tensor([[3.0, 4.0]])])
