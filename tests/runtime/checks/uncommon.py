"""What scripts do beside the plain loop: the ranks' result is that of one process, or an error says what cannot be."""

import copy
import io
import itertools
import tempfile
import warnings

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.utils import parametrizations, spectral_norm, weight_norm
from torch.optim.lr_scheduler import LinearLR, OneCycleLR, ReduceLROnPlateau, SequentialLR
from torch.utils.data import DataLoader, TensorDataset

from accelify.runtime import Accelerator
from accelify.runtime.gradients.distributed import BackwardFailed
from accelify.runtime.gradients.reducer import GradientGone


def _net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def _data(number):
    generator = torch.Generator().manual_seed(number)
    return torch.randn(4, 3, generator=generator), torch.randn(4, 1, generator=generator)


def _loss(model, x, y):
    return (model(x) - y).square().mean()


def _of_all(accelerator, model, number, loss=_loss):
    """The loss of one process, on what all ranks have."""
    everyone = [_data(number + rank) for rank in range(accelerator.num_processes)]
    return loss(model, *map(torch.cat, zip(*everyone, strict=True)))


def _assert_close(left, right):
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def _assert_equal_on_ranks(accelerator, tensors):
    everyone = accelerator.gather_object([tensor.detach() for tensor in tensors])
    for other in everyone[1:]:
        assert all(map(torch.equal, everyone[0], other))


def _trains_alike(accelerator, make, loss=_loss, optimizer=torch.optim.SGD):
    model, plain = make(), make()
    ours, theirs = (optimizer(one.parameters(), lr=0.1) for one in (model, plain))
    model, ours = accelerator.prepare(model, ours)
    for step in range(3):
        ours.zero_grad()
        accelerator.backward(loss(model, *_data(10 * step + accelerator.process_index)))
        ours.step()
        theirs.zero_grad()
        _of_all(accelerator, plain, 10 * step, loss).backward()
        theirs.step()
    _assert_equal_on_ranks(accelerator, model.parameters())
    _assert_close(list(model.parameters()), list(plain.parameters()))
    return model


def a_discriminator_frozen_while_the_generator_trains(accelerator):
    def discriminator():
        return nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1))

    generator, critic = accelerator.prepare(_net(), discriminator())
    optimizers = accelerator.prepare(*(torch.optim.SGD(one.parameters(), 0.1) for one in (generator, critic)))
    for step in range(3):
        x, y = _data(10 * step + accelerator.process_index)
        for optimizer, is_critics in zip(optimizers, (False, True), strict=True):
            critic.requires_grad_(is_critics)
            optimizer.zero_grad()
            made = generator(x).detach() if is_critics else generator(x)
            accelerator.backward(critic(made).square().mean() - (critic(y).mean() if is_critics else 0))
            optimizer.step()
    _assert_equal_on_ranks(accelerator, [*generator.parameters(), *critic.parameters(), *critic.buffers()])


def inner_steps_of_meta_learning(accelerator):
    def loss(model, x, y):
        weights = dict(model.named_parameters())
        # The inner loss does not depend on the rank's data, as that of one task of all would not.
        inner = functional_call(model, weights, (torch.ones(2, 3),)).square().mean()
        gradients = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        fast = {key: value - 0.1 * step for (key, value), step in zip(weights.items(), gradients, strict=True)}
        return (functional_call(model, fast, (x,)) - y).square().mean()

    _trains_alike(accelerator, _net, loss)


def gradients_in_memory_of_the_scripts_own(accelerator):
    model, plain = accelerator.prepare(_net()), _net()
    flat = torch.zeros(sum(parameter.numel() for parameter in model.parameters()))
    pieces = torch.split(flat, [parameter.numel() for parameter in model.parameters()])
    for parameter, piece in zip(model.parameters(), pieces, strict=True):
        parameter.grad = piece.view_as(parameter)
    for step in range(2):
        flat.zero_()
        accelerator.backward(_loss(model, *_data(10 * step + accelerator.process_index)))
        plain.zero_grad()
        _of_all(accelerator, plain, 10 * step).backward()
        _assert_close([flat], [torch.cat([parameter.grad.reshape(-1) for parameter in plain.parameters()])])


