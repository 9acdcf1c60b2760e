"""A SIGTERM is acted on where the script asks, with a checkpoint."""

import os
import signal

import pytest

from accelify.runtime.checkpoint.preemption import Preemption
from accelify.runtime.world.collectives import Collectives


@pytest.fixture
def before():
    """The handler of SIGTERM that the script had, and its calls."""
    calls = []
    old = signal.signal(signal.SIGTERM, lambda number, frame: calls.append(number))
    yield calls
    signal.signal(signal.SIGTERM, old)


@pytest.mark.parametrize("is_main", [True, False])
def test_a_signal_saves_and_ends_at_the_next_question(is_main, before, capsys):
    saved, preemption = [], Preemption(collectives=Collectives(), is_main=is_main)

    def save():
        saved.append("checkpoint_0")
        return "checkpoint_0"

    preemption.stop_if_asked(save)
    assert saved == []
    os.kill(os.getpid(), signal.SIGTERM)
    assert before == [signal.SIGTERM]  # the script's own handler is still called
    with pytest.raises(SystemExit) as ended:
        preemption.stop_if_asked(save)
    assert ended.value.code == 143
    assert saved == ["checkpoint_0"]
    assert ("stopped by SIGTERM with a checkpoint, checkpoint_0" in capsys.readouterr().err) is is_main


def test_a_script_that_never_asks_keeps_its_handler(before):
    handler = signal.getsignal(signal.SIGTERM)
    Preemption(collectives=Collectives(), is_main=True)
    assert signal.getsignal(signal.SIGTERM) is handler
