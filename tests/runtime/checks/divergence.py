"""What changes a model on one rank alone is told: by a save, and with `debug` by the next backward pass."""

import copy
import dataclasses
import tempfile
import warnings
from functools import partial

import pytest
import torch
from torch import nn

from accelify.runtime import Accelerator
from accelify.runtime.gradients.agreement import Diverged
from accelify.runtime.world.desync import Desync
from accelify.runtime.world.environment import Environment


def _told(accelerator):
    """What a save says of the models."""
    folder = accelerator.gather_object(tempfile.mkdtemp())[0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        accelerator.save_state(f"{folder}/checkpoint")
    return [str(one.message) for one in caught if "holds another" in str(one.message)]


def a_state_loaded_by_one_rank_is_reported_when_it_is_saved(accelerator):
    model = accelerator.prepare(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)))
    optimizer = accelerator.prepare(torch.optim.Adam(model.parameters()))
    for _ in range(2):
        accelerator.backward(model(torch.ones(1, 3) * accelerator.process_index).sum())
        optimizer.step()
        optimizer.zero_grad()
    assert _told(accelerator) == []
    if accelerator.process_index == 1:
        model[1].load_state_dict(nn.Linear(3, 1).state_dict())
    told = _told(accelerator)
    assert len(told) == accelerator.is_main_process
    assert all("rank 1 holds another 1.weight of Sequential and 1 more than rank 0" in text for text in told)


def every_bit_counts(accelerator):
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.complex64):
        model = nn.Module()
        flat = torch.arange(12).to(dtype)
        model.rows = nn.Parameter(flat[1:12])  # at an odd place in memory
        accelerator.prepare(model)
        assert _told(accelerator) == []
        if accelerator.process_index == 1:
            with torch.no_grad():
                model.rows[10] *= 1 + 2 * torch.finfo(dtype).eps
        assert len(_told(accelerator)) == accelerator.is_main_process, dtype
        accelerator.free_memory()


def a_save_by_one_rank_alone_is_named(accelerator):
    accelerator.prepare(nn.Linear(3, 1))
    with pytest.raises(Desync, match=r"rank 0 \w+\.py:\d+ save_state .*; rank 1 \w+\.py:\d+ wait_for_everyone"):
        accelerator.save_state("never") if accelerator.is_main_process else accelerator.wait_for_everyone()


def _step(accelerator, model, optimizer, change=lambda: None):
    accelerator.backward(model(torch.ones(1, 3)).sum())
    change()
    optimizer.step()
    optimizer.zero_grad()


def optimizers_that_do_something_else_are_named(accelerator):
    def steps(optimizer, model, is_here):
        optimizer.step() if is_here else None

    def moments(optimizer, model, is_here):
        optimizer.state[model.weight]["exp_avg"].mul_(1 if is_here else 1 + 1e-6)

    words = {
        moments: "the state of Adam differ",
        steps: "the number of steps of Adam differ",
    }
    for change, expected in words.items():
        made, model = Accelerator(), nn.Linear(3, 1)
        kind = torch.optim.Adam if "Adam" in expected else torch.optim.SGD
        model, optimizer = made.prepare(model, kind(model.parameters(), lr=0.01))
        for step in range(7):
            made.backward(model(torch.ones(1, 3)).sum())
            if step == 4:
                change(optimizer, model, accelerator.is_main_process)
            optimizer.step()
            optimizer.zero_grad()
        with pytest.raises(Diverged, match=rf"at divergence.py:\d+: {expected}"):
            _step(made, model, optimizer)


def an_optimizer_s_state_may_be_read_on_one_rank(accelerator):
    made, model = Accelerator(), nn.Linear(3, 1)
    model, optimizer = made.prepare(model, torch.optim.Adam(model.parameters(), lr=0.01))
    for _ in range(3):
        if made.is_main_process:
            _ = [optimizer.state[one].get("step") for one in model.parameters()]
        _step(made, model, optimizer)


