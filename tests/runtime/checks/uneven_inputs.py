"""Ranks that have different numbers of batches: inside `join_uneven_inputs` they train on, outside they are told."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accelify.runtime import Accelerator
from accelify.runtime.gradients.training import UnevenInputs
from accelify.runtime.world.desync import Desync


def _training(accelerator, batches, optimizer=torch.optim.Adam):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    data = TensorDataset(torch.arange(3.0 * batches).reshape(-1, 3) / 10)
    made = optimizer(model.parameters(), lr=0.1)
    return accelerator.prepare(model, made, DataLoader(data, batch_size=1))


def _same(accelerator, *tensors):
    everyone = accelerator.gather_object([tensor.tolist() for tensor in tensors])
    return all(one == everyone[0] for one in everyone)


def all_ranks_end_alike(accelerator):
    for batches in (4, 5):
        model, optimizer, loader = _training(accelerator, batches)
        for _ in range(2):
            taken = 0
            with accelerator.join_uneven_inputs([model], even_batches=False):
                for (x,) in loader:
                    optimizer.zero_grad()
                    accelerator.backward(model(x).pow(2).sum())
                    optimizer.step()
                    taken += 1
            assert taken == (batches - accelerator.process_index + 1) // 2
            assert _same(accelerator, model.weight, model.bias)
            state = optimizer.state_dict()["state"]
            assert _same(accelerator, *[value for one in state.values() for value in one.values()])


def the_mean_is_over_the_ranks_that_had_a_batch(accelerator):
    for backward in (accelerator.backward, torch.Tensor.backward):
        model, optimizer, loader = _training(accelerator, 3, torch.optim.SGD)
        plain = nn.Linear(3, 1)
        plain.load_state_dict(model.state_dict())
        with accelerator.join_uneven_inputs([model], even_batches=False):
            for (x,) in loader:
                optimizer.zero_grad()
                backward(model(x).sum())
                optimizer.step()
        rows = torch.arange(9.0).reshape(3, 3) / 10
        step = torch.optim.SGD(plain.parameters(), lr=0.1)
        for part in (rows[:2], rows[2:]):
            step.zero_grad()
            (plain(part).sum() / len(part)).backward()
            step.step()
        assert torch.allclose(model.weight, plain.weight)


def outside_it_says_what_to_do(accelerator):
    uneven = Accelerator(even_batches=False)
    model, _, loader = _training(uneven, 3)
    steps = 0
    for (x,) in loader:
        if steps == 1:
            with pytest.raises(UnevenInputs, match="join_uneven_inputs"):
                uneven.backward(model(x).sum())
        else:
            uneven.backward(model(x).sum())
        steps += 1
    assert steps == 2 - uneven.process_index


def passes_afterwards_are_even_again(accelerator):
    model, _, loader = _training(accelerator, 3)
    with accelerator.join_uneven_inputs([model], even_batches=False):
        assert len(list(loader)) == 2 - accelerator.process_index
    assert len(list(loader)) == 2


def triggering_a_synchronisation_averages_the_sums(accelerator):
    model, rank = accelerator.prepare(nn.Linear(1, 1)), accelerator.process_index
    x = torch.full((1, 1), float(rank))
    with accelerator.no_sync(model):
        accelerator.backward(model(x).sum())
        assert model.weight.grad.item() == rank
        with accelerator.trigger_sync_in_backward(model):
            accelerator.backward(model(x).sum())
        assert model.weight.grad.item() == 1.0
        accelerator.backward(model(x).sum())
        assert model.weight.grad.item() == 1.0 + rank


def lists_of_objects_are_broadcast_in_place(accelerator):
    rank = accelerator.process_index
    mine = [rank, {"rank": rank}, None]
    assert accelerator.broadcast_object_list(mine, from_process=1) is mine
    assert mine == [1, {"rank": 1}, None]


def another_collective_inside_is_told_apart(accelerator):
    model, _, loader = _training(accelerator, 3)

    def train():
        with accelerator.join_uneven_inputs([model], even_batches=False):
            for (x,) in loader:
                accelerator.gather(x)
                accelerator.backward(model(x).sum())

    with pytest.raises(Desync, match=r"rank 0 .*gather.*rank 1 .*backward in join_uneven_inputs"):
        train()
