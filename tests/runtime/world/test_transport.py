"""How messages are sent."""

import gc
import weakref
from types import SimpleNamespace

import torch
import torch.distributed as dist

from accelify.runtime.world.transport import SMALL, Processes


def test_the_last_small_message_is_held_until_the_next(monkeypatch):
    """Gloo's thread must never hold the last reference: it would need Python to let go, which a fork may have stopped.

    That it then waits for good depends on the moment of the fork; what can be shown is who holds on to the tensors.
    """
    sent = []

    def all_gather(everyone, mine, async_op):
        for one in everyone:
            one.copy_(mine)
        sent.append([weakref.ref(tensor) for tensor in [mine, *everyone]])
        return SimpleNamespace(wait=lambda timeout: None)

    monkeypatch.setattr(dist, "all_gather", all_gather)
    transport = Processes(2)

    def alive():
        gc.collect()
        return [all(tensor() is not None for tensor in message) for message in sent]

    assert [part.tolist() for part in transport.gather(torch.tensor([1, 2]))] == [[1, 2], [1, 2]]
    assert alive() == [True]
    transport.gather(torch.zeros(SMALL, dtype=torch.int64))  # too large to be kept, and none that precedes a fork
    assert alive() == [True, False]
    transport.gather(torch.tensor([3, 4]))
    assert alive() == [False, False, True]
