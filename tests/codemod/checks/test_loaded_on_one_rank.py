"""States that one process alone loads."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.loaded_on_one_rank import NAME
from tests.codemod.checks.checking import DDP, leaves, reports

MADE = DDP + "net = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(net.parameters())\nwrapped = DDP(net)\n"


@pytest.mark.parametrize("what", ["optimizer", "wrapped", "wrapped.module"])
def test_only_the_main_process_loads(what: str) -> None:
    reports(NAME, MADE + f"if rank == 0:\n    {what}.load_state_dict(state)  # <- here\n")


@pytest.mark.parametrize(
    "text",
    [
        "optimizer.load_state_dict(state)\n",
        "for x in l:\n    wrapped(x).backward()\nif rank == 0:\n    wrapped.load_state_dict(state)\n",
        "if rank == 0:\n    net.load_state_dict(state)\n",
        "if resume:\n    optimizer.load_state_dict(state)\n",
        "if rank == 0:\n    optimizer.load_state_dict(state)\nbroadcast(optimizer)\n",
        "if rank == 0:\n    log.load_state_dict(state)\n",
        "if dist.is_initialized():\n    optimizer.load_state_dict(state)\n",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    leaves(NAME, MADE + text)
