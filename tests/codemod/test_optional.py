"""A script that distributes itself only if it is told to comes out as one that need not be told."""

from __future__ import annotations

import pytest

from accelify.codemod.result import FileResult, Status
from tests.codemod.pairs import left_alone, migrated, run

SCRIPT = """\
import argparse
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, TensorDataset

def main(gpu, args):
    {start}
    data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
    {sampler}
    loader = DataLoader(data, batch_size=2, {loader})
    model = nn.Linear(4, 1)
    {model}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        {epoch}
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        {end}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int, default=1)
    parser.add_argument("--url", default="env://")
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--ddp", action="store_true")
    args = parser.parse_args()
    {call}
"""
DEFAULTS = {
    "start": "if args.ddp: dist.init_process_group('nccl', init_method=args.url, world_size=args.world_size)",
    "sampler": "sampler = DistributedSampler(data) if args.ddp else None",
    "loader": "shuffle=(sampler is None), sampler=sampler",
    "model": "model = DDP(model) if args.ddp else model",
    "epoch": "if args.ddp: sampler.set_epoch(epoch)",
    "end": "pass",
    "call": "main(None, args)",
}


def made(**slots: str) -> FileResult:
    return run(SCRIPT.format(**{**DEFAULTS, **slots}))


def test_imports_that_other_code_may_read_stay() -> None:
    text = SCRIPT.format(**DEFAULTS).replace("def main", "exec(open('settings.py').read())\n\ndef main", 1)
    result = run(text)
    assert result.status is Status.MIGRATED
    assert "import DistributedDataParallel as DDP" in result.after.decode()


def after(**slots: str) -> str:
    return migrated(SCRIPT.format(**{**DEFAULTS, **slots}))


def test_the_whole_pattern_goes() -> None:
    text = after()
    for gone in (
        "args.ddp",
        "dist",
        "DDP",
        "DistributedSampler",
        "sampler=",
        "mp.",
        "--ddp",
        "--url",
        "--world-size",
        "--local_rank",
    ):
        assert gone not in text.replace("import", ""), text
    assert "loader = DataLoader(data, batch_size=2, shuffle=True)" in text


MACHINES = """\
parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--node", type=int, default=0)
    args = parser.parse_args()"""


@pytest.mark.parametrize(
    ("sampler", "read"),
    [
        ("DistributedSampler(data, num_replicas=args.world_size, rank=rank)", ""),
        ("DistributedSampler(data, num_replicas=args.world_size, rank=rank, shuffle=False)", ""),
        ("DistributedSampler(data)", ""),
        ("DistributedSampler(data, num_replicas=args.world_size, rank=rank)", "print(args.nodes)"),
    ],
)
def test_options_that_only_others_were_made_of_go(sampler: str, read: str) -> None:
    start = (
        "rank = args.node * args.gpus + gpu\n    dist.init_process_group('nccl', world_size=args.world_size, rank=rank)"
    )
    slots = {"start": start, "sampler": f"sampler = {sampler}", "loader": "sampler=sampler", "end": read or "pass"}
    call = "args.world_size = args.gpus * args.nodes\n    mp.spawn(main, nprocs=args.gpus, args=(args,))"
    text = SCRIPT.format(**{**DEFAULTS, **slots, "model": "model = DDP(model)", "epoch": "pass", "call": call})
    text = migrated(text.replace("args = parser.parse_args()", MACHINES))
    assert [name for name in ("nodes", "gpus", "node") if f'"--{name}"' in text] == (["nodes"] if read else [])
    assert "args.world_size" not in text


def test_an_option_that_is_read_for_something_else_stays() -> None:
    assert "--url" in after(end="print(args.url)")


@pytest.mark.parametrize(
    "settings", ["Settings(args.url)", "Settings(vars(args)['url'])", "Settings(**vars(args))", "getattr(args, 'url')"]
)
def test_an_option_that_something_else_is_made_of_stays(settings: str) -> None:
    start = "if args.ddp: dist.init_process_group('nccl', init_method=args.url, world_size=args.world_size)\n    "
    made_of_it = f"settings = {settings}\n    print(settings)"
    assert "--url" in after(start=start + made_of_it)
    assert "--url" not in after(start=start + "print(vars(args).keys())")


@pytest.mark.parametrize(
    ("sampler", "loader", "comes_out"),
    [
        ("sampler = DistributedSampler(data) if args.ddp else None", "sampler=sampler", "batch_size=2)"),
        (
            "sampler = DistributedSampler(data) if args.ddp else None",
            "sampler=sampler, shuffle=not args.ddp",
            "shuffle=True)",
        ),
        ("sampler = DistributedSampler(data) if args.ddp else RandomSampler(data)", "sampler=sampler", "shuffle=True)"),
        (
            "sampler = DistributedSampler(data, shuffle=False) if args.ddp else None",
            "sampler=sampler, shuffle=True",
            "shuffle=True)",
        ),
    ],
)
def test_the_data_keep_the_order_that_they_have_in_one_process(sampler: str, loader: str, comes_out: str) -> None:
    text = after(sampler=sampler, loader=loader)
    assert next(line for line in text.splitlines() if "DataLoader(" in line).endswith(comes_out), text


