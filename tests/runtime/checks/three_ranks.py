"""What two ranks cannot show: several others, a last round that fits neither ranks nor batches, ends one by one."""

import copy
import tempfile

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from accelify.runtime import Accelerator
from accelify.runtime.gradients.distributed import BackwardFailed
from accelify.runtime.world.desync import Desync
from tests.runtime.checks.resuming import _resumes

ROWS, BATCH = 22, 2  # three rounds of three whole batches, then four rows for three ranks


def _data():
    rows = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(3))
    return TensorDataset(torch.arange(ROWS), rows, rows.sum(1, keepdim=True))


def _net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def _alike(accelerator, *tensors):
    everyone = accelerator.gather_object([tensor.tolist() for tensor in tensors])
    return all(one == everyone[0] for one in everyone)


def an_uneven_epoch_is_one_process_with_the_global_batch(accelerator):
    torch.manual_seed(accelerator.process_index)
    model = accelerator.prepare(_net())
    plain = copy.deepcopy(model)
    optimizer = accelerator.prepare(torch.optim.Adam(model.parameters(), lr=0.05))
    alone = torch.optim.Adam(plain.parameters(), lr=0.05)
    loader = accelerator.prepare(DataLoader(_data(), batch_size=BATCH, shuffle=True))
    torch.manual_seed(7)
    order = [one for batch in DataLoader(_data(), batch_size=BATCH, shuffle=True) for one in batch[0].tolist()]
    torch.manual_seed(7)
    seen, sizes = [], []
    for index, x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(mse_loss(model(x), y))
        optimizer.step()
        alone.zero_grad()
        together = accelerator.gather(index)
        _, everything, wanted = _data()[together]
        mse_loss(plain(everything), wanted).backward()
        alone.step()
        seen += accelerator.gather_for_metrics(index).tolist()
        sizes.append(len(together))
        assert _alike(accelerator, *model.parameters())
        torch.testing.assert_close(list(model.parameters()), list(plain.parameters()))
    assert seen == order
    assert sizes == [6, 6, 6, 6]  # the four rows that were left, and two that only fill up


def metrics_of_an_evaluation_are_one_processs(accelerator):
    model, data = _net(), _data()
    wanted = torch.cat([mse_loss(model(x), y, reduction="none") for _, x, y in DataLoader(data, batch_size=BATCH)])
    for options in ({}, {"split_batches": True}, {"even_batches": False}):
        made = Accelerator(**options)
        loader = made.prepare(DataLoader(data, batch_size=BATCH))
        with torch.no_grad():
            mine = [mse_loss(model(x), y, reduction="none") for _, x, y in loader]
        torch.testing.assert_close(made.gather_for_metrics(torch.cat(mine), per="row"), wanted.detach())


def ranks_end_one_by_one(accelerator):
    rows = torch.arange(33.0).reshape(11, 3) / 10
    for count in (10, 11):
        made = Accelerator(even_batches=False)
        torch.manual_seed(0)
        model, plain = made.prepare(nn.Linear(3, 1)), nn.Linear(3, 1)
        plain.load_state_dict(model.state_dict())
        optimizer = made.prepare(torch.optim.Adam(model.parameters(), lr=0.1))
        alone = torch.optim.Adam(plain.parameters(), lr=0.1)
        loader = made.prepare(DataLoader(TensorDataset(rows[:count]), batch_size=1))
        taken = 0
        with made.join_uneven_inputs([model]):
            for (x,) in loader:
                optimizer.zero_grad()
                made.backward(model(x).square().sum())
                optimizer.step()
                taken += 1
        assert taken == len(range(made.process_index, count, 3))
        for at in range(0, count, 3):
            alone.zero_grad()
            plain(rows[at : min(at + 3, count)]).square().mean().backward()
            alone.step()
        torch.testing.assert_close(list(model.parameters()), list(plain.parameters()))
        state = optimizer.state_dict()["state"]
        assert _alike(accelerator, *model.parameters(), *[value for one in state.values() for value in one.values()])


def a_run_goes_on_in_the_middle_of_an_epoch(accelerator):
    for kind in ("shuffle", "pairs", "iterable"):
        _resumes(accelerator, kind, 0, [1, 4])


def a_checkpoint_is_every_ranks(accelerator):
    folder = accelerator.gather_object(tempfile.mkdtemp())[0]
    made = Accelerator(project_dir=folder)
    model = made.prepare(_net())
    torch.manual_seed(100 + made.process_index)
    made.save_state()
    kept, drawn = copy.deepcopy(model.state_dict()), accelerator.gather_object(torch.rand(1).item())
    nn.init.zeros_(model[0].weight)
    torch.manual_seed(0)
    made.load_state()
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
    assert accelerator.gather_object(torch.rand(1).item()) == drawn
    assert len(set(drawn)) == 3


def gradients_are_means_where_each_rank_uses_another_part(accelerator):
    rank = accelerator.process_index
    model = accelerator.prepare(nn.ModuleList(nn.Linear(2, 1) for _ in range(4)))
    for step in range(3):
        model.zero_grad()
        which = (rank + step) % 3
        accelerator.backward(model[which](torch.full((1, 2), 1.0 + rank)).sum())
        for part in range(3):
            user = (part - step) % 3
            torch.testing.assert_close(model[part].weight.grad, torch.full((1, 2), (1 + user) / 3))
        assert model[3].weight.grad is None


def a_failure_of_one_reaches_the_two_others(accelerator):
    model = accelerator.prepare(nn.Linear(2, 1))
    loss = model(torch.ones(1, 2)).sum()
    if accelerator.process_index == 1:
        loss = loss.detach()
    kind = RuntimeError if accelerator.process_index == 1 else BackwardFailed
    with pytest.raises(kind) as caught:
        accelerator.backward(loss)
    if accelerator.process_index != 1:
        assert "failed on rank 1: RuntimeError" in str(caught.value)
    model.zero_grad()
    accelerator.backward(model(torch.full((1, 2), float(accelerator.process_index))).sum())
    assert model.weight.grad.tolist() == [[1.0, 1.0]]


def collectives_of_three(accelerator):
    rank = accelerator.process_index
    assert accelerator.gather(torch.tensor([rank])).tolist() == [0, 1, 2]
    assert accelerator.reduce(torch.tensor([float(rank)]), "mean").item() == 1.0
    assert accelerator.broadcast(torch.tensor(rank), from_process=2).item() == 2
    assert accelerator.broadcast_object_list([rank], from_process=1) == [1]
    padded = accelerator.pad_across_processes(torch.ones(1 + rank), pad_index=-1)
    assert padded.tolist() == [1.0] * (1 + rank) + [-1.0] * (2 - rank)
    with accelerator.split_between_processes(list(range(10))) as part:
        assert accelerator.gather_object(part) == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert accelerator.gather_object(list(accelerator.shard(list(range(7))))) == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]
    if rank == 2:
        accelerator.set_trigger()
    assert accelerator.check_trigger()
    with pytest.raises(Desync, match=r"rank 0 .*gather f32\[2\]; rank 1 .*gather f32\[2\]; rank 2 .*gather f32\[3\]"):
        accelerator.gather(torch.zeros(3 if rank == 2 else 2))
