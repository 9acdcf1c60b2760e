"""What an optimizer steps beside its models is trained like a model: equal at the start, averaged in `backward`."""

import copy
import operator

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from accelify.runtime import Accelerator
from accelify.runtime.gradients.agreement import NotPrepared
from accelify.runtime.gradients.strategy import TrainedApart
from accelify.runtime.world.desync import Desync


def _tensors(rank):
    return [torch.full((3,), rank + 1.0, requires_grad=True), torch.full((2, 2), rank + 5.0, requires_grad=True)]


def _same(accelerator, tensor):
    everyone = accelerator.gather(tensor.detach()[None])
    return bool((everyone == everyone[0]).all())


def tensors_of_the_scripts_own(accelerator):
    rank = accelerator.process_index
    a, b = _tensors(rank)
    optimizer = accelerator.prepare(torch.optim.Adam([a, b], lr=0.1))
    assert a.tolist() == [1.0] * 3
    assert b.tolist() == [[5.0] * 2] * 2
    for step in range(3):
        optimizer.zero_grad()
        accelerator.backward((a * (rank + step)).sum() + b.pow(2).sum() * rank)
        assert a.grad.tolist() == [step + 0.5] * 3
        optimizer.step()
        assert _same(accelerator, a)
        assert _same(accelerator, b)


def a_model_that_was_never_prepared(accelerator):
    torch.manual_seed(accelerator.process_index)
    model = nn.Linear(2, 2)
    optimizer = accelerator.prepare(torch.optim.SGD(model.parameters(), 0.1))
    accelerator.backward(model(torch.ones(1, 2) * accelerator.process_index).sum())
    assert model.weight.grad.tolist() == [[0.5] * 2] * 2
    optimizer.step()
    assert _same(accelerator, model.weight)


def beside_a_model_in_any_order(accelerator):
    rank = accelerator.process_index
    orders = (
        lambda prepare, model, optimizer: prepare(model, optimizer),
        lambda prepare, model, optimizer: prepare(optimizer, model),
        lambda prepare, model, optimizer: (prepare(optimizer), prepare(model)),
        lambda prepare, model, optimizer: (prepare(model), prepare(optimizer)),
    )
    for order in orders:
        accelerator = Accelerator()
        model, scale = nn.Linear(2, 1), torch.tensor(1.0 + rank, requires_grad=True)
        optimizer = torch.optim.SGD([*model.parameters(), scale], 0.1)
        order(accelerator.prepare, model, optimizer)
        for _ in range(2):
            optimizer.zero_grad()
            accelerator.backward(model(torch.full((1, 2), float(rank))).sum() + scale * rank)
            assert scale.grad.item() == 0.5
            assert model.weight.grad.tolist() == [[0.5] * 2]
            optimizer.step()
        assert _same(accelerator, scale)
        assert _same(accelerator, model.weight)
        # One reduction for each: the model's hooks are the only ones on its parameters.
        assert [len(p._post_accumulate_grad_hooks) for p in (*model.parameters(), scale)] == [1, 1, 1]
        assert len(accelerator._strategy._replicas) == 2


def a_model_takes_over_everything(accelerator):
    model = nn.Linear(2, 1)
    accelerator.prepare(torch.optim.SGD(model.parameters(), 0.1))
    accelerator.prepare(model)
    (replica,) = accelerator._strategy._replicas
    assert replica.model() is model


def clients_that_come_and_go(accelerator):
    rank, kept = accelerator.process_index, []
    server = accelerator.prepare(nn.Linear(1, 1))
    for number in range(30):
        client = copy.deepcopy(server)
        own = torch.ones(1, requires_grad=True)
        stepped = [own] if number % 3 == 0 else [*client.parameters()]
        client, optimizer = accelerator.prepare(client, torch.optim.SGD(stepped, 0.1))
        accelerator.backward(client(torch.ones(1, 1)).sum() + own.sum() * rank)
        assert stepped[-1].grad.tolist() == [0.5 if stepped[-1] is own else 1.0]
        if number == 5 and rank == 1:
            kept.append((client, optimizer))
    assert len(accelerator._strategy._replicas) < 20
    accelerator.backward(server(torch.full((1, 1), float(rank))).sum())
    assert server.weight.grad.tolist() == [[0.5]]


def frozen_parameters_stay_the_models(accelerator):
    model = nn.Linear(2, 1)
    model.weight.requires_grad_(False)
    accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
    assert len(accelerator._strategy._replicas) == 1
    model.weight.requires_grad_(True)
    accelerator.backward(model(torch.full((1, 2), float(accelerator.process_index))).sum())
    assert model.weight.grad.tolist() == [[0.5, 0.5]]
    assert len(accelerator._strategy._replicas) == 1


def what_comes_out_of_a_set_steps_in_the_models_order(accelerator):
    model = accelerator.prepare(nn.Sequential(*(nn.Linear(2, 2) for _ in range(3))))
    weights = list(model.parameters())
    own = torch.ones(2, requires_grad=True)
    turned = list(reversed(weights[2:])) if accelerator.process_index else weights[2:]
    optimizer = accelerator.prepare(torch.optim.Adam([{"params": [own, *turned]}, {"params": weights[:2]}]))
    assert all(map(operator.is_, optimizer.param_groups[0]["params"], [*weights[2:], own]))
    assert all(map(operator.is_, optimizer.param_groups[1]["params"], weights[:2]))
    swapped = weights[2:] if accelerator.process_index else weights[:2]
    with pytest.raises(Desync):
        accelerator.prepare(torch.optim.Adam(swapped))


