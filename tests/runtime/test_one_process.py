"""In one process the accelerator adds nothing: the same objects, the same numbers, the same random numbers consumed."""

import random
import stat

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accelify.runtime import Accelerator
from accelify.runtime.environment import Environment


@pytest.fixture
def accelerator():
    return Accelerator(cpu=True, environment=Environment())


def train(accelerator):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(20, 3), torch.randint(2, (20,)))
    loader = DataLoader(data, batch_size=6, shuffle=True)
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters())
    if accelerator is not None:
        loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
    losses = []
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            if accelerator is None:
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            else:
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    return losses, torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()[1].tolist()


def test_the_same_numbers_bit_for_bit(accelerator):
    random.seed(1)
    numpy.random.seed(1)
    plain = train(None)
    assert train(accelerator) == plain


def test_the_very_same_objects(accelerator):
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    loader = DataLoader(TensorDataset(torch.ones(3)))
    given = (model, optimizer, scheduler, loader, None, 3)
    hooks = dict(vars(model))
    assert all(old is new for old, new in zip(given, accelerator.prepare(*given), strict=True))
    assert accelerator.prepare(model) is model
    assert vars(model) == hooks
    assert not optimizer._optimizer_step_pre_hooks
    for whole in ([1, 2], range(3), (number for number in range(3)), {1}):
        assert accelerator.shard(whole) is whole
    assert accelerator.unwrap_model(model) is model


def test_collectives_of_one(accelerator):
    tensor = torch.ones(2)
    assert accelerator.gather(tensor) is tensor
    assert accelerator.gather_for_metrics(tensor) is tensor
    assert accelerator.reduce(3, "sum") == 3
    assert accelerator.gather(3) == [3]
    with pytest.raises(ValueError, match="none"):
        accelerator.reduce(3, "none")
    accelerator.wait_for_everyone()
    with accelerator.main_process_first():
        pass


def test_where_it_stands(accelerator, capsys):
    assert accelerator.device == torch.device("cpu")
    assert (accelerator.num_processes, accelerator.process_index, accelerator.local_process_index) == (1, 0, 0)
    assert accelerator.is_main_process
    assert accelerator.is_local_main_process
    assert accelerator.is_last_process
    assert not accelerator.use_distributed
    accelerator.print("a", "b", sep="-")
    assert capsys.readouterr().out == "a-b\n"


def test_a_failed_save_leaves_the_old_file(accelerator, tmp_path):
    path = tmp_path / "weights.pt"
    accelerator.save({"a": 1}, path)
    path.chmod(0o640)
    old = path.read_bytes()
    with pytest.raises(Exception, match="pickle"):
        accelerator.save(lambda: None, path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
    accelerator.save({"a": 2}, str(path))
    assert torch.load(path) == {"a": 2}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_save_through_a_link_keeps_the_link(accelerator, tmp_path):
    (tmp_path / "link.pt").symlink_to(tmp_path / "real.pt")
    accelerator.save({"a": 1}, tmp_path / "link.pt")
    assert (tmp_path / "link.pt").is_symlink()
    assert torch.load(tmp_path / "real.pt") == {"a": 1}
