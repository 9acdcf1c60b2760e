"""Windows of micro-batches over several processes, and mixed precision there."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from accelify.runtime import Accelerator, DataLoaderConfiguration, GradientAccumulationPlugin
from accelify.runtime.gradients.agreement import Diverged
from accelify.runtime.local_sgd import LocalSGD
from accelify.runtime.utils import gather_object, synchronize_rng_states
from accelify.runtime.world.desync import Desync


def _everyone(accelerator, value):
    return accelerator.state._collectives.gather_object(value)


def _data(length):
    generator = torch.Generator().manual_seed(length)
    return TensorDataset(torch.randn(length, 4, generator=generator), torch.randint(3, (length,), generator=generator))


def _model():
    torch.manual_seed(0)
    return nn.Linear(4, 3)


def _weights_by_hand(length, batch_size, window, ranks):
    """Plain SGD on one process, a step per window of rounds: the mean over its micro-batches."""
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    batches = list(DataLoader(_data(length), batch_size=batch_size))
    weights = []
    for start in range(0, len(batches), window * ranks):
        group = batches[start : start + window * ranks]
        optimizer.zero_grad()
        for x, y in group:
            (cross_entropy(model(x), y) / len(group)).backward()
        optimizer.step()
        weights.append(model.weight.detach().clone())
    return weights


def _weights_accumulated(length, batch_size, window, at_top):
    accelerator = Accelerator(gradient_accumulation_steps=window)
    model = _model()
    loader, model, optimizer = accelerator.prepare(
        DataLoader(_data(length), batch_size=batch_size), model, torch.optim.SGD(model.parameters(), 0.5)
    )
    weights = []
    for x, y in loader:
        with accelerator.accumulate(model):
            if at_top:
                optimizer.zero_grad()
            accelerator.backward(cross_entropy(model(x), y))
            optimizer.step()
            if not at_top:
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                weights.append(model.weight.detach().clone())
    return weights


def zero_grad_at_the_top_or_bottom_gives_the_same_gradients(accelerator):
    ranks = accelerator.num_processes
    # 12 batches: whole windows. 10: the last window has one micro-batch on each of two ranks instead of two or three.
    for length, window in ((24, 3), (20, 2), (20, 3), (8, 4)):
        expected = _weights_by_hand(length, 2, window, ranks)
        for at_top in (True, False):
            weights = _weights_accumulated(length, 2, window, at_top)
            torch.testing.assert_close(weights, expected)
            assert len({str(seen) for seen in _everyone(accelerator, weights)}) == 1


def a_gan_keeps_a_window_for_each_network(accelerator):
    accelerator = Accelerator(gradient_accumulation_steps=2)
    first, second = _model(), _model()
    loader = accelerator.prepare(DataLoader(_data(16), batch_size=2))
    first, second = accelerator.prepare(first, second)
    optimizers = accelerator.prepare(*(torch.optim.SGD(net.parameters(), 0.1) for net in (first, second)))
    steps = []
    for x, y in loader:
        for number, (net, optimizer) in enumerate(zip((first, second), optimizers, strict=True)):
            with accelerator.accumulate(net):
                before = net.weight.detach().clone()
                accelerator.backward(cross_entropy(net(x), y))
                optimizer.step()
                optimizer.zero_grad()
                steps.append((number, not torch.equal(before, net.weight)))
    assert steps == [(0, False), (1, False), (0, True), (1, True)] * 2
    torch.testing.assert_close(first.weight, second.weight)


def communication_waits_for_the_last_micro_batch(accelerator):
    for each in (False, True):
        plugin = GradientAccumulationPlugin(num_steps=2, sync_each_batch=each)
        other = Accelerator(gradient_accumulation_plugin=plugin)
        model = other.prepare(_model())
        x = torch.full((1, 4), 1.0 + other.process_index)
        with other.accumulate(model):
            other.backward(model(x).sum())
            assert len({str(g) for g in _everyone(other, model.weight.grad.tolist())}) == (1 if each else 2)


def weights_of_tokens_give_the_mean_over_all_tokens(accelerator):
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model, plain = accelerator.prepare(_model()), _model()
    counts = [[3, 1], [5, 2]]
    data = {(r, i): _data(10 * r + i + 1)[: counts[r][i]] for r in range(2) for i in range(2)}
    for number, index in enumerate((0, 1)):
        x, y = data[accelerator.process_index, index]
        with accelerator.accumulate(model):
            accelerator.backward(cross_entropy(model(x), y), weight=len(y))
            assert accelerator.sync_gradients == bool(number)
    everything = [torch.cat([pair[kind] for pair in data.values()]) for kind in (0, 1)]
    cross_entropy(plain(everything[0]), everything[1]).backward()
    torch.testing.assert_close(model.weight.grad, plain.weight.grad)


def tokens_of_which_there_are_none_leave_no_gradient(accelerator):
    model = accelerator.prepare(_model())
    accelerator.backward(model(torch.ones(1, 4)).sum(), weight=0)
    assert not model.weight.grad.any()


def an_iterable_of_unknown_length_closes_its_last_window(accelerator):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([torch.full((4,), float(number)) for number in range(10)])

    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = _model()
    loader, model, optimizer = accelerator.prepare(
        DataLoader(Stream(), batch_size=2), model, torch.optim.SGD(model.parameters(), 0.1)
    )
    syncs = []
    for x in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(x).mean())
            optimizer.step()
            optimizer.zero_grad()
            syncs.append(accelerator.sync_gradients)
    assert syncs == [False, True, True]


def schedulers_take_a_step_for_each_batch_of_all_processes(accelerator):
    for window, expected in ((1, 6 * accelerator.num_processes), (3, 2 * accelerator.num_processes)):
        other = Accelerator(gradient_accumulation_steps=window)
        model = _model()
        optimizer = torch.optim.SGD(model.parameters(), 1.0)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        prepared = other.prepare(model, optimizer, scheduler)
        assert prepared[2] is scheduler
        for _ in range(6):
            with other.accumulate(model):
                other.backward(model(torch.ones(1, 4)).sum())
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        assert scheduler.get_last_lr() == [0.5**expected]
        assert "step" not in scheduler.state_dict()


def a_prepared_schedule_follows_batches_or_epochs(accelerator):
    size = accelerator.num_processes
    for rows, when, split, expected in (
        (24, "step", False, 24),  # as Accelerate: all batches of all processes
        (24, "step", True, 12 * 2),
        (24, "epoch", False, 2),
        (24, "last", False, 2),
        (2, "epoch", False, 2),  # an epoch of one step
        (24, "break", False, 2),
    ):
        other = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=split))
        optimizer = torch.optim.SGD(_model().parameters(), 1.0)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        loader = DataLoader(torch.ones(rows, 1), batch_size=2 if rows > 2 else 1)
        loader, optimizer, scheduler = other.prepare(loader, optimizer, scheduler)
        for _ in range(2):
            for index, _batch in enumerate(loader):
                optimizer.step()
                if when == "step" or (when == "last" and index == len(loader) - 1):
                    scheduler.step()
                if when == "break" and index == 2:
                    break
            if when in ("epoch", "break"):
                scheduler.step()
        assert scheduler.last_epoch == expected, (when, split, size)


def a_prepared_schedule_counts_steps_where_it_is_told_to(accelerator):
    optimizer = torch.optim.SGD(_model().parameters(), 1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    accelerator.prepare_scheduler(scheduler, per="step")
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    assert scheduler.last_epoch == 3


def local_sgd_averages_parameters_now_and_then(accelerator):
    rank, mean = accelerator.process_index, (accelerator.num_processes - 1) / 2
    other = Accelerator()
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    model, optimizer = other.prepare(model, torch.optim.SGD(model.parameters(), 1.0, momentum=0.5))
    seen = []
    with LocalSGD(other, model, local_sgd_steps=2) as local:
        for _ in range(3):
            other.backward(-model(torch.full((1, 1), float(rank))).sum())
            optimizer.step()
            optimizer.zero_grad()
            local.step()
            seen.append(model.weight.item())
    assert seen == [rank, 2.5 * mean, 2.5 * mean + 1.75 * rank]
    assert model.weight.item() == 4.25 * mean
    with pytest.raises(Diverged, match="state of SGD"):  # its momentum
        other.backward(model(torch.ones(1, 1)).sum())


def random_states_are_those_of_process_0(accelerator):
    torch.manual_seed(accelerator.process_index)
    synchronize_rng_states(["torch"])
    assert set(accelerator.gather(torch.rand(1)).tolist()) == {torch.manual_seed(0) and torch.rand(1).item()}
    assert gather_object([accelerator.process_index] * 2) == [r for r in range(accelerator.num_processes) for _ in "ab"]


def a_schedule_counted_before_prepare_advances_by_virtual_batches(accelerator):
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 12)
    accelerator.prepare_scheduler(scheduler, per="batch")
    optimizer.step()
    scheduler.step()
    assert scheduler.last_epoch == accelerator.num_processes
    with pytest.raises(ValueError, match="epoch"):
        accelerator.prepare_scheduler(scheduler, per="epoch")


def bf16_computes_low_and_returns_high(accelerator):
    accelerator = Accelerator(mixed_precision="bf16")
    seen = []

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            out = self.layer(x)
            seen.append(out.dtype)
            return {"out": out, "n": 1}

    torch.manual_seed(0)
    model = Net()
    plain = copy.deepcopy(model)
    accelerator.prepare(model)
    assert accelerator.prepare(model) is model
    x = torch.randn(5, 4)
    out = model(x)
    assert seen == [torch.bfloat16]
    assert out["out"].dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        expected = plain(x)["out"].float()
    assert torch.equal(out["out"], expected)
    accelerator.backward(out["out"].sum())
    assert len({str(g) for g in _everyone(accelerator, model.layer.weight.grad.tolist())}) == 1
    copied = copy.deepcopy(model)
    assert copied(x)["out"].dtype == torch.float32
    assert seen[-1] == torch.float32
    with pytest.raises(RuntimeError):
        model(torch.randn(5, 7))
    assert not torch.is_autocast_enabled("cpu")
    with accelerator.autocast():
        assert model.layer(x).dtype == torch.bfloat16
        assert model(x)["out"].dtype == torch.bfloat16  # as autocast leaves any module's


def fp16_overflow_holds_optimizer_and_scheduler(accelerator):
    accelerator = Accelerator(mixed_precision="fp16")
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    accelerator.prepare(model, optimizer, scheduler)
    scaler = accelerator._precision.scaler
    before, scale = model.weight.detach().clone(), scaler.get_scale()
    # Only rank 1's gradient overflows; both must skip.
    factor = math.inf if accelerator.process_index == 1 else 1.0
    accelerator.backward(model(torch.ones(2, 4)).mean() * factor)
    optimizer.step()
    scheduler.step()
    assert accelerator.optimizer_step_was_skipped
    assert optimizer.step_was_skipped
    assert torch.equal(model.weight, before)
    assert scheduler.last_epoch == 0
    assert scaler.get_scale() == scale / 2
    optimizer.zero_grad()
    accelerator.backward(model(torch.ones(2, 4)).mean())
    norm = accelerator.clip_grad_norm_(model.parameters(), 1e9)
    assert torch.equal(accelerator.clip_grad_norm_(model.parameters(), 1e9), norm)
    assert norm < 10
    optimizer.step()
    scheduler.step()
    assert not accelerator.optimizer_step_was_skipped
    assert not optimizer.step_was_skipped
    assert scheduler.last_epoch == accelerator.num_processes
    torch.testing.assert_close(before - 0.1 * model.weight.grad, model.weight)
    assert len({str(w) for w in _everyone(accelerator, model.weight.tolist())}) == 1


def fp16_updates_the_scale_once_when_all_optimizers_have_stepped(accelerator):
    accelerator = Accelerator(mixed_precision="fp16")
    models = accelerator.prepare(_model(), _model())
    optimizers = accelerator.prepare(*(torch.optim.SGD(net.parameters(), 0.1) for net in models))
    scaler = accelerator._precision.scaler
    updates = []
    original = scaler.update
    scaler.update = lambda *arguments: (updates.append(arguments), original(*arguments))
    for net, optimizer in zip(models, optimizers, strict=True):
        accelerator.backward(net(torch.ones(1, 4)).mean())
        optimizer.step()
    assert updates == [()]
    for _ in range(2):
        models[0].zero_grad()
        accelerator.backward(models[0](torch.ones(1, 4)).mean())
        optimizers[0].step()
        assert models[0].weight.grad.abs().max() <= 1


def clipping_inside_a_window_touches_nothing(accelerator):
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = accelerator.prepare(_model())
    with accelerator.accumulate(model):
        accelerator.backward(model(torch.ones(1, 4)).sum())
        before = model.weight.grad.clone()
        norm = accelerator.clip_grad_norm_(model.parameters(), 0.01)
        accelerator.clip_grad_value_(model.parameters(), 0.01)
        assert torch.equal(model.weight.grad, before)
        assert norm > 0.01
    with accelerator.accumulate(model):
        accelerator.backward(model(torch.ones(1, 4)).sum())
        accelerator.clip_grad_norm_(model.parameters(), 0.01)
        assert model.weight.grad.norm() <= 0.01


def objects_padding_parts_and_triggers(accelerator):
    rank = accelerator.process_index
    assert accelerator.gather_object({"rank": rank}) == [{"rank": 0}, {"rank": 1}]
    assert accelerator.broadcast(torch.tensor([rank + 5]), from_process=1).tolist() == [6]
    padded = accelerator.pad_across_processes([torch.ones(2 + rank, 3), torch.tensor(rank)], pad_index=-1)
    assert padded[0].shape == (3, 3)
    assert padded[0][-1].tolist() == ([-1.0] * 3 if rank == 0 else [1.0] * 3)
    assert accelerator.pad_across_processes(torch.ones(1, 1 + rank), dim=1, pad_first=True).shape == (1, 2)
    for given in (torch.ones(1, 1 + rank), torch.ones(1, dtype=(torch.float32, torch.int64)[rank]), [1] * (1 + rank)):
        with pytest.raises(Desync, match="pad_across_processes dim 0 of"):
            accelerator.pad_across_processes(given)
    given = {"a": [1, 2, 3], "b": torch.arange(3)}
    for _ in range(2):
        with accelerator.split_between_processes(given) as part:
            assert part["a"] == [[1, 2], [3]][rank]
    with accelerator.split_between_processes((1, 2, 3), apply_padding=True) as part:
        assert part == [(1, 2), (3, 3)][rank]
    assert not accelerator.check_trigger()
    if rank == 1:
        accelerator.set_trigger()
    assert accelerator.check_trigger()
    assert not accelerator.check_trigger()
    assert accelerator.on_main_process(lambda: 1)() == (1 if rank == 0 else None)
    assert accelerator.on_process(1)(lambda: 1)() == (1 if rank == 1 else None)
    assert accelerator.on_last_process(lambda: 1)() == (1 if rank == 1 else None)
