"""In one process the accelerator adds nothing: the same objects, the same numbers, the same random numbers consumed."""

import builtins
import copy
import importlib.util
import inspect
import os
import random
import stat
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accelify.runtime import (
    Accelerator,
    Environment,
    find_executable_batch_size,
    get_logger,
    set_seed,
    skip_first_batches,
)
from accelify.runtime.data.loader import prepare_loader
from accelify.runtime.data.one_process import OneProcess
from accelify.runtime.data.passes import LoaderPasses
from accelify.runtime.data.preparation import CannotPrepare
from accelify.runtime.data.streams import Streams
from accelify.runtime.launch.config import BadSetting
from accelify.runtime.world.collectives import Collectives
from tests.runtime import noisy_models


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


@pytest.mark.parametrize("kind", noisy_models.KINDS)
def test_models_that_live_on_noise_come_out_bit_for_bit(accelerator, kind):
    assert noisy_models.train(kind, accelerator) == noisy_models.train(kind)


def test_the_very_same_objects(accelerator):
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    given = (model, optimizer, scheduler, None)
    hooks = dict(vars(model))
    assert all(old is new for old, new in zip(given, accelerator.prepare(*given), strict=True))
    assert accelerator.prepare(model) is model
    empty = nn.ModuleList()
    assert accelerator.prepare(empty, None) == (empty, None)
    assert vars(model) == hooks
    assert not optimizer._optimizer_step_pre_hooks
    for whole in ([1, 2], range(3), (number for number in range(3)), {1}):
        assert accelerator.shard(whole) is whole
    assert accelerator.unwrap_model(model) is model


