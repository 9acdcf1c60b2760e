"""Facts about the libraries that a migrated script may run on."""

from __future__ import annotations

from accelify.codemod.options import ACCELERATE, ACCELIFY, RUNTIMES


def test_our_own_can_do_everything_and_keeps_the_model() -> None:
    assert all(ACCELIFY.has(call) for call in ("shard", "reduce", "seed_by_rank", "gather"))
    assert not ACCELIFY.wraps_models


def test_accelerate_wraps_models_and_lacks_some_calls() -> None:
    assert ACCELERATE.wraps_models
    assert not ACCELERATE.has("shard")
    assert ACCELERATE.has("gather")


def test_each_by_its_name() -> None:
    assert set(RUNTIMES) == {"accelify", "accelerate"}
    assert all(runtime.name == name for name, runtime in RUNTIMES.items())
