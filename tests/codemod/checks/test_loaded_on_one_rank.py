"""States that one process alone loads."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.loaded_on_one_rank import NAME
from tests.codemod.checks.checking import ACCELERATE, DDP, leaves, reports

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


TRAINS = "for x in l:\n    wrapped(x).backward()\n"
LOAD = "def load(m, path):\n    m.load_state_dict(torch.load(path)){}\n"


def test_a_function_that_the_main_process_alone_calls() -> None:
    reports(NAME, MADE + LOAD.format("  # <- here") + "if rank == 0:\n    load(wrapped, 'a.pt')\n" + TRAINS)
    late = "def load(m):\n    if rank != 0:\n        return\n    m.load_state_dict(state)  # <- here\n"
    reports(NAME, MADE + late + "load(optimizer)\n" + TRAINS)
    leaves(NAME, MADE + LOAD.format("") + "load(wrapped, 'a.pt')\n" + TRAINS)
    leaves(NAME, MADE + LOAD.format("") + "load(wrapped, 'a.pt')\nif rank == 0:\n    load(wrapped, 'b.pt')\n" + TRAINS)
    leaves(NAME, MADE + LOAD.format("") + "if rank == 0:\n    load(net, 'a.pt')\n")


def test_the_other_processes_load_elsewhere() -> None:
    branches = "if rank == 0:\n    optimizer.load_state_dict(a)\nelse:\n    optimizer.load_state_dict(b)\n"
    leaves(NAME, MADE + branches + TRAINS)


def test_what_is_prepared() -> None:
    text = ACCELERATE + "net = accelerator.prepare(torch.nn.Linear(1, 1))\nif accelerator.is_main_process:\n    {}\n"
    reports(NAME, text.format("accelerator.unwrap_model(net).load_state_dict(state)  # <- here"))
    reports(NAME, text.format("accelerator.load_state('folder')  # <- here"))
    leaves(NAME, text.format("accelerator.save(net.state_dict(), 'a.pt')"))
    leaves(NAME, text.format("print(net)") + "accelerator.load_state('folder')\n")