def test_a_step_looks_up_nothing(accelerator, monkeypatch):
    """No search for libraries, no look at signatures, no file: they cost more than the step of a small model."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    accelerator.backward(model(torch.ones(1, 3)).sum())
    looked = []
    for module, name in ((importlib.util, "find_spec"), (inspect, "signature"), (os, "stat"), (builtins, "open")):
        monkeypatch.setattr(module, name, lambda *arguments, name=name: looked.append(name))
    for (rows,) in loader:
        accelerator.backward(model(rows).sum())
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    monkeypatch.undo()
    assert looked == []


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
    with pytest.raises(Exception, match=r"pickle|local object"):
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


def windows(accelerator, at_top):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    loader = DataLoader(TensorDataset(torch.randn(10, 3)), batch_size=2, shuffle=True)
    loader, model, optimizer, scheduler = accelerator.prepare(loader, model, optimizer, scheduler)
    for (x,) in loader:
        with accelerator.accumulate(model):
            if at_top:
                optimizer.zero_grad()
            accelerator.backward(model(x).square().mean())
            optimizer.step()
            scheduler.step()
            if not at_top:
                optimizer.zero_grad()
    return model.weight.tolist(), scheduler.last_epoch


@pytest.mark.filterwarnings("error")
def test_windows_of_two_over_five_batches():
    results = []
    for at_top in (True, False):
        accelerator = Accelerator(cpu=True, environment=Environment(), gradient_accumulation_steps=2)
        results.append(windows(accelerator, at_top))
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batches = list(DataLoader(TensorDataset(torch.randn(10, 3)), batch_size=2, shuffle=True))
    for step, group in enumerate((batches[:2], batches[2:4], batches[4:])):
        optimizer.param_groups[0]["lr"] = 0.1 * 0.9**step
        optimizer.zero_grad()
        for (x,) in group:
            (model(x).square().mean() / len(group)).backward()
        optimizer.step()
    assert results[0] == results[1]
    torch.testing.assert_close(torch.tensor(results[0][0]), model.weight.detach())
    assert results[0][1] == 3


def test_a_step_behind_the_block_belongs_to_its_window():
    accelerator = Accelerator(cpu=True, environment=Environment(), gradient_accumulation_steps=2)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(TensorDataset(torch.ones(10, 3)), batch_size=2)
    loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
    seen = []
    for (x,) in loader:
        before = model.weight.detach().clone()
        with accelerator.accumulate(model):
            accelerator.backward(model(x).sum())
        accelerator.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        seen.append((accelerator.sync_gradients, not torch.equal(model.weight, before), model.weight.grad is None))
    assert seen == [(False, False, False), (True, True, True)] * 2 + [(True, True, True)]
    with accelerator.accumulate(model):
        accelerator.backward(model(x).sum())
    assert not accelerator.sync_gradients
    accelerator.backward(model(x).sum())  # in no window
    assert accelerator.sync_gradients


def test_what_was_accumulated_before_a_load_does_not_count(tmp_path):
    accelerator = Accelerator(cpu=True, environment=Environment(), gradient_accumulation_steps=2)
    model, x = nn.Linear(3, 2), torch.ones(1, 3)
    accelerator.prepare(model, optimizer := torch.optim.SGD(model.parameters(), 0.1))
    accelerator.save_state(tmp_path / "checkpoint")
    before, seen = model.bias.detach().clone(), []
    with accelerator.accumulate(model):
        accelerator.backward(model(x).sum() * 1000)
        optimizer.step()
    accelerator.load_state(tmp_path / "checkpoint")
    for _ in range(2):
        with accelerator.accumulate(model):
            accelerator.backward(model(x).sum())
            optimizer.step()
            seen.append(accelerator.sync_gradients)
    assert seen == [False, True]
    torch.testing.assert_close(model.bias, before - 0.1)


def test_a_schedule_in_epochs_goes_on_after_an_epoch_that_ends_within_a_window():
    accelerator = Accelerator(cpu=True, environment=Environment(), gradient_accumulation_steps=2)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    accelerator.prepare(model, optimizer, scheduler)
    for epoch in range(2):
        for _ in range(3):
            with accelerator.accumulate(model):
                accelerator.backward(model(torch.ones(1, 3)).sum())
                optimizer.step()
                optimizer.zero_grad()
        scheduler.step()
        assert scheduler.last_epoch == epoch + 1


def test_a_schedule_in_epochs_goes_on_after_an_epoch_whose_last_step_overflowed():
    accelerator = Accelerator(cpu=True, environment=Environment(), mixed_precision="fp16")
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    accelerator.prepare(model, optimizer, scheduler)
    for factor in (1e-3, float("inf")):
        accelerator.backward(model(torch.ones(1, 3)).sum() * factor)
        optimizer.step()
        optimizer.zero_grad()
    scheduler.step()
    assert scheduler.last_epoch == 1


def test_the_argument_comes_before_the_environment():
    environment = Environment(mixed_precision="bf16")
    assert Accelerator(cpu=True, environment=environment).mixed_precision == "bf16"
    assert Accelerator(cpu=True, environment=environment, mixed_precision="no").mixed_precision == "no"


@pytest.mark.parametrize("name", ["BF16", "fp8", "garbage"])
def test_an_unknown_precision_is_refused(name):
    with pytest.raises(BadSetting, match=f"mixed_precision='{name}': choose one of no, fp16, bf16"):
        Accelerator(cpu=True, environment=Environment(), mixed_precision=name)


def test_the_first_batches_can_be_skipped(accelerator):
    loader = DataLoader(TensorDataset(torch.arange(10.0)), batch_size=2, shuffle=True)
    torch.manual_seed(3)
    whole = [batch[0].tolist() for batch in loader]
    torch.manual_seed(3)
    skipping = skip_first_batches(accelerator.prepare(loader), 2)
    assert len(skipping) == 3
    assert [batch[0].tolist() for batch in skipping] == whole[2:]
    assert skipping.batch_size == 2
    assert skip_first_batches(loader, 0) is loader


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([])


def test_a_pass_tells_its_length(accelerator):
    loader = accelerator.prepare(DataLoader(TensorDataset(torch.arange(10.0)), batch_size=4))
    assert len(iter(loader)) == 3
    endless = accelerator.prepare(DataLoader(Endless(), batch_size=4))
    with pytest.raises(TypeError, match="no length"):
        len(iter(endless))


def test_a_batch_size_that_fits_is_found():
    tried = []

    @find_executable_batch_size(starting_batch_size=16, reduce_batch_size_fn=lambda size: size - 4)
    def run(batch_size, factor):
        tried.append(batch_size)
        if batch_size > 8:
            raise RuntimeError("CUDA out of memory. Tried to allocate")
        return batch_size * factor

    assert run(factor=2) == 16
    assert tried == [16, 12, 8]
    with pytest.raises(RuntimeError, match="smallest"):
        find_executable_batch_size(lambda size: (_ for _ in ()).throw(MemoryError()), 4)()
    with pytest.raises(RuntimeError, match="another"):
        find_executable_batch_size(lambda size: (_ for _ in ()).throw(RuntimeError("another")), 4)()


def test_the_logger_says_it_once(caplog):
    logger = get_logger("accelify.test", log_level="info")
    logger.info("hello %s", "you", main_process_only=True)
    logger.info("in turn", in_order=True)
    assert [record.getMessage() for record in caplog.records] == ["hello you", "in turn"]
    for _ in range(2):
        logger.warning_once("once, %s", [1], main_process_only=False)
    assert [record.getMessage() for record in caplog.records[2:]] == ["once, [1]"]
    assert {record.funcName for record in caplog.records} == {"test_the_logger_says_it_once"}


def test_seeds_reach_every_library():
    set_seed(5)
    first = (random.random(), numpy.random.rand(), torch.rand(()).item())
    set_seed(5, device_specific=True)
    assert (random.random(), numpy.random.rand(), torch.rand(()).item()) == first
    set_seed(5, device_specific=True, rank=1)
    other = (random.random(), numpy.random.rand(), torch.rand(()).item())
    assert all(left != right for left, right in zip(first, other, strict=True))
    set_seed(6)
    assert torch.rand(()).item() != other[2]


def test_a_loader_moves_its_batches_where_the_device_is_another():
    loader = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2)
    streams = Streams(Collectives(), torch.device("cpu"))
    prepared = prepare_loader(loader, OneProcess(loader, streams), LoaderPasses(streams), torch.device("meta"))
    assert [batch[0].device.type for batch in prepared] == ["meta", "meta"]
    assert isinstance(prepared, DataLoader)
    assert copy.deepcopy(prepared).batch_size == 2


class Unreadable(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index == 2:
            raise OSError("a broken file")
        return index


@pytest.mark.parametrize("workers", [0, 1])
def test_a_script_may_go_on_after_an_element_that_cannot_be_read(accelerator, workers):
    batches = iter(accelerator.prepare(DataLoader(Unreadable(), batch_size=2, num_workers=workers)))
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(OSError, match="a broken file"):
        next(batches)
    assert next(batches).tolist() == [4, 5]
    assert next(batches, None) is None


class Delegating(torch.optim.Optimizer):
    """An optimizer that only wraps another, and whose constructor does not run torch's."""

    def __init__(self, optimizer):
        self.inner = optimizer

    param_groups = property(lambda self: self.inner.param_groups)

    def step(self, closure=None):
        return self.inner.step(closure)


