"""What ranks that waited in vain tell, by the words that all of them left in the store."""

from datetime import timedelta

import torch
import torch.distributed as dist

from accelify.runtime.world import process_group
from accelify.runtime.world.desync import missing
from accelify.runtime.world.process_group import World


def told(monkeypatch, *words, asked="backward"):
    """What rank 0 says; the others' words by key and value."""
    monkeypatch.setattr(process_group, "GRACE", timedelta())
    store = dist.HashStore()
    for key, word in words:
        store.set(key, word)
    world = World(device=torch.device("cpu"), rank=0, size=3, store=store)
    return str(missing(world, asked, RuntimeError("timed out")))


def test_ranks_at_different_calls(monkeypatch):
    words = ("word/1", "waits at train.py:7 gather f32[2]"), ("word/2", "waits at train.py:9 backward")
    text = told(monkeypatch, *words)
    assert text.startswith("the ranks wait at different calls; rank 0 waits at test_desync.py:")
    assert text.endswith("rank 1 waits at train.py:7 gather f32[2]; rank 2 waits at train.py:9 backward (timed out)")


def test_all_at_the_same_call(monkeypatch):
    words = ("word/1", "waits at train.py:7 backward"), ("word/2", "waits at train.py:9 backward")
    assert told(monkeypatch, *words).startswith("the connection broke; rank 0 waits")


def test_those_that_are_gone_come_first(monkeypatch):
    text = told(monkeypatch, ("end/2", "has ended"))
    assert text.startswith("rank 1 never came; rank 2 has ended; rank 0 waits at ")
    assert "join_uneven_inputs" in text
    text = told(
        monkeypatch, ("word/1", "waits at a.py:1 reduce"), ("end/1", "has ended"), ("end/2", "failed with E: x")
    )
    assert text.startswith("rank 2 failed with E: x; rank 0 waits at ")
    assert "rank 1 waits at a.py:1 reduce (timed out)" in text
