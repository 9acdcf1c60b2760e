"""Files that every process writes."""

from __future__ import annotations

import pytest

from accelify.codemod.checks.every_rank_writes import NAME
from tests.codemod.checks.checking import ACCELERATE, DDP, fixed, found, leaves, reports


@pytest.mark.parametrize(
    "text",
    [
        "torch.save(net.state_dict(), 'last.pt')  # <- here\n",
        "with open('log.txt', 'w') as f:  # <- here\n    f.write('x')\n",
        "import numpy as np\nnp.save('x.npy', y)  # <- here\n",
        "os.makedirs('runs')  # <- here\n",
        "state = {'rank': rank, 'time': t}\ntorch.save(state, 'a.pt')  # <- here\n",
        "def save(path):\n    torch.save(net, path)  # <- here\nsave('a.pt')\n",
        "if dist.is_initialized():\n    torch.save(net, 'a.pt')  # <- here\n",
        "if epoch % 10 == 0:\n    torch.save(net, f'{epoch}.pt')  # <- here\n",
        "class T:\n    def save(self):\n        torch.save(1, 'a.pt')  # <- here\nT().save()\n",
    ],
)
def test_every_process_writes(text: str) -> None:
    reports(NAME, DDP + text)


def test_with_an_accelerator() -> None:
    reports(NAME, ACCELERATE + "torch.save(net, 'a.pt')  # <- here\n")
    leaves(NAME, ACCELERATE + "accelerator.save(net, 'a.pt')\naccelerator.save_state('x')\n")
    leaves(NAME, ACCELERATE + "if accelerator.is_local_main_process:\n    torch.save(net, 'a.pt')\n")


@pytest.mark.parametrize(
    "text",
    [
        "if rank == 0:\n    torch.save(net, 'a.pt')\n",
        "def f(args):\n    if args.gpu == 0:\n        torch.save(net, 'a.pt')\nf(args)\n",
        "def save():\n    torch.save(net, 'a.pt')\nif rank == 0:\n    save()\n",
        "def save():\n    if rank != 0:\n        return\n    torch.save(net, 'a.pt')\nsave()\n",
        "torch.save(net, f'shard_{rank}.pt')\n",
        "path = 'shard_%d.pt' % rank\ntorch.save(net, path)\n",
        "os.makedirs('runs', exist_ok=True)\n",
        "try:\n    os.makedirs('runs')\nexcept FileExistsError:\n    pass\n",
        "open('data.txt').read()\nopen('data.bin', 'rb')\n",
        "@main_process_only\ndef save():\n    torch.save(net, 'a.pt')\nsave()\n",
        "def save():\n    torch.save(net, 'a.pt')\n",
        "if writer is not None:\n    torch.save(net, 'a.pt')\n",
        "import io\nbuffer = io.BytesIO()\ntorch.save(net, buffer)\n",
    ],
)
def test_one_process_writes(text: str) -> None:
    leaves(NAME, DDP + text)


def test_a_script_of_one_process_may_write() -> None:
    leaves(NAME, "import torch\ntorch.save(1, 'a.pt')\n")


def test_what_the_spawning_process_does_happens_once() -> None:
    spawned = (
        "import torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"
        "def work(rank):\n    dist.init_process_group('gloo')\n    train()\n{}"
        "torch.save(1, 'start.pt')\nmp.spawn(work, nprocs=2)\n"
    )
    leaves(NAME, spawned.format(""))
    reports(NAME, spawned.format("    torch.save(1, 'a.pt')  # <- here\n"))


SAVE = "torch.save(net.state_dict(), 'a.pt')\n"


@pytest.mark.parametrize(
    ("before", "guard"),
    [
        (DDP + "if rank == 0:\n    print('start')\n", "rank == 0"),
        (DDP, "dist.get_rank() == 0"),
        (ACCELERATE + "net = accelerator.prepare(net)\n", "accelerator.is_main_process"),
    ],
)
def test_the_fix(before: str, guard: str) -> None:
    assert fixed(before + SAVE) == before + f"if {guard}:\n    {SAVE}"


@pytest.mark.parametrize(
    "text",
    [
        DDP + "with open('log.txt', 'w') as f:\n    f.write('x')\n",
        DDP + "os.makedirs('runs')\n",
        DDP + "done = torch.save(net, 'a.pt')\n",
        DDP + "torch.save(gathered(net), 'a.pt')\n".replace("gathered(net)", "dist.all_reduce(net)"),
        DDP + "from torch.distributed.fsdp import fully_shard\n" + SAVE,
    ],
)
def test_what_a_person_has_to_mend(text: str) -> None:
    assert fixed(text) == text


def test_the_fix_in_a_function() -> None:
    text = DDP + "def save(rank):\n    {}torch.save(net, 'a.pt')\nsave(1)\n"
    assert fixed(text.format("")) == text.format("if dist.get_rank() == 0:\n        ")


def test_downloads() -> None:
    start = DDP + "from torchvision.datasets import MNIST\n"
    reports(NAME, start + "data = MNIST('data', download=True)  # <- here\n")
    leaves(NAME, start + "data = MNIST('data', download=False)\n")
    leaves(NAME, start + "data = MNIST('data')\n")
    leaves(
        NAME,
        start + "if rank == 0:\n    MNIST('data', download=True)\ndist.barrier()\nd = MNIST('data', download=True)\n",
    )
    leaves(NAME, start + "with rank_zero_first():\n    data = MNIST('data', download=True)\n")


SHARD = DDP + "loader = DataLoader(rows, sampler=DistributedSampler(rows))\nfor step, x in enumerate(loader):\n"


def test_what_a_process_made_of_its_own_shard() -> None:
    text = SHARD + "    torch.save(x.mean(), f'{step}.pt')\n"
    ((line, message),) = found(NAME, text)
    assert (line, "put the rank into the name" in message) == (11, True)
    assert fixed(text) == text
    ((_, message),) = found(NAME, SHARD + "    torch.save(net.state_dict(), 'last.pt')\n")
    assert "in the main process only" in message
    leaves(NAME, SHARD + "    torch.save(x.mean(), f'{rank}-{step}.pt')\n")


def test_a_log_of_each_process() -> None:
    text = DDP + "from torch.utils.tensorboard import SummaryWriter\n"
    ((_, message),) = found(NAME, text + "writer = SummaryWriter('runs')\n")
    assert message.startswith("every process writes a log of its own into this folder")
    leaves(NAME, text + "writer = SummaryWriter('runs') if rank == 0 else None\n")
    leaves(NAME, text + "writer = SummaryWriter(f'runs/{rank}')\n")


def test_a_loader_that_is_prepared_afterwards() -> None:
    text = (
        ACCELERATE
        + "from torch.utils.data import DataLoader\ndef keep(rows):\n    for i, x in enumerate(rows):\n"
        + "        torch.save(x, f'{i}.pt')\nrows = DataLoader(data)\n"
    )
    before, after = "keep(rows)\n", "rows = accelerator.prepare(rows)\n"
    ((_, message),) = found(NAME, text + before + after + "for x in rows:\n    accelerator.backward(net(x))\n")
    assert "in the main process only" in message
    ((_, message),) = found(NAME, text + after + before)
    assert "put the rank into the name" in message
