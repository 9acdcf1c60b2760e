"""Collectives that some processes never come to."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.unreached_collective import NAME
from tests.codemod.checks.checking import ACCELERATE, DDP, found, leaves, reports


@pytest.mark.parametrize(
    "text",
    [
        "if rank == 0:\n    dist.all_reduce(x)  # <- here\n",
        "if dist.get_rank() == 0:\n    dist.barrier()  # <- here\n",
        "if rank != 0:\n    pass\nelse:\n    dist.all_gather(out, x)  # <- here\n",
        "if int(os.environ['RANK']) == 0:\n    dist.barrier()  # <- here\n",
        "def save(args):\n    if args.local_rank == 0:\n        dist.barrier()  # <- here\n",
        "def save(args):\n    if args.local_rank not in (-1, 0):\n        return\n    dist.barrier()  # <- here\n",
        "for x in loader:\n    if rank != 0:\n        continue\n    dist.all_reduce(x)  # <- here\n",
        "def mean(x):\n    dist.all_reduce(x)\n    return x\nif rank == 0:\n    print(mean(x))  # <- here\n",
        "def is_main():\n    return dist.get_rank() == 0\nif is_main():\n    dist.barrier()  # <- here\n",
        "if rank == 0:\n    for x in loader:\n        dist.reduce(x, 0)  # <- here\n",
    ],
)
def test_only_some_processes_come_to_it(text: str) -> None:
    reports(NAME, DDP + text)


def test_the_accelerator_waits_too() -> None:
    reports(NAME, ACCELERATE + "if accelerator.is_main_process:\n    accelerator.wait_for_everyone()  # <- here\n")
    reports(NAME, ACCELERATE + "if accelerator.is_main_process:\n    print(accelerator.gather(x))  # <- here\n")


def test_it_says_where_a_function_waits() -> None:
    ((_, message),) = found(NAME, DDP + "def f(x):\n    dist.all_reduce(x)\nif rank == 0:\n    f(x)\n")
    assert "`f`, which calls `all_reduce` (line 10)" in message


@pytest.mark.parametrize(
    "text",
    [
        "dist.all_reduce(x)\nif rank == 0:\n    print(x)\n",
        "if rank != 0:\n    dist.barrier()\nload()\nif rank == 0:\n    dist.barrier()\n",
        "if rank == 0:\n    dist.broadcast(x, 0)\nelse:\n    dist.broadcast(y, 0)\n",
        "if dist.is_initialized():\n    dist.barrier()\n",
        "if dist.get_world_size() > 1:\n    dist.all_reduce(x)\n",
        "def f(args):\n    if args.distributed:\n        dist.all_reduce(x)\n",
        "if rank == 0:\n    dist.send(x, 1)\nelse:\n    dist.recv(x, 0)\n",
        "if rank < 2:\n    dist.all_reduce(x, group=pair)\n",
        "def f(x, reduce):\n    if reduce:\n        dist.all_reduce(x)\nif rank == 0:\n    f(x, False)\n",
        "def f(x):\n    if rank == 0:\n        return x\n    return None\ndist.barrier()\nf(x)\n",
        "if rank == 0:\n    x = torch.gather(y, 0, i)\n    y.reduce(3)\n",
        "if torch.cuda.is_available():\n    dist.barrier()\n",
    ],
)
def test_all_come_to_it(text: str) -> None:
    leaves(NAME, DDP + text)


def test_guards_that_stand_in_another_file() -> None:
    utils = "import torch.distributed as dist\ndef main():\n    return dist.get_rank() == 0\n"
    text = DDP + "from utils import main\nif main():\n    dist.barrier()\n"
    assert [line for line, _ in found(NAME, {"main.py": text, "utils.py": utils})] == [11]
    text = DDP + "from utils import main\nif main():\n    print(1)\ndist.barrier()\n"
    leaves(NAME, {"main.py": text, "utils.py": utils})


def test_the_accelerator_in_all_processes() -> None:
    leaves(NAME, ACCELERATE + "accelerator.wait_for_everyone()\nif accelerator.is_main_process:\n    print(1)\n")
    leaves(NAME, ACCELERATE + "x = accelerator.gather(x)\nif accelerator.is_main_process:\n    x.gather(0, i)\n")


def test_a_function_that_remembers_what_it_came_to() -> None:
    text = DDP + "import functools\n{}def mean(x):\n    dist.all_reduce(x)\nif rank == 0:\n    mean(3)\n"
    assert found(NAME, text.format(""))
    assert found(NAME, text.format("@torch.no_grad()\n"))
    leaves(NAME, text.format("@functools.cache\n"))
    leaves(NAME, text.format("@functools.lru_cache(maxsize=None)\n"))


SHARDED = (
    DDP + "net = DDP(torch.nn.Linear(1, 1))\nloader = DataLoader(rows, sampler=DistributedSampler(rows))\n"
    "for step, x in enumerate(loader):\n    loss = net(x).sum()\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "    if loss.item() > 9:\n        dist.barrier()  # <- here\n",
        "    if x.sum() == 0:\n        continue\n    dist.all_reduce(loss)  # <- here\n",
        "if loss < 3:\n    dist.all_reduce(loss)  # <- here\n",
        "def mean(x):\n    dist.all_reduce(x)\nif torch.isnan(loss):\n    mean(loss)  # <- here\n",
    ],
)
def test_its_own_batch_decides(text: str) -> None:
    reports(NAME, SHARDED + text)


@pytest.mark.parametrize(
    "text",
    [
        "    if step % 10 == 0:\n        dist.all_reduce(loss)\n",
        "    if loss.item() > 9:\n        print(loss)\n    dist.barrier()\n",
        "    bad = reduced(loss)\n    if bad > 9:\n        dist.barrier()\n",
        "    if loss > 9:\n        dist.all_reduce(loss)\n    else:\n        dist.all_reduce(x)\n",
        "    if x is None:\n        dist.barrier()\n",
        "    if len(x) < 9:\n        dist.barrier()\n",
    ],
)
def test_all_decide_alike(text: str) -> None:
    leaves(NAME, SHARDED + text)