@pytest.mark.parametrize(
    ("question", "comes_out"),
    [
        ("if args.local_rank in [-1, 0]: print(epoch)", "if accelerator.is_local_main_process: print(epoch)"),
        ("if args.local_rank not in (-1, 0): print(epoch)", "if not accelerator.is_local_main_process: print(epoch)"),
        ("if not args.ddp or dist.get_rank() == 0: print(epoch)", "if accelerator.is_main_process: print(epoch)"),
        ("if args.ddp and dist.get_rank() > 0: print(epoch)", "if not accelerator.is_main_process: print(epoch)"),
        ("if args.ddp: print(epoch)", "if accelerator.num_processes > 1: print(epoch)"),
        ("if args.ddp and epoch: print(epoch)", "if accelerator.num_processes > 1 and epoch: print(epoch)"),
        (
            "import os\n        if 'RANK' in os.environ and 'WORLD_SIZE' in os.environ: print(epoch)",
            "if accelerator.num_processes > 1: print(epoch)",
        ),
        ("if not args.ddp: print(epoch)", "if not accelerator.num_processes > 1: print(epoch)"),
        ("print(args.ddp)", "print(accelerator.num_processes > 1)"),
        ("if dist.is_initialized(): dist.broadcast(loss, 0)", "if dist.is_initialized(): dist.broadcast(loss, 0)"),
    ],
)
def test_a_question_is_put_to_the_accelerator(question: str, comes_out: str) -> None:
    assert comes_out in after(end=question)


@pytest.mark.parametrize(
    ("slots", "reason"),
    [
        ({"model": "if args.ddp: model = DDP(model); model.extra = 1"}, "`model.extra = 1` runs only when"),
        ({"model": "model = DDP(model) if args.ddp else nn.Linear(4, 2)"}, "more than what the accelerator does"),
        ({"loader": "shuffle=args.mixed, sampler=sampler"}, "in which order"),
        (
            {"end": "if args.ddp: raise ValueError(model)\n        dist.send(loss, 1)"},
            "already distributes itself",
        ),
        ({"call": "mp.spawn(main, nprocs=2, args=args)"}, "which function is started"),
        (
            {"call": "mp.spawn(main, nprocs=2, args=(args,)); mp.spawn(main, nprocs=2, args=(args,))"},
            "in several places",
        ),
        ({"call": "mp.spawn(main, nprocs=2, args=(args,), join=False)"}, "continues while"),
    ],
)
def test_what_is_not_understood_is_declined_with_the_line(slots: dict[str, str], reason: str) -> None:
    result = made(**slots)
    assert result.status is Status.DECLINED, result.after.decode()
    assert any(reason in note.message for note in result.notes), result.notes
    assert result.after == result.before


def test_a_function_that_is_started_is_called() -> None:
    text = after(call="mp.spawn(main, nprocs=2, args=(args,))", end="print(args)")
    assert "def main(args):" in text
    assert "    main(args)" in text
    assert "spawn" not in text


METHOD = """\
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

class Trainer:
    def __init__(self, size):
        self.size = size

    def run(self):
        {start}

    {decorator}
    def work({parameters}):
        dist.init_process_group("gloo", rank=rank, world_size=size)
        model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(steps):
            loss = model(torch.randn(8, 4)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            torch.save(model.module.state_dict(), "model.pt")

Trainer(2).run()
"""


@pytest.mark.parametrize(
    ("start", "decorator", "parameters", "called", "defined"),
    [
        (
            "mp.spawn(self.work, args=(self.size, 3), nprocs=self.size)",
            "",
            "self, rank, size, steps",
            "self.work(3)",
            "work(self, steps)",
        ),
        (
            "mp.spawn(self.work, args=(self.size, 3), nprocs=self.size)",
            "@staticmethod",
            "rank, size, steps",
            "self.work(3)",
            "work(steps)",
        ),
        (
            "if self.size > 1: mp.spawn(self.work, args=(self.size, 3), nprocs=self.size)\n"
            "        else: self.work(0, 1, 3)",
            "",
            "self, rank, size, steps",
            "self.work(3)",
            "work(self, steps)",
        ),
    ],
)
def test_a_method_that_is_started_keeps_its_object(
    start: str, decorator: str, parameters: str, called: str, defined: str
) -> None:
    text = migrated(METHOD.format(start=start, decorator=decorator, parameters=parameters))
    assert called in text
    assert defined in text
    assert "accelerator.is_main_process:" in text


