"""Which backend joins the processes, and which collectives a world gets."""

from datetime import timedelta

import pytest
import torch

from accelify.runtime.world.backend import DEBUG_TIMEOUT, collectives_of, join
from accelify.runtime.world.collectives import Collectives, GroupCollectives
from accelify.runtime.world.environment import Environment
from accelify.runtime.world.process_group import TIMEOUT, World


@pytest.mark.parametrize(
    ("asked", "debug", "timeout"),
    [
        (None, False, TIMEOUT),
        (None, True, DEBUG_TIMEOUT),
        (timedelta(seconds=5), True, timedelta(seconds=5)),
    ],
)
def test_a_rank_waits_less_long_with_debug(asked, debug, timeout):
    assert join(Environment(debug=debug), cpu=True, timeout=asked).timeout == timeout


def test_a_rank_waits_as_long_as_the_launcher_says_unless_the_script_says_so():
    environment = Environment(debug=True, timeout=7.5)
    assert join(environment, cpu=True).timeout == timedelta(seconds=7.5)
    assert join(environment, cpu=True, timeout=timedelta(seconds=5)).timeout == timedelta(seconds=5)


def test_the_cpu_is_chosen_over_xla():
    assert join(Environment(pjrt="TPU", cpu=True)).device == torch.device("cpu")


def test_one_process_needs_no_messages():
    assert type(collectives_of(World(device=torch.device("cpu")))) is Collectives
    assert isinstance(collectives_of(World(device=torch.device("cpu"), size=2)), GroupCollectives)
