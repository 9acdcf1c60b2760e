"""What ranks say to each other outside the backward pass."""

import copy
import io
import os
import pickle
import random
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import numpy
import pytest
import torch

from accelify.runtime import wait_for_everyone
from accelify.runtime.world import desync
from accelify.runtime.world.desync import Desync


def gather_of_tensors_containers_and_numbers(accelerator):
    rank, size = accelerator.process_index, accelerator.num_processes
    ranks = list(range(size))
    gathered = accelerator.gather({"x": torch.full((2, 3), rank), "y": (torch.tensor(rank), 10 * rank)})
    assert gathered["x"].tolist() == [[other] * 3 for other in ranks for _ in range(2)]
    assert gathered["y"][0].tolist() == ranks
    assert gathered["y"][1] == [10 * other for other in ranks]
    for dtype in (torch.bool, torch.bfloat16, torch.float16, torch.int16, torch.complex64, torch.float64, torch.uint8):
        tensor = torch.tensor([rank, 1]).to(dtype)
        back = accelerator.gather(tensor)
        assert back.dtype == dtype
        assert torch.equal(back[2 * rank : 2 * rank + 2], tensor)
    assert accelerator.gather(torch.zeros(0, 3)).shape == (0, 3)
    assert accelerator.gather(torch.arange(6).reshape(2, 3).T).shape == (3 * size, 2)
    conjugate = torch.tensor([1j * rank]).conj()
    assert accelerator.gather(conjugate).tolist() == [-1j * other for other in ranks]
    assert accelerator.broadcast(conjugate, from_process=1).tolist() == [-1j]
    assert accelerator.broadcast(torch.arange(2.0)[rank]).item() == 0


def reduce_keeps_the_kind(accelerator):
    rank, size = accelerator.process_index, accelerator.num_processes
    total = sum(range(size))
    assert accelerator.reduce(rank) == total
    assert type(accelerator.reduce(rank)) is int
    assert accelerator.reduce(float(rank), "mean") == total / size
    assert accelerator.reduce(rank, "max") == size - 1
    assert accelerator.reduce(10**30 + rank, "sum") == size * 10**30 + total
    assert accelerator.reduce(torch.tensor([rank, 1]), "sum").tolist() == [total, size]
    assert accelerator.reduce(torch.tensor([rank]), "mean").tolist() == [total / size]
    assert accelerator.reduce(torch.tensor([1.0 + rank]), "min").tolist() == [1.0]
    half = accelerator.reduce(torch.tensor([rank], dtype=torch.bfloat16), "sum")
    assert half.dtype == torch.bfloat16
    assert half.tolist() == [total]
    assert accelerator.reduce(torch.tensor([True]), "sum").tolist() == [size]
    assert accelerator.reduce(torch.tensor([1j]), "sum").tolist() == [size * 1j]
    assert accelerator.reduce(numpy.float64(rank), "sum") == total
    assert accelerator.reduce(numpy.array([rank, 2]), "sum").tolist() == [total, 2 * size]
    given = torch.tensor([1.0])
    accelerator.reduce({"a": [given]}, "sum")
    assert given.item() == 1


def unknown_reductions_are_refused(accelerator):
    for reduction in ("none", "avg", "median"):
        with pytest.raises(ValueError, match="sum, mean, max, min"):
            accelerator.reduce(torch.ones(1), reduction)


def mismatches_raise_on_all_ranks_and_name_the_lines(accelerator):
    rank = accelerator.process_index
    one = r"rank 0 collectives\.py:\d+ gather f32\[2,3\]; rank 1 collectives\.py:\d+ "
    with pytest.raises(Desync, match=one + r"gather f64\[2,3\]"):
        accelerator.gather(torch.zeros(2, 3, dtype=[torch.float32, torch.float64][rank]))
    with pytest.raises(Desync, match=one + r"gather f32\[3,2\]"):
        accelerator.gather(torch.zeros([(2, 3), (3, 2)][rank]))
    calls = [lambda: accelerator.gather(torch.zeros(2, 3)), lambda: accelerator.reduce(torch.zeros(1))]
    with pytest.raises(Desync, match=one + r"reduce sum f32\[1\]"):
        calls[rank]()
    with pytest.raises(Desync, match=r"rank 0 .* wait_for_everyone; rank 1 .* reduce"):
        [accelerator.wait_for_everyone, calls[1]][rank]()
    assert accelerator.reduce(1) == accelerator.num_processes


