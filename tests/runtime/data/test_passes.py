"""How batches get to their device; the streams of a GPU are played by a model of them where there is none."""

import collections
import random
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from accelify.runtime.data import passes
from accelify.runtime.data.passes import AHEAD, DeviceCopies

META = DeviceCopies(torch.device("meta"))


class Graph:
    device = None

    def to(self, device):
        self.device = str(device)
        return self


class Encoding(collections.UserDict):
    def to(self, device):
        raise AssertionError("it is a dict like others")


def test_containers_stay_what_they_are():
    pair = collections.namedtuple("pair", "left right")
    counts = collections.defaultdict(list, a=torch.ones(2))
    moved = META.of({"pair": pair(torch.ones(1), "name"), "counts": counts, "list": [torch.ones(1), None]})
    assert moved["pair"].left.device.type == "meta"
    assert moved["pair"].right == "name"
    assert type(moved["counts"]) is collections.defaultdict
    assert moved["counts"]["a"].device.type == "meta"
    assert counts["a"].device.type == "cpu"
    assert moved["list"][0].device.type == "meta"
    encoding = META.of(Encoding(ids=torch.ones(2)))
    assert type(encoding) is Encoding
    assert encoding["ids"].device.type == "meta"


def test_what_has_a_move_of_its_own():
    assert META.of([Graph()])[0].device == "meta"
    packed = nn.utils.rnn.pack_sequence([torch.ones(2, 1)])
    assert META.of(packed).data.device.type == "meta"


class Event:
    is_reached = False

    def __init__(self, gpu):
        self._gpu = gpu

    def synchronize(self):
        while not self.is_reached:
            self._gpu.work()


class Stream:
    """What a GPU was asked for, in order."""

    def __init__(self, gpu):
        self.asked = collections.deque()
        self._gpu = gpu
        gpu.streams.append(self)

    def record_event(self):
        event = Event(self._gpu)
        self.asked.append((None, lambda: setattr(event, "is_reached", True)))
        return event

    def wait_stream(self, other):
        self.asked.append((other.record_event(), lambda: None))


class Gpu:
    """Streams that go on in no order but what they wait for, and memory that each stream takes again."""

    def __init__(self, seed):
        self.streams = []
        self.memories = 0
        self._free = collections.defaultdict(list)
        self._random = random.Random(seed)
        self.current = Stream(self)

    def work(self):
        able = [one for one in self.streams if one.asked and (one.asked[0][0] is None or one.asked[0][0].is_reached)]
        self._random.choice(able).asked.popleft()[1]()

    @contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    def memory(self):
        kept = self._free[self.current]
        for place, (memory, events) in enumerate(kept):
            if all(event.is_reached for event in events):
                del kept[place]
                return memory
        self.memories += 1
        return {}

    def freed(self, memory, stream, users):
        self._free[stream].append((memory, [user.record_event() for user in users]))


class OnGpu:
    """A tensor on a GPU: what it holds is known once the GPU has come so far."""

    def __init__(self, gpu, value):
        self.memory, self._gpu, self.stream, self._users = gpu.memory(), gpu, gpu.current, []
        gpu.current.asked.append((None, lambda memory=self.memory: memory.update(value=value)))

    def record_stream(self, stream):
        self._users.append(stream)

    def read_into(self, seen):
        self._gpu.current.asked.append((None, lambda memory=self.memory: seen.append(memory.get("value"))))

    def __del__(self):
        self._gpu.freed(self.memory, self.stream, self._users)


class OnCpu(torch.Tensor):
    gpu: Gpu

    def to(self, device, non_blocking):
        assert non_blocking
        return OnGpu(self.gpu, self.item())


class Sparse(torch.Tensor):
    layout = torch.sparse_coo

    def to(self, device, non_blocking):
        return [OnCpu.gpu.current]


@pytest.fixture(params=range(40))
def gpu(request, monkeypatch):
    gpu = Gpu(request.param)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream(gpu))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: gpu.current)
    monkeypatch.setattr(torch.cuda, "stream", gpu.stream)
    monkeypatch.setattr(OnCpu, "gpu", gpu, raising=False)
    monkeypatch.setattr(passes, "SMALL", 0)
    passes._side_stream.cache_clear()
    yield gpu
    passes._side_stream.cache_clear()


def test_every_step_reads_its_own_batch_whatever_the_gpu_does_first(gpu):
    there, seen = DeviceCopies(torch.device("cuda")), []
    before = None
    for value in range(30):
        batch = there.of({"x": torch.tensor(value).as_subclass(OnCpu)})["x"]
        batch.read_into(seen)
        if before is not None:
            before.read_into(seen)  # a script may keep a batch for another step
        before = batch
    while any(stream.asked for stream in gpu.streams):
        gpu.work()
    assert seen == [0, *(value for number in range(1, 30) for value in (number, number - 1))]


def test_copies_go_beside_the_computation_and_do_not_fill_the_gpu(gpu):
    there, seen = DeviceCopies(torch.device("cuda")), []
    computing = gpu.current
    for value in range(30):
        (batch,) = there.of([torch.tensor(value).as_subclass(OnCpu)])
        batch.read_into(seen)
        assert gpu.current is computing is not batch.stream
        assert all(event is None for event, _ in batch.stream.asked)  # the copy waits for nothing
        assert len(seen) >= value - AHEAD
    assert gpu.memories <= AHEAD + 2


def test_small_tensors_are_copied_on_the_scripts_own_stream(gpu, monkeypatch):
    monkeypatch.setattr(passes, "SMALL", 8)
    (there,) = DeviceCopies(torch.device("cuda")).of([torch.tensor(1).as_subclass(OnCpu)])
    assert there.stream is gpu.current
    assert len(gpu.streams) == 1


def test_what_is_of_many_pieces_is_copied_on_the_scripts_own_stream(gpu):
    computing = gpu.current
    sparse, nested = (
        torch.ones(2).as_subclass(Sparse),
        torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged),
    )
    assert DeviceCopies(torch.device("cuda")).of({"x": sparse})["x"] == [computing]
    assert not passes._is_one_piece(nested)