def groups_added_later(accelerator):
    rank = accelerator.process_index
    a, b = _tensors(rank)
    optimizer = accelerator.prepare(torch.optim.SGD([a], 0.1))
    model = accelerator.prepare(nn.Linear(1, 1))
    grown = accelerator.prepare(torch.optim.SGD(model.parameters(), 0.1))
    c = torch.full((2,), float(rank), requires_grad=True)
    optimizer.add_param_group({"params": [b]})
    grown.add_param_group({"params": [c]})
    accelerator.backward((a.sum() + b.sum() + c.sum() + model(torch.ones(1, 1)).sum()) * rank)
    assert _same(accelerator, b)
    assert b.grad.tolist() == [[0.5, 0.5]] * 2
    assert c.grad.tolist() == [0.5, 0.5]
    assert c.tolist() == [0.0, 0.0]


def the_last_shorter_window_counts_for_them_too(accelerator):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    scale, model = torch.tensor(1.0, requires_grad=True), nn.Linear(1, 1)
    optimizer = torch.optim.SGD([*model.parameters(), scale], 0.1)
    data = torch.utils.data.DataLoader(torch.ones(2 * accelerator.num_processes, 1), batch_size=1)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for x in data:
        with accelerator.accumulate(model):
            accelerator.backward((model(x) * 0 + scale).sum())
    assert scale.grad.item() == 1.0


def different_ones_are_refused(accelerator):
    own = torch.ones(2 + accelerator.process_index, requires_grad=True)
    with pytest.raises(Desync, match=r"\[2\].*\[3\]"):
        accelerator.prepare(torch.optim.SGD([own], 0.1))


def what_an_unprepared_optimizer_steps_is_named(accelerator):
    model = accelerator.prepare(nn.Linear(2, 2))
    ours = accelerator.prepare(torch.optim.SGD(model.parameters(), 0.1))
    later, bare = copy.deepcopy(model), torch.ones(3, requires_grad=True)
    for unowned, tensors in ((later(torch.ones(1, 2)), [*later.parameters()]), (bare, [bare])):
        loss = model(torch.ones(1, 2)).sum() + unowned.sum()
        accelerator.backward(loss)
        ours.step()
        shape = r"\[2, 2\], \[2\]" if tensors[0].ndim == 2 else r"\[3\]"
        with pytest.raises(NotPrepared, match=rf"step at unowned.py:\d+: a Adam that was not .* of shape {shape}\)"):
            torch.optim.Adam(tensors).step()
    # What the loss does not reach may be each rank's own, and what a prepared model owns is averaged.
    own = torch.ones(2, requires_grad=True)
    own.sum().backward()
    torch.optim.SGD([own], 0.1).step()
    torch.optim.SGD(model.parameters(), 0.1).step()
    accelerator.free_memory()
    torch.optim.Adam([bare]).step()


def a_later_one_is_looked_for_where_more_is_prepared(accelerator):
    model = accelerator.prepare(nn.Linear(2, 2))
    ours = accelerator.prepare(torch.optim.SGD(model.parameters(), 0.1))
    for _ in range(10):
        accelerator.backward(model(torch.ones(1, 2)).sum())
        ours.step()
    later = nn.Linear(2, 1)
    (rows,) = accelerator.prepare(DataLoader(torch.ones(2, 2), batch_size=1))
    accelerator.backward(later(rows).sum())
    with pytest.raises(NotPrepared, match="a SGD that was not"):
        torch.optim.SGD(later.parameters(), 0.1).step()
    accelerator.free_memory()


def weights_that_another_network_makes_are_left_alone(accelerator):
    made, maker, fast = Accelerator(), nn.Linear(2, 6), nn.Linear(2, 2)
    fast, maker, optimizer = made.prepare(fast, maker, torch.optim.SGD(maker.parameters(), 0.1))
    for _ in range(3):
        made_from_own = maker(torch.ones(2) * made.process_index)
        fast._parameters["weight"], fast._parameters["bias"] = made_from_own[:4].view(2, 2), made_from_own[4:]
        made.backward(fast(torch.ones(1, 2)).pow(2).sum())
        optimizer.step()
        optimizer.zero_grad()
    assert len({tuple(weight) for weight in made.gather_object(maker.weight.flatten().tolist())}) == 1
    assert fast.weight.grad_fn is not None


def parameters_that_one_rank_alone_trains_are_named(accelerator):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[1].requires_grad_(accelerator.process_index == 0)
    words = "rank 0 trains 1.bias, 1.weight, and rank 1 does not: requires_grad must be the same"
    with pytest.raises(TrainedApart, match=words):
        accelerator.prepare(model)
    model.requires_grad_(True)
    accelerator.prepare(model)
    for is_trained in (False, True, False):
        model[1].requires_grad_(is_trained)
        accelerator.backward(model(torch.ones(1, 2)).sum())
    model[1].requires_grad_(accelerator.process_index == 0)
    model[0].requires_grad_(accelerator.process_index == 1)
    # Rank 1 trains what it trained before, and waits for the gradients.
    words = r"rank 0 waits at unowned.py:\d+ backward over others than before: 1.weight, 1.bias .*; rank 1 waits at"
    with pytest.raises(Desync, match=words):
        accelerator.backward(model(torch.ones(1, 2)).sum())
    # The one that raises first must not be met elsewhere by the other.
    store = accelerator.state._world.store
    store.set(f"unowned/raised/{accelerator.process_index}", "1")
    store.wait(["unowned/raised/0", "unowned/raised/1"])