def complex_parameters(accelerator):
    class Complex(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.bias = nn.Parameter(torch.zeros(1))
            self.weight = nn.Parameter(torch.randn(3, 2, dtype=torch.complex64))

        def forward(self, x):
            return (x.to(torch.complex64) @ self.weight).abs().sum(1, keepdim=True) + self.bias

    _trains_alike(accelerator, Complex)


def normed_weights_before_and_after_prepare(accelerator):
    def normed(norm):
        def make():
            net = _net()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                norm(net[0])
            return net

        return make

    for norm in (weight_norm, parametrizations.weight_norm, spectral_norm, parametrizations.spectral_norm):
        model = _trains_alike(accelerator, normed(norm))
        _assert_equal_on_ranks(accelerator, model.buffers())
    model, plain = accelerator.prepare(_net()), _net()
    for one in (model, plain):
        parametrizations.weight_norm(one[0])
    accelerator.backward(_loss(model, *_data(accelerator.process_index)))
    _of_all(accelerator, plain, 0).backward()
    _assert_close(*([parameter.grad for parameter in one.parameters()] for one in (model, plain)))


def scripted_models(accelerator):
    def make():
        return torch.jit.script(nn.Sequential(_net(), nn.LayerNorm(1)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _trains_alike(accelerator, make)
        accelerator.prepare(torch.jit.script(nn.BatchNorm1d(3)))


def copies_and_pickles_of_a_prepared_model_are_plain(accelerator):
    model, file = _trains_alike(accelerator, _net), io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for one in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert list(one.state_dict()) == list(_net().state_dict())
        _assert_close(list(one.parameters()), list(model.parameters()))
        one.zero_grad()
        _loss(one, *_data(accelerator.process_index)).backward()
        alone, *others = accelerator.gather_object(one[0].weight.grad)
        assert not any(torch.equal(alone, other) for other in others)
        again = accelerator.prepare(one)
        again.zero_grad()
        accelerator.backward(_loss(again, *_data(accelerator.process_index)))
        _assert_equal_on_ranks(accelerator, [parameter.grad for parameter in again.parameters()])
    model.load_state_dict(_net().state_dict())
    accelerator.backward(_loss(model, *_data(accelerator.process_index)))
    _assert_equal_on_ranks(accelerator, [parameter.grad for parameter in model.parameters()])


def parameters_put_into_a_group_later(accelerator):
    rank = accelerator.process_index
    for is_replaced in (False, True):
        model, own = _net(), torch.full((1,), float(rank), requires_grad=True)
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
        stepped = optimizer.param_groups[0]["params"]
        if is_replaced:
            optimizer.param_groups[0]["params"] = [own]
        else:
            stepped.append(own)
        accelerator.backward(_loss(model, *_data(rank)) + own.sum() * (rank + 1))
        optimizer.step()
        _assert_equal_on_ranks(accelerator, [own])


def a_step_inside_of_the_backward_pass_is_refused(accelerator):
    for is_first in (False, True):
        model = _net()
        steps = {parameter: torch.optim.SGD([parameter], 0.1) for parameter in model.parameters()}

        def step(parameter, steps=steps):
            steps[parameter].step()
            steps[parameter].zero_grad()

        if not is_first:
            accelerator.prepare(model)
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(step)
        accelerator.prepare(model)
        with pytest.raises(GradientGone, match="a hook of the script's own"):
            accelerator.backward(_loss(model, *_data(accelerator.process_index)))


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("no gradient today")


def a_backward_pass_that_fails_on_one_rank_fails_on_all(accelerator):
    def large():
        return nn.Sequential(_net()[0], nn.Linear(5, 600), nn.Linear(600, 600), nn.Linear(600, 1))

    for make, models in itertools.product((_net, large), (1, 2)):
        model, *_ = [accelerator.prepare(make()) for _ in range(models)]
        plain = copy.deepcopy(model)
        for turn in range(2):
            x, y = _data(turn + accelerator.process_index)
            is_here = accelerator.process_index == turn
            hidden = model[0](x)
            loss = _loss(model[1:], Failing.apply(hidden) if is_here else hidden, y)
            with pytest.raises(ValueError if is_here else BackwardFailed, match="no gradient today"):
                accelerator.backward(loss)
            # As a script does that leaves such a batch out
            model.zero_grad()
            accelerator.backward(_loss(model, x, y))
            plain.zero_grad()
            _of_all(accelerator, plain, turn).backward()
            _assert_close(*([parameter.grad for parameter in one.parameters()] for one in (model, plain)))
            model.zero_grad()


def loaders_of_no_batch_or_one(accelerator):
    for rows, options in itertools.product(
        range(4), ({"batch_size": 1}, {"batch_size": 4}, {"batch_size": 2}, {"batch_size": 4, "drop_last": True})
    ):
        plain = DataLoader(TensorDataset(torch.arange(float(rows))), **options)
        loader, gathered, steps = accelerator.prepare(plain), [], 0
        for (batch,) in loader:
            gathered += accelerator.gather_for_metrics(batch).tolist()
            steps += 1
        assert steps == len(loader)
        assert gathered == [row for (batch,) in plain for row in batch.tolist()]


def a_loader_whose_length_is_not_implemented(accelerator):
    """torchtext raises NotImplementedError where batches are as large as their rows allow."""

    class Unmeasured:
        batch_size = 2

        def __iter__(self):
            return iter(torch.arange(8).split(2))

        def __len__(self):
            raise NotImplementedError

    seen = [batch.tolist() for batch in accelerator.prepare(Unmeasured())]
    everyone = accelerator.gather_object(seen)
    assert sorted(row for rank in everyone for batch in rank for row in batch) == list(range(8))


def windows_within_windows(accelerator):
    accelerator = Accelerator(gradient_accumulation_steps=2)
    models, plain = [_net(), _net()], _net()
    made = accelerator.prepare(*models, *(torch.optim.SGD(one.parameters(), 0.1) for one in models))
    outer, inner, outer_optimizer, inner_optimizer = made
    theirs = torch.optim.SGD(plain.parameters(), 0.1)
    for step in range(4):
        with accelerator.accumulate(outer):
            with accelerator.accumulate(inner):
                data = _data(10 * step + accelerator.process_index)
                accelerator.backward(_loss(outer, *data) + _loss(inner, *data))
                inner_optimizer.step()
                inner_optimizer.zero_grad()
            outer_optimizer.step()
            outer_optimizer.zero_grad()
        (_of_all(accelerator, plain, 10 * step) / 2).backward()
        if step % 2:
            theirs.step()
            theirs.zero_grad()
    for one in (outer, inner):
        _assert_close(list(one.parameters()), list(plain.parameters()))


def a_plateau_is_that_of_the_mean_on_all_ranks(accelerator):
    rank, mean = accelerator.process_index, (accelerator.num_processes - 1) / 2
    ours, theirs = (torch.optim.SGD(_net().parameters(), 1.0) for _ in range(2))
    scheduler = accelerator.prepare(ReduceLROnPlateau(ours, patience=0, factor=0.5))
    plain = ReduceLROnPlateau(theirs, patience=0, factor=0.5)
    for epoch in range(4):
        scheduler.step(float(rank * epoch))
        plain.step(mean * epoch)
        assert (
            accelerator.gather_object(ours.param_groups[0]["lr"])
            == [theirs.param_groups[0]["lr"]] * accelerator.num_processes
        )


def schedules_that_know_their_length_end_with_it(accelerator):
    batches = 7  # of one process: four steps on two
    for make in (
        lambda optimizer: OneCycleLR(optimizer, 1.0, total_steps=2 * batches),
        lambda optimizer: SequentialLR(optimizer, [LinearLR(optimizer), LinearLR(optimizer)], [3]),
    ):
        optimizer = accelerator.prepare(torch.optim.SGD(_net().parameters(), 1.0))
        scheduler = accelerator.prepare_scheduler(make(optimizer), per="batch")
        for _ in range(2 * -(-batches // accelerator.num_processes)):
            optimizer.step()
            scheduler.step()
        assert scheduler.last_epoch in (2 * batches, 2 * batches + 2)
        scheduler.load_state_dict(copy.deepcopy(scheduler.state_dict()))


def ddp_of_the_scripts_own_changes_nothing(accelerator):
    model, plain = accelerator.prepare(nn.parallel.DistributedDataParallel(_net())), _net()
    accelerator.backward(_loss(model, *_data(accelerator.process_index)))
    _of_all(accelerator, plain, 0).backward()
    _assert_close(*([parameter.grad for parameter in one.parameters()] for one in (model, plain)))


def checkpoints_of_uncommon_tensors(accelerator):
    home = accelerator.gather_object(tempfile.mkdtemp())[0]
    accelerator = Accelerator(project_dir=home)
    model = nn.Linear(2, 2, dtype=torch.complex64)
    model.register_buffer("turned", torch.arange(6.0).reshape(2, 3).t())
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters()))
    accelerator.backward(model(torch.ones(1, 2, dtype=torch.complex64)).abs().sum())
    optimizer.step()
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    accelerator.save_state()
    with torch.no_grad():
        model.weight.zero_()
    accelerator.load_state()
    for one, other in zip(before[0].values(), model.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(before[1]["state"][0]["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"])


def what_lists_and_dicts_hold_is_prepared(accelerator):
    models = [_net(), _net()]
    optimizer = torch.optim.SGD([parameter for model in models for parameter in model.parameters()], 0.1)
    loaders = {"train": DataLoader(torch.arange(8.0), batch_size=2), "seed": 3}
    prepared = accelerator.prepare(optimizer, models, loaders)
    assert prepared[1] is models
    assert prepared[2]["seed"] == 3
    assert len(prepared[2]["train"]) == len(loaders["train"]) // accelerator.num_processes
    accelerator.backward(sum(_loss(model, *_data(accelerator.process_index)) for model in models))
    optimizer.step()
    _assert_equal_on_ranks(accelerator, [parameter for model in models for parameter in model.parameters()])


def parts_that_an_output_does_not_have_stay_none(accelerator):
    logits, past = accelerator.gather_for_metrics((torch.ones(2), None))
    assert len(logits) == 2 * accelerator.num_processes
    assert past is None