def what_the_script_changes_on_each_rank_is_what_rank_0_makes_of_it(accelerator):
    def clipping(model, rank):
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 * (1 + rank))

    def noise(model, rank):
        model.weight.grad += rank

    def limits(model, rank):
        model.weight.data.clamp_(-0.1 * rank - 0.1, 0.1)

    for change in (clipping, noise, limits):
        made, model = Accelerator(), nn.Linear(3, 1)
        model, optimizer = made.prepare(model, torch.optim.SGD(model.parameters(), lr=0.5))
        alone = copy.deepcopy(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(5):
                _step(made, model, optimizer, partial(change, model, made.process_index))
        assert sum("all take over rank 0's parameters" in str(one.message) for one in caught) == 1
        rule = torch.optim.SGD(alone.parameters(), lr=0.5)
        for _ in range(5):
            alone(torch.ones(1, 3)).sum().backward()
            change(alone, 0)
            rule.step()
            rule.zero_grad()
        assert torch.equal(model.weight, alone.weight)


def weights_that_are_put_back_before_the_step_may_differ(accelerator):
    made, model = Accelerator(), nn.Linear(3, 1)
    model, optimizer = made.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(4):
        kept = [one.data.clone() for one in model.parameters()]
        model.weight.data.add_(step * made.process_index)
        made.backward(model(torch.ones(1, 3)).sum())
        for one, before in zip(model.parameters(), kept, strict=True):
            one.data.copy_(before)
        optimizer.step()
    assert len(set(made.gather_object(model.weight.sum().item()))) == 1


def parameters_set_by_the_first_batch_become_those_of_rank_0(accelerator):
    class Scaled(nn.Module):
        """Sets its scale from the first batch, as normalising flows and codebooks do."""

        def __init__(self):
            super().__init__()
            self.register_buffer("is_set", torch.zeros(1))
            self.scale = nn.Parameter(torch.zeros(3))

        def forward(self, rows):
            if not self.is_set:
                self.scale.data.copy_(rows.mean(0))
                self.is_set += 1
            return rows * self.scale

    made, model = Accelerator(), Scaled()
    model, optimizer = made.prepare(model, torch.optim.Adam(model.parameters()))
    rows = torch.full((2, 3), 1.0 + made.process_index)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made.backward(model(rows).sum())
    assert any(
        "another scale of Scaled than rank 0, though no step has been taken" in str(one.message) for one in caught
    )
    assert model.scale.tolist() == [1.0] * 3
    for _ in range(3):
        optimizer.step()
        made.backward(model(rows).sum())


class Codebook(nn.Module):
    """Follows the batches by averages that no optimizer steps: one a buffer, one a parameter, one not in the state."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.zeros(3))
        self.register_buffer("length", torch.zeros(1), persistent=False)
        self.centre = nn.Parameter(torch.zeros(3), requires_grad=False)
        self.layer = nn.Linear(3, 1)

    def forward(self, rows):
        self.codes.data.mul_(0.5).add_(rows.mean(0))
        self.centre.data.mul_(0.5).add_(rows.mean(0))
        self.length.data.copy_(rows[0, :1])
        return self.layer(rows)


def what_no_optimizer_steps_becomes_that_of_rank_0(accelerator):
    made, model = Accelerator(), Codebook()
    model, optimizer = made.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    rows = torch.full((2, 3), 1.0 + made.process_index)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            made.backward(model(rows).sum())
            optimizer.step()
    told = [str(one.message) for one in caught if "no prepared optimizer steps it" in str(one.message)]
    assert len(told) == 1
    assert "rank 1 holds another centre of Codebook and 1 more than rank 0" in told[0]
    assert model.codes.tolist() == model.centre.tolist() == [1.75] * 3
    assert model.length.item() == 1.0 + made.process_index


def ranks_that_draw_their_own_data_are_compared(accelerator):
    made, model = Accelerator(), nn.Linear(3, 1)
    model, optimizer = made.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    made._rank_seed.is_used = True
    made.backward(model(torch.ones(1, 3)).sum())
    before = model.weight.data.clone()
    optimizer.param_groups[0]["lr"] = 0.1 * (1 + made.process_index)
    with pytest.warns(UserWarning, match="the lr of SGD differ between ranks 0 and 1: 0.1 on rank 0, 0.2 on rank 1"):
        _step(made, model, optimizer)
    _step(made, model, optimizer)
    assert torch.allclose(model.weight, before - 0.3)


def a_rank_that_ended_long_before_the_others_is_named(accelerator):
    made = Accelerator()
    model = made.prepare(nn.Linear(3, 1))
    made._rank_seed.is_used = True
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3 if made.is_main_process else 6):
            made.backward(model(torch.ones(1, 3)).sum())
            model.weight.data.mul_(1.5)  # alike, as long as both are there
        made._strategy.wait_at_exit()
    (told,) = [str(one.message) for one in caught if "came to the training's end" in str(one.message)]
    assert "rank 0 came to the training's end after 3 backward passes; rank 1 goes on alone" in told
    assert "Its files hold" in told


def a_save_names_what_of_optimizers_and_schedules_differs(accelerator):
    def rate(optimizer, schedule):
        optimizer.param_groups[0]["lr"] = 0.5

    def moments(optimizer, schedule):
        next(iter(optimizer.state.values()))["exp_avg"].view(-1)[-1] += 1

    def steps(optimizer, schedule):
        next(iter(optimizer.state.values()))["step"] += 1

    def epoch(optimizer, schedule):
        schedule.last_epoch += 1

    words = {
        rate: "param_groups.0.lr of Adam",
        moments: "state.0.exp_avg of Adam",
        steps: "state.0.step of Adam",
        epoch: "last_epoch of StepLR",
    }
    for change, expected in words.items():
        made, model = Accelerator(), nn.Linear(3, 1)
        optimizer = torch.optim.Adam(model.parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        made.prepare(model, optimizer, schedule)
        made.backward(model(torch.ones(1, 3)).sum())
        optimizer.step()
        schedule.step()
        assert _told(made) == []
        if not made.is_main_process:
            change(optimizer, schedule)
        told = _told(made)
        assert len(told) == made.is_main_process
        assert all(f"rank 1 holds another {expected} than rank 0" in text for text in told), told


def with_debug_the_next_backward_raises(accelerator):
    other = Accelerator(environment=dataclasses.replace(Environment.read(), debug=True))
    model = other.prepare(nn.Linear(3, 1))
    other.backward(model(torch.ones(1, 3)).sum())
    if other.process_index == 1:
        (gradient,) = torch.autograd.grad(model(torch.ones(1, 3)).sum(), model.weight)
        model.weight.data -= gradient
    with pytest.raises(Desync, match=r"divergence\.py:\d+ backward: rank 1 holds another weight of Linear than rank 0"):
        other.backward(model(torch.ones(1, 3)).sum())