def test_starting_processes_alone_is_no_migration() -> None:
    left_alone("""\
        import torch
        import torch.distributed as dist
        import torch.multiprocessing as mp

        def work(rank, size, model):
            dist.init_process_group("gloo", rank=rank, world_size=size)
            print(rank, model(torch.ones(1, 4)))

        def unused(model):
            model(torch.ones(1, 4)).mean().backward()

        mp.spawn(work, nprocs=2, args=(2, torch.nn.Linear(4, 1)))
        """)


def test_a_function_that_is_started_or_called_is_called_once() -> None:
    text = after(
        call="if args.ddp:\n        mp.spawn(main, nprocs=2, args=(args,))\n    else:\n        main(None, args)",
        end="print(args.world_size)",
    )
    assert text.count("main(args") == 2, text


def test_the_number_of_a_process_is_asked_for() -> None:
    text = after(call="mp.spawn(main, nprocs=2, args=(args,))", end="if gpu == 0: print(gpu, epoch)")
    assert "gpu = accelerator.local_process_index" in text
    assert "if accelerator.is_local_main_process: print(gpu, epoch)" in text


def test_a_function_of_the_scripts_own_that_asks_is_understood() -> None:
    asks = "def several():\n    if not dist.is_initialized():\n        return False\n    return True\n\n\n"
    text = run(asks + SCRIPT.format(**{**DEFAULTS, "end": "if several(): dist.broadcast(loss, 0)"})).after.decode()
    assert "if several(): dist.broadcast(loss, 0)" in text or "num_processes > 1: dist.broadcast(loss, 0)" in text


def test_a_function_that_asks_itself_is_no_trap() -> None:
    asks = "def several(n):\n    if n:\n        return dist.is_initialized()\n    return several(n)\n\n\n"
    result = run(asks + SCRIPT.format(**{**DEFAULTS, "end": "if several(1): print(epoch)"}))
    assert result.status in (Status.MIGRATED, Status.DECLINED)
    asks = "def several(n):\n    return several(n)\n\n\n"
    assert run(asks + SCRIPT.format(**{**DEFAULTS, "end": "if several(1): print(epoch)"})).status is Status.MIGRATED


def test_lines_of_notes_and_changes_are_those_of_the_files() -> None:
    result = made(end="print(args.url)")
    before, text = result.before.decode().splitlines(), result.after.decode().splitlines()
    changed = {before[c.line - 1].strip() for c in result.changes if c.rule == "backward"}
    assert changed == {"loss.backward()"}
    noted = [text[n.line - 1] for n in result.notes if n.rule == "batch_size"]
    assert noted
    assert all("DataLoader(" in line for line in noted)


def test_a_switch_that_is_off_hides_nothing() -> None:
    ready = "warm = False\n    if warm: dist.barrier()"
    text = after(end=ready, call="main(None, args)")
    assert "if warm: accelerator.wait_for_everyone()" in text, text


def test_the_class_of_the_sampler_may_be_chosen_first() -> None:
    made_by = "make = RandomSampler if not args.ddp else DistributedSampler\n    sampler = make(data)"
    text = after(sampler=made_by, loader="sampler=sampler")
    assert "loader = DataLoader(data, batch_size=2, shuffle=True)" in text, text
    assert "make" not in text
    left_alone(
        SCRIPT.format(**{**DEFAULTS, "sampler": f"{made_by}\n    print(make)", "loader": "sampler=sampler"}), "itself"
    )


def test_an_epoch_counter_that_only_the_sampler_read_goes() -> None:
    sampler = "sampler = DistributedSampler(data) if args.ddp else None\n    if args.ddp:\n        seen = 0"
    end = "if args.ddp:\n            seen += 1\n            loader.sampler.set_epoch(seen)"
    text = after(sampler=sampler, loader="sampler=sampler", end=end)
    assert "seen" not in text
    assert "pass" not in text
    assert "num_processes" not in text
    kept = f"seen = 0\n    {DEFAULTS['sampler']}"
    assert "seen += 1\n        print(seen)" in after(sampler=kept, end="seen += 1\n        print(seen)")


def test_what_asks_for_a_gpu_where_there_are_several_processes_goes() -> None:
    start = """\
if args.ddp:
        assert torch.cuda.is_available(), "one each"
        dist.init_process_group('nccl')
        device = f"cuda:{args.local_rank}"
    else:
        device = "cuda" if torch.cuda.is_available() else "cpu\""""
    result = made(start=start, model="model = DDP(model.to(device)) if args.ddp else model.to(device)")
    assert result.status is Status.MIGRATED, result.notes
    assert "assert" not in result.after.decode()
    assert any("was removed with its branch" in n.message for n in result.notes)
