"""What a script does by hand to run on several processes is taken apart whole, or the script is declined."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options, rewrite_together
from tests import scripts
from tests.codemod.pairs import migrated, run, script

SCRIPT = """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
{imports}

def main(args):
    {start}
    local_rank = {local_rank}
    torch.cuda.set_device(local_rank)
    data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
    sampler = {sampler}
    loader = DataLoader(data, batch_size=2, {loader})
    model = nn.Linear(4, 1).to(local_rank)
    model = {model}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            x, y = x.to(local_rank), y.to(local_rank)
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        {end}
    dist.destroy_process_group()


{call}
"""
DEFAULTS = {
    "imports": "",
    "start": "dist.init_process_group('nccl')",
    "local_rank": "int(os.environ['LOCAL_RANK'])",
    "sampler": "DistributedSampler(data)",
    "loader": "sampler=sampler",
    "model": "DDP(model, device_ids=[local_rank])",
    "end": "pass",
    "call": "main(None)",
}


def made(**slots: str) -> FileResult:
    return run(SCRIPT.format(**{**DEFAULTS, **slots}))


def after(**slots: str) -> str:
    return migrated(SCRIPT.format(**{**DEFAULTS, **slots}))


def test_a_sampler_may_be_made_under_the_condition_of_its_loader() -> None:
    text = dedent("""\
        import sys
        import torch
        import torch.distributed as dist
        from torch import nn
        from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
        dist.init_process_group("nccl")
        model = nn.Linear(4, 1)
        model = nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if "--train" in sys.argv:
            data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
            sampler = DistributedSampler(data)
            loader = DataLoader(data, batch_size=2, sampler=sampler)
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """)
    after = migrated(text)
    assert "loader = DataLoader(data, batch_size=2, shuffle=True)" in after
    assert "sampler" not in after.lower()
    choice = "    sampler = None\n    if len(data) > 4: sampler = D"
    other = run(text.replace("    sampler = D", choice))
    assert other.status is Status.DECLINED


def test_the_whole_pattern_goes() -> None:
    text = after()
    for gone in ("dist", "DDP", "Sampler", "sampler", "LOCAL_RANK", "local_rank", "set_device", "import os"):
        assert gone not in text, text
    assert "DataLoader(data, batch_size=2, shuffle=True)" in text
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in text


@pytest.mark.parametrize(
    ("sampler", "loader", "comes_out"),
    [
        ("DistributedSampler(data, shuffle=False)", "sampler=sampler", "batch_size=2)"),
        ("DistributedSampler(data)", "shuffle=False, sampler=sampler", "batch_size=2, shuffle=True)"),
        (
            "DistributedSampler(data)",
            "shuffle=(sampler is None), sampler=sampler, num_workers=0",
            "shuffle=True, num_workers=0)",
        ),
        ("DistributedSampler(data, dist.get_world_size(), dist.get_rank())", "sampler=sampler", "shuffle=True)"),
        (
            "DistributedSampler(data)",
            "shuffle=dist.get_world_size() == 1, sampler=sampler if dist.get_world_size() > 1 else None",
            "batch_size=2, shuffle=True)",
        ),
    ],
)
def test_the_sampler_leaves_its_order(sampler: str, loader: str, comes_out: str) -> None:
    assert f"{comes_out}\n" in after(sampler=sampler, loader=loader)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("print(dist.get_rank())", "print(accelerator.process_index)"),
        ("print(dist.get_world_size())", "print(accelerator.num_processes)"),
        ("print(int(os.environ.get('RANK', 0)))", "print(accelerator.process_index)"),
        ("if dist.get_rank() == 0: print(epoch)", "if accelerator.is_main_process: print(epoch)"),
        ("if local_rank != 0: continue", "if not accelerator.is_local_main_process: continue"),
        ("dist.barrier()", "accelerator.wait_for_everyone()"),
        ("dist.all_reduce(loss)", "loss = accelerator.reduce(loss)"),
        ("dist.all_reduce(loss, op=dist.ReduceOp.AVG)", 'loss = accelerator.reduce(loss, reduction="mean")'),
        ("dist.reduce(loss, dst=0)", "loss = accelerator.reduce(loss)"),
        ("torch.save(model.module.state_dict(), 'm.pt')", "accelerator.save(model.state_dict(), 'm.pt')"),
        ("w = torch.zeros(1, device=local_rank)", "w = torch.zeros(1, device=accelerator.device)"),
        ("w = torch.zeros(1, device=f'cuda:{local_rank}')", "w = torch.zeros(1, device=accelerator.device)"),
        (
            "w = torch.zeros(1, device=torch.device('cuda', dist.get_rank()))",
            "w = torch.zeros(1, device=accelerator.device)",
        ),
        ("w = torch.ones(1).to(device=torch.device('cuda:%d' % local_rank))", "(1).to(device=accelerator.device)"),
        (
            "w = torch.load('w.pt', map_location=f'cuda:{local_rank}')",
            "torch.load('w.pt', map_location=accelerator.device)",
        ),
        ("loc = f'cuda:{local_rank}'; w = torch.load('w.pt', map_location=loc)", "loc = accelerator.device; w = "),
        ("loc = f'cuda:{local_rank}'; w = torch.load(loc, map_location=loc)", "loc = f'cuda:{local_rank}'; w = "),
        ("print(f'cuda:{local_rank}')", "print(f'cuda:{local_rank}')"),
    ],
)
def test_the_accelerator_is_asked_instead(asked: str, answer: str) -> None:
    assert answer in after(end=asked)


@pytest.mark.parametrize(
    ("end", "comes_out"),
    [
        (
            "dist.broadcast(loss, 0)",
            "        if accelerator.num_processes > 1:\n            dist.broadcast(loss, 0)\n",
        ),
        (
            "dist.all_reduce(loss.data)",
            "        if accelerator.num_processes > 1:\n            dist.all_reduce(loss.data)\n",
        ),
        (
            "rows = [loss] * dist.get_world_size(); dist.all_gather(rows, loss)",
            "rows = [loss] * accelerator.num_processes\n        rows[:] = accelerator.gather(loss.detach()[None])\n",
        ),
        (
            "rows = [None] * dist.get_world_size()\n        dist.all_gather_object(rows, epoch)",
            "        rows[:] = accelerator.gather_object(epoch)\n",
        ),
    ],
)
def test_what_processes_exchange(end: str, comes_out: str) -> None:
    assert comes_out in after(end=end)


@pytest.mark.parametrize(
    ("context", "comes_out"),
    [
        ("model.no_sync()", "with accelerator.no_sync(model):"),
        ("model.no_sync() if epoch else nullcontext()", "with accelerator.no_sync(model) if epoch else nullcontext():"),
        ("(nullcontext if epoch else model.no_sync)()", "else (lambda: accelerator.no_sync(model)))():"),
    ],
)
def test_gradients_that_are_averaged_later(context: str, comes_out: str) -> None:
    text = after(imports="from contextlib import nullcontext\n", end=f"with {context}:\n            model(x).mean()")
    assert comes_out in text


def test_a_method_that_only_asks_for_its_object_s_rank_keeps_its_object() -> None:
    text = after(
        imports="class Run:\n    def __init__(self):\n        self.rank = dist.get_rank()\n\n"
        "    def is_first(self):\n        return self.rank == 0\n",
        end="if Run().is_first(): print(epoch)",
    )
    assert "def is_first(self" in text
    assert "is_main_process" in text


def test_a_function_that_only_started_processes_goes() -> None:
    setup = (
        "def setup(rank):\n    '''Start.'''\n    os.environ['MASTER_PORT'] = '1'\n    dist.init_process_group('gloo')\n"
    )
    text = after(imports=setup, start="setup(0)")
    assert "setup" not in text
    assert "MASTER_PORT" not in text


@pytest.mark.parametrize(
    ("slots", "reason"),
    [
        ({"start": "if torch.cuda.is_available(): dist.init_process_group('nccl')"}, "under a condition"),
        ({"start": "dist.init_process_group('nccl', timeout=args)"}, "options that have no counterpart"),
        ({"local_rank": "int(os.environ.get('LOCAL_RANK', -1))"}, "with 0 or 1 as its default"),
        ({"local_rank": "os.environ['LOCAL_RANK']"}, "not converted to a number"),
        ({"sampler": "DistributedSampler(data) if args else None"}, "depends on a condition"),
        ({"sampler": "DistributedSampler(data, shuffle=args)"}, "depends on a condition"),
        ({"loader": "sampler=sampler if args else None"}, "depends on a condition"),
        ({"model": "DDP(model, device_ids=[local_rank]) if args else model"}, "wrapped under a condition"),
        ({"model": "DDP(model, process_group=args)"}, "options that have no counterpart"),
        ({"end": "print(len(sampler))"}, "`sampler=`"),
        (
            {"end": "for w in model.parameters(): dist.all_reduce(w)"},
            "already distributes itself; `accelerator.reduce(x)` does the same",
        ),
        ({"end": "dist.all_reduce(model.weight.grad)"}, "already distributes itself"),
        ({"end": "work = dist.broadcast(loss, 0, async_op=True)"}, "already distributes itself"),
        (
            {"end": "print(dist.get_backend())"},
            "already distributes itself; remove this, or keep the script unchanged",
        ),
        ({"end": "print(isinstance(model, DDP))"}, "already distributes itself"),
        ({"end": "if dist.get_rank() == 0: torch.load('m.pt')"}, "one process alone loads"),
        ({"call": "torch.multiprocessing.spawn(main, nprocs=2, join=False)"}, "accelify launch"),
        ({"call": "torch.multiprocessing.spawn(main, nprocs=2, writer=None)"}, "is no parameter of `spawn`"),
        ({"loader": "shuffle=True"}, "no DistributedSampler shards these data"),
    ],
)
def test_what_is_not_understood_is_declined_with_the_reason(slots: dict[str, str], reason: str) -> None:
    result = made(**slots)
    assert result.status is Status.DECLINED, result.after.decode()
    assert any(reason in note.message for note in result.notes), result.notes


@pytest.mark.parametrize(
    "imported", ["import torch_xla.core.xla_model as xm", "from torch_xla.core import xla_model as xm"]
)
def test_a_script_for_a_tpu_does_not_distribute_itself(imported: str) -> None:
    text = script(imports=imported).replace("device = torch", "device = xm.xla_device()  # torch")
    result = run(text)
    assert result.status is Status.DECLINED
    assert [n.message.partition(": ")[0] for n in result.notes] == ["`torch_xla.core.xla_model.xla_device`"]


def test_a_comment_beside_an_argument_that_goes_is_listed() -> None:
    result = made(loader="shuffle=False,  # the sampler does that\n        sampler=sampler")
    assert result.status is Status.MIGRATED, result.notes
    assert any("# the sampler does that" in change.reason for change in result.changes)


def test_what_each_process_writes_and_reduces_is_the_scripts_own_decision() -> None:
    lines = "if dist.get_rank() == 0:\n            writer.add_scalar('loss', total, epoch)"
    text = after(
        imports="from torch.utils.tensorboard import SummaryWriter",
        start="dist.init_process_group('nccl')\n    writer = SummaryWriter()\n    total = 0",
        end=lines,
    )
    assert text.count("if accelerator.is_main_process:") == 1
    assert "    writer = SummaryWriter()\n" in text


OVER_DATA = "        for x, y in loader:\n            x, y ="
ENDLESS = """\
        batches = iter(loader)
        for step in range({steps}):
            try:
                x, y = next(batches)
            except StopIteration:
                batches = iter(loader)
                x, y = next(batches)
            x, y ="""


@pytest.mark.parametrize(
    ("loop", "is_said"),
    [
        (OVER_DATA, "an epoch has 1/N of the steps, as before"),
        (ENDLESS.format(steps=8), "the same number of steps (line {}) learns from N times the data, as before"),
        (ENDLESS.format(steps="args.n"), "the same number of steps (line {}) learns from N times the data, as before"),
        (ENDLESS.format(steps="len(loader)"), "an epoch has 1/N of the steps, as before"),
    ],
)
def test_how_many_steps_an_epoch_has(loop: str, is_said: str) -> None:
    result = run(SCRIPT.format(**DEFAULTS).replace(OVER_DATA, loop))
    (message,) = (n.message for n in result.notes if "learns from N batches" in n.message)
    assert re.sub(r"line \d+", "line {}", message).endswith(is_said)


SAVES = "helpers.save_on_master(model.state_dict(), 'last.pt')"
HELPERS = """\
import torch
import torch.distributed as dist