def slow_ranks_are_waited_for(accelerator):
    rank, size = accelerator.process_index, accelerator.num_processes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(desync, "LOOK", timedelta(seconds=0.01))
        model = accelerator.prepare(torch.nn.Linear(1, 1, bias=False))
        for slow in range(size):
            time.sleep(0.3 * (rank == slow))
            assert accelerator.reduce(torch.ones(1) if rank == slow else 0).item() == 1
            time.sleep(0.3 * (rank == slow))
            accelerator.backward(model(torch.tensor([[float(rank)]])).sum())
    assert model.weight.grad.item() == size * sum(range(size)) / size


def main_process_first_also_after_an_error(accelerator):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(accelerator.state._collectives.broadcast_object(folder), "made")
        with accelerator.main_process_first():
            assert path.exists() != accelerator.is_main_process
            path.touch()
        if accelerator.is_main_process:
            with pytest.raises(KeyError), accelerator.main_process_first():
                raise KeyError
        else:
            with accelerator.main_process_first():
                pass
        accelerator.wait_for_everyone()


def nothing_waits_where_the_main_process_goes_first(accelerator):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(accelerator.state._collectives.broadcast_object(folder), "made")
        with accelerator.main_process_first():
            assert path.exists() != accelerator.is_main_process
            accelerator.wait_for_everyone()
            wait_for_everyone()
            with accelerator.main_process_first():
                path.touch()
        assert path.exists()
        accelerator.wait_for_everyone()


def all_draw_on_alike_where_the_main_process_drew_first(accelerator):
    for draw in (
        torch.rand,
        lambda n: torch.tensor([random.random()]),
        lambda n: torch.from_numpy(numpy.random.rand(n)),
    ):
        with accelerator.main_process_first():
            if accelerator.is_main_process:
                draw(3)
        drawn = accelerator.gather(draw(1))
        assert (drawn == drawn[0]).all()
    accelerator.seed_by_rank()
    with accelerator.main_process_first():
        if accelerator.is_main_process:
            torch.rand(3)
    assert len(set(accelerator.gather(torch.rand(1)).tolist())) == accelerator.num_processes


def only_the_main_process_writes(accelerator):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(accelerator.state._collectives.broadcast_object(folder), "weights.pt")
        written = io.BytesIO()
        accelerator.save({"rank": accelerator.process_index}, path)
        accelerator.save(torch.ones(1), written)
        accelerator.wait_for_everyone()
        assert torch.load(path) == {"rank": 0}
        assert [file.name for file in path.parent.iterdir()] == ["weights.pt"]
        assert bool(written.getvalue()) == accelerator.is_main_process
        accelerator.wait_for_everyone()


def an_object_that_holds_the_accelerator_can_be_copied_and_pickled(accelerator):
    holder = {"accelerator": accelerator, "x": [1]}
    copied = copy.deepcopy(holder)
    assert copied["accelerator"] is accelerator
    assert copied["x"] is not holder["x"]
    pickled = pickle.loads(pickle.dumps(holder))["accelerator"]
    assert pickled.num_processes == accelerator.num_processes
    assert pickled.reduce(1) == accelerator.num_processes


def functions_do_what_the_methods_do(accelerator):
    from accelify.runtime import DistributedType, PartialState, broadcast_object_list, gather, gather_object, reduce

    rank, size = accelerator.process_index, accelerator.num_processes
    state = PartialState(cpu=True)
    assert (state.num_processes, state.process_index) == (size, rank)
    assert state.distributed_type is accelerator.distributed_type is DistributedType.MULTI_CPU
    assert f"Process index: {rank}" in repr(accelerator.state)
    assert gather(torch.tensor([rank])).tolist() == list(range(size))
    assert gather_object(rank) == list(range(size))
    assert reduce(torch.tensor(float(rank))).item() == sum(range(size)) / size
    assert accelerator.reduce(torch.tensor(1.0), scale=0.5).item() == size / 2
    assert broadcast_object_list([rank]) == [0]
    assert accelerator.on_local_process(lambda: rank, 1)() == (1 if rank == 1 else None)


def two_accelerators_leave_each_other_alone(accelerator):
    from accelify.runtime import Accelerator

    before = dict(os.environ)
    other = Accelerator(split_batches=True)
    assert other.split_batches
    assert not accelerator.split_batches
    assert (other.num_processes, other.process_index) == (accelerator.num_processes, accelerator.process_index)
    with other.no_sync():
        model = accelerator.prepare(torch.nn.Linear(1, 1))
        accelerator.backward(model(torch.full((1, 1), float(accelerator.process_index))).sum())
    assert model.weight.grad.item() == 0.5
    assert dict(os.environ) == before