class Scaled(torch.optim.SGD):
    """An optimizer of a script's own that runs torch's constructor."""

    def __init__(self, parameters, factor):
        super().__init__(parameters, lr=0.1 * factor)


class Unset(torch.optim.Optimizer):
    """An optimizer whose constructor does not run torch's, and that wraps none."""

    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters)}]


def test_an_optimizer_that_was_never_set_up_is_refused_by_name_where_it_would_wait():
    accelerator, model = Accelerator(cpu=True, gradient_accumulation_steps=2), nn.Linear(2, 1)
    for refused in ([Unset(model.parameters())], [model, Unset(model.parameters())], [[Unset(model.parameters())]]):
        with pytest.raises(CannotPrepare, match=r"a Unset has never run Optimizer.__init__"):
            accelerator.prepare(*refused)
    own = Scaled(model.parameters(), 2)
    assert accelerator.prepare(own) is own


def test_what_needs_nothing_in_one_process_comes_back(accelerator, recwarn):
    model = nn.Linear(2, 1)
    begun = iter([1, 2])
    things = (begun, "data.csv", Path("x"), 5, torch.ones(2), [1] * 100, TensorDataset(torch.ones(2)), object())
    given = [*things, Unset(model.parameters()), [begun], {"a": begun}]
    assert all(one is back for one, back in zip(given, accelerator.prepare(*given), strict=True))
    assert list(begun) == [1, 2]
    assert not recwarn.list


def test_an_optimizer_that_only_wraps_another_steps_with_it(accelerator):
    model = nn.Linear(2, 1)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    for wrapper in (Delegating(inner), Delegating([inner])):
        assert accelerator.prepare(wrapper) is wrapper
        assert inner.step_was_skipped is False  # prepared
        del inner.step_was_skipped


def test_an_optimizer_that_only_wraps_another_cannot_wait_for_its_window():
    inner = torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    with pytest.raises(CannotPrepare, match=r"a Delegating has never run Optimizer.__init__"):
        accelerator.prepare(Delegating(inner))


class Items(dict):
    """A dictionary whose items are its attributes, and that raises KeyError for others."""

    __getattr__ = dict.__getitem__


class Refusing:
    """Settings that do not answer for what they do not hold."""

    def __getattr__(self, name):
        raise RuntimeError(name)


@pytest.mark.parametrize("make", [lambda model: Items(net=model), lambda model: Refusing(), lambda model: [Refusing()]])
def test_what_cannot_be_asked_for_an_attribute_is_refused_by_name(accelerator, make):
    words = r"a (Items|Refusing) raises (KeyError|RuntimeError) for an attribute .* one by one"
    with pytest.raises(CannotPrepare, match=words):
        accelerator.prepare(make(nn.Linear(2, 1)))
    model = nn.Linear(2, 1)
    assert accelerator.prepare(Items(net=model).net) is model