def is_main_process():
    return dist.get_rank() == 0

def save_on_master(state, path):
    {guard}
        torch.save(state, path)
"""


@pytest.mark.parametrize(
    ("guard", "end", "is_reported"),
    [
        ("if is_main_process():", SAVES, False),
        ("if len(path):", SAVES, True),
        ("if len(path):", f"if dist.get_rank() == 0:\n            {SAVES}", False),
        ("if len(path):", f"if helpers.is_main_process():\n            {SAVES}", False),
        ("if len(path):", f"if epoch > 0:\n            {SAVES}", True),
    ],
)
def test_a_helper_that_saves_on_the_first_process_needs_no_note(
    guard: str, end: str, is_reported: bool, tmp_path: Path
) -> None:
    slots = {"imports": "import helpers", "end": end}
    text = SCRIPT.format(**{**DEFAULTS, **slots})
    files = {"train.py": text.encode(), "helpers.py": HELPERS.format(guard=guard).encode()}
    scripts.write(tmp_path, files)
    with scripts.inside(tmp_path):
        results = rewrite_together(("train.py",), Options())
    assert results[0].status is Status.MIGRATED, results[0].notes
    notes = [note.message for result in results for note in result.notes]
    assert any("every process writes this file" in note for note in notes) == is_reported


def test_a_script_that_only_asks_whether_its_model_is_wrapped_is_a_plain_one() -> None:
    text = migrated("""\
        import torch
        from torch import nn
        from torch.nn.parallel import DataParallel, DistributedDataParallel
        from torch.utils.data import DataLoader, TensorDataset
        def bare(model):
            if isinstance(model, (DataParallel, DistributedDataParallel)):
                model = model.module
            return model
        loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        torch.save(bare(model).state_dict(), "model.pt")
        """)
    assert "isinstance(model, (DataParallel, DistributedDataParallel))" in text
    assert "accelerator.save(bare(model).state_dict()" in text


def test_a_question_that_only_leads_to_what_the_wrapper_holds_is_settled() -> None:
    text = after(end="print(model.module.state_dict() if isinstance(model, DDP) else model.state_dict())")
    assert "DDP" not in text
    assert "        print(model.state_dict())\n" in text


def test_reasons_for_declining_have_the_lines_of_the_users_file() -> None:
    text = dedent("""\
        import torch
        import torch.distributed as dist
        import torch.multiprocessing as mp
        from torch import nn
        from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

        def main(rank):
            dist.init_process_group("nccl", rank=rank, world_size=2)
            model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1).cuda(rank))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            data = TensorDataset(torch.randn(8, 4))
            loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
            for (x,) in loader:
                loss = model(x).mean()
                dist.send(loss, 1)
                dist.recv(x)
                loss.backward()
                optimizer.step()

        mp.spawn(main, nprocs=2)
        """)
    (note,) = run(text).notes
    assert (note.line, note.also[0][0]) == (15, 16)
    assert note.message.endswith("; also `torch.distributed.recv` (line 16)")


def test_a_factory_that_gives_back_its_sampler() -> None:
    text = migrated("""\
        import torch
        import torch.distributed as dist
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader
        from torch.utils.data.distributed import DistributedSampler

        def get_data(data):
            sampler = DistributedSampler(data)
            return DataLoader(data, batch_size=2, sampler=sampler), sampler

        def main():
            dist.init_process_group("gloo")
            loader, sampler = get_data(torch.randn(8, 4))
            model = DistributedDataParallel(nn.Linear(4, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(2):
                sampler.set_epoch(epoch)
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()

        main()
        """)
    assert "sampler = None\n    return DataLoader(data, batch_size=2, shuffle=True), sampler" in text
    assert "set_epoch" not in text


UNTOLD = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main(args):
    {start}
    model = nn.Linear(4, 1)
    {model}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
    {sampler}
    loader = DataLoader(data, batch_size=2, shuffle={shuffle}, sampler=sampler)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = 0.0
    model.eval()
    with torch.no_grad():
        for x, y in DataLoader(data, batch_size=2):
            total += (model(x) - y.cuda()).pow(2).sum().item()
    print(total)
    torch.save(model.state_dict(), "last.pt")


main(__import__("options").args)
"""
OPTIONAL_MODEL = """\
if args.distributed:
        model = nn.parallel.DistributedDataParallel(model.cuda())
    else:
        model = nn.DataParallel(model).cuda()"""


@pytest.mark.parametrize(
    "slots",
    [
        {
            "start": "args.distributed = args.n > 1\n    if args.distributed:\n        dist.init_process_group('nccl')",
            "model": OPTIONAL_MODEL,
            "sampler": "sampler = DistributedSampler(data) if args.distributed else None",
            "shuffle": "sampler is None",
        },
        {
            "start": "if args.distributed:\n        dist.init_process_group('gloo', init_method=args.url)",
            "model": OPTIONAL_MODEL,
            "sampler": "sampler = None\n    if args.distributed:\n        sampler = DistributedSampler(data)",
            "shuffle": "not args.distributed",
        },
        {
            "start": "dist.init_process_group('nccl')",
            "model": "model = nn.parallel.DistributedDataParallel(model.cuda())",
            "sampler": "sampler = DistributedSampler(data)",
            "shuffle": "False",
        },
    ],
)
def test_a_script_that_never_tells_its_processes_apart_is_otherwise_a_plain_one(slots: dict[str, str]) -> None:
    text = migrated(UNTOLD.format(**slots))
    assert not any(word in text for word in ("dist.", "DataParallel"))
    assert 'accelerator.save(model.state_dict(), "last.pt")' in text
    assert "mixed_devices=True" in text or "x = x.to(accelerator.device)" in text  # the wrapper brought it there


BY_ENVIRONMENT = """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

def main():
    rank = local_rank = 0
    n_gpu = 1
    if "WORLD_SIZE" in os.environ:
        rank = int(os.environ["RANK"])
        local_rank = int(os.environ["LOCAL_RANK"])
        n_gpu = int(os.environ["WORLD_SIZE"])
        {start}
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda:{{:d}}".format(local_rank))
    model = nn.Linear(4, 1).to(device)
    {wrapped}
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    ds = TensorDataset(torch.randn(64, 4))
    {sampler}
    loader = DataLoader(ds, batch_size=8, sampler=sampler)
    for x, in loader:
        x = x.to(device)
        loss = model(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            print(loss.item())
main()
"""
WRAPPED = """\
if n_gpu > 1:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])"""
SAMPLED = "sampler = DistributedSampler(ds) if n_gpu > 1 else None"


@pytest.mark.parametrize(
    "start",
    [
        'dist.init_process_group("nccl")',
        'torch.distributed.init_process_group("nccl", rank=local_rank, world_size=n_gpu)',
        'dist.init_process_group("nccl")\n        torch.distributed.barrier()',
    ],
)
def test_a_script_that_starts_its_group_is_declined_as_distributed(start: str) -> None:
    result = run(BY_ENVIRONMENT.format(start=start, wrapped=WRAPPED, sampler=SAMPLED))
    rules = [note.rule for note in result.notes]
    assert (result.status, rules[:1]) == (Status.DECLINED, ["distributed"])
    assert "already distributed: `torch.distributed.init_process_group`" in result.notes[0].message


def test_a_script_without_a_group_is_not_said_to_be_distributed() -> None:
    result = run(BY_ENVIRONMENT.format(start="pass", wrapped="pass", sampler="sampler = None"))
    assert not any("already distributed: `torch" in note.message for note in result.notes)
