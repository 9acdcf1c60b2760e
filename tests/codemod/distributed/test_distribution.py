"""Facts about scripts that distribute themselves: what is understood of them, and what is not."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.distributed.distribution import Distributions
from accelify.codemod.training.loops.iterables import Iterables
from tests.codemod.distributed.scripts import distributed, found
from tests.codemod.facts import Facts, texts

START = "dist.init_process_group('nccl')\n"


def reasons(text: str) -> list[str]:
    return [reason for _, reason in found(distributed(START + text)).foreign]


def is_there(text: str) -> bool:
    facts = Facts(text)
    return Distributions(facts.program, facts.tracer, ["main.py"]).is_there


def test_whether_a_script_distributes_itself() -> None:
    assert is_there("import torch.distributed as dist\ndist.init_process_group('nccl')\n")
    assert not is_there("import torch\ntorch.zeros(1)\n")
    assert not is_there("import torch\nm = torch.nn.DataParallel(net)\n")
    assert not is_there("from torch.nn.parallel import DistributedDataParallel as D\nisinstance(m, D)\n")


def test_starting_ending_and_placing_go() -> None:
    text = "rank = dist.get_rank()\ntorch.cuda.set_device(rank)\ndist.barrier()\ndist.destroy_process_group()\n"
    result = found(distributed(START + text))
    assert result.is_understood, result.foreign
    assert set(texts(result.removed)) == {
        "dist.init_process_group('nccl')",
        "torch.cuda.set_device(rank)",
        "dist.destroy_process_group()",
    }
    assert texts(result.barriers) == ["dist.barrier()"]
    assert list(result.ranks.values()) == ["process_index"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("x = dist.get_rank()", "process_index"),
        ("x = dist.get_world_size()", "num_processes"),
        ("x = int(os.environ['LOCAL_RANK'])", "local_process_index"),
        ("x = int(os.environ.get('RANK', 0))", "process_index"),
    ],
)
def test_what_tells_a_process_which_it_is(text: str, word: str) -> None:
    result = found(distributed(f"{START}{text}\n"))
    assert set(result.ranks.values()) == {word}
    assert result.is_understood


def test_questions_whether_this_is_the_first() -> None:
    text = "rank = dist.get_rank()\nif rank == 0:\n    a()\nif rank != 0:\n    b()\nif rank == 1:\n    c()\n"
    result = found(distributed(START + text))
    assert list(result.firsts.values()) == ["is_main_process", "not is_main_process"]


def test_sums_over_all_processes() -> None:
    text = "x = torch.zeros(1)\ndist.all_reduce(x)\ny = torch.ones(1)\ndist.all_reduce(y, op=dist.ReduceOp.AVG)\n"
    result = found(distributed(START + text))
    assert list(result.reductions.values()) == ["sum", "mean"]


def test_what_processes_exchange_in_place_is_for_several_alone() -> None:
    text = (
        "x = torch.zeros(1)\ny = x\ndist.all_reduce(y)\ndist.all_reduce(z, op=dist.ReduceOp.MAX)\n"
        "def f(x):\n    dist.all_reduce(x)\nf(torch.zeros(1))\ndist.broadcast(x, src=0)\n"
        "dist.broadcast_object_list(names, 0)\nfor p in rows:\n    dist.all_reduce(p.data)\n"
    )
    result = found(distributed(START + text))
    assert result.is_understood, result.foreign
    assert len(result.guarded) == 6


def test_lists_that_all_processes_fill() -> None:
    text = "dist.all_gather(rows, x + 1)\ndist.all_gather_object(self.rows, obj=x)\n"
    result = found(distributed(START + text))
    assert result.is_understood, result.foreign
    assert [(ast.unparse(listed), code) for listed, code in result.gathered.values()] == [
        ("rows", "gather((x + 1).detach()[None])"),
        ("self.rows", "gather_object(x)"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "m = nn.Linear(1, 1)\nfor w in m.parameters():\n    dist.all_reduce(w.data)",
        "dist.all_reduce(w.grad)",
        "dist.all_reduce(x, group=g)",
        "x = torch.zeros(1)\nh = dist.all_reduce(x, async_op=True)",
        "out = dist.all_gather(rows, x, async_op=True)",
        "dist.all_gather(rows, *xs)",
        "dist.new_group([0])",
        "print(os.environ['RANK'])",
        "x = int(os.environ.get('WORLD_SIZE', 5))",
        "m = DDP(net, process_group=g)",
        "if many:\n    m = DDP(net)",
        "if rank > -1:\n    pass\nlocal_rank = 0\nif local_rank == -1:\n    pass",
        "if dist.get_rank() == 0:\n    w = torch.load(p)",
        "s = DistributedSampler(d)\nother(s)",
        "s = DistributedSampler(d, shuffle=p)\nl = DataLoader(d, sampler=s)",
        "dist.init_process_group('gloo')",
    ],
)
def test_what_is_not_understood(text: str) -> None:
    assert reasons(text + "\n"), text


def test_a_start_under_a_condition_or_in_a_way_of_its_own() -> None:
    assert found(distributed("if many:\n    dist.init_process_group('nccl')\n")).foreign
    assert found(distributed("dist.init_process_group('nccl', timeout=t)\n")).foreign
    assert found(distributed("x = dist.get_rank()\n")).foreign  # where it starts cannot be told


def test_samplers_and_their_loaders() -> None:
    text = """\
s = DistributedSampler(d)
loader = DataLoader(d, sampler=s, batch_size=2)
t = DistributedSampler(e, shuffle=False)
other = DataLoader(e, sampler=t)
for epoch in range(2):
    s.set_epoch(epoch)
    train_sampler.set_epoch(epoch)
"""
    result = found(distributed(START + text))
    assert {c.args[0].id: shuffles for c, shuffles in result.samplers.items()} == {"d": True, "e": False}  # type: ignore[attr-defined]
    assert "s = DistributedSampler(d)" in texts(result.removed)


def test_a_wrapper_is_known() -> None:
    assert reasons("m = DDP(net, device_ids=[0], find_unused_parameters=True)\n") == []


def test_a_function_that_only_sets_up_goes_with_its_calls() -> None:
    text = "def setup():\n    os.environ['MASTER_ADDR'] = 'localhost'\n    dist.init_process_group('nccl')\nsetup()\n"
    result = found(distributed(text))
    assert {t.partition("\n")[0] for t in texts(result.removed)} >= {"def setup():", "setup()"}
    assert result.is_understood


def test_an_older_launcher_s_option() -> None:
    text = "p = argparse.ArgumentParser()\np.add_argument('--local_rank', type=int)\nf(p.parse_args().local_rank)\n"
    result = found(distributed("import argparse\n" + START + text))
    assert "local_process_index" in result.ranks.values()
    assert any("--local_rank" in t for t in texts(result.removed))


EVALUATED = """\
def evaluate(model, batches):
    for x in batches:
        print(model(x))


def main(args):
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    train_data, test_data = torch.randn(8, 4), torch.randn(8, 4)
    loader = DataLoader(train_data, sampler=DistributedSampler(train_data))
    held_out = DataLoader(test_data, sampler=DistributedSampler(test_data))
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        {evaluated}


parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
main(parser.parse_args())
"""


@pytest.mark.parametrize(
    ("evaluated", "shared"),
    [
        ("evaluate(model, held_out)", {"loader", "batches"}),
        ("if rank == 0: evaluate(model, held_out)", {"loader"}),
        ("if epoch and args.local_rank == 0: evaluate(model, held_out)", {"loader"}),
        ("if rank != 0: continue\n        evaluate(model, held_out)", {"loader"}),
        ("if dist.get_world_size() == 1: evaluate(model, held_out)", {"loader"}),
    ],
)
def test_what_the_main_process_alone_goes_over_is_not_shared(evaluated: str, shared: set[str]) -> None:
    facts = distributed("import argparse\n" + EVALUATED.format(evaluated=evaluated))
    asked = Distributions(facts.program, facts.tracer, ["main.py"])
    asked.find()
    found = asked.data(Iterables(facts.program, facts.roles, facts.tracer), facts.training)
    assert {ast.unparse(source) for data in found for source in data.sources} == shared


BATCHES = """\
data = torch.randn(8, 2, 4)
loader = DataLoader(data, sampler=DistributedSampler(data))
model = DDP(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
it = iter(loader)
for step in range(4):
    x, y = next(it)
    model(torch.stack([r for r in x])).mean().backward()
    optimizer.step()
    {shown}
"""


@pytest.mark.parametrize(
    ("shown", "shared"),
    [
        ("for row in x: print(row)", set()),
        ("for k, row in enumerate(y): print(k, row)", set()),
        ("for a, b in zip(x, y): print(a, b)", set()),
        ("for k, row in zip(range(9), x): print(k, row)", set()),
        ("batch = next(it)\n    for row in reversed(batch): print(row)", set()),
        ("for batch in loader:\n        for row in batch: print(row)", {"loader"}),
        ("for batch in it: print(batch)", {"it"}),
        ("for k, batch in enumerate(tqdm(loader)): print(k, batch)", {"enumerate(tqdm(loader))"}),
        ("batches = enumerate(loader)\n    for k, batch in batches: print(batch)", {"batches"}),
    ],
)
def test_the_rows_of_a_batch_are_no_loader(shown: str, shared: set[str]) -> None:
    facts = distributed(f"from tqdm import tqdm\n{START}{BATCHES.format(shown=shown)}")
    asked = Distributions(facts.program, facts.tracer, ["main.py"])
    asked.find()
    found = asked.data(Iterables(facts.program, facts.roles, facts.tracer), facts.training)
    assert {ast.unparse(source) for data in found for source in data.sources} == shared
    prepared = {i.text for i in facts.script.preparation.items if i.kind == "loader"}
    assert prepared == {"loader"}


@pytest.mark.parametrize(
    "evaluated",
    [
        "if rank == 0: evaluate(model, loader)",
        "evaluate(model, held_out)\n        if args.local_rank == 0: evaluate(model, held_out)",
        "evaluate(model, loader)\n        if epoch == 1 and not rank: evaluate(model, held_out)",
    ],
)
def test_what_all_processes_share_is_not_for_the_main_process_alone(evaluated: str) -> None:
    obstacles = distributed("import argparse\n" + EVALUATED.format(evaluated=evaluated)).verdict.obstacles
    assert [message for _, _, message in obstacles if message.startswith("only the main process iterates over")]


@pytest.mark.parametrize(
    ("returned", "taken", "is_understood"),
    [
        ("return loader, s", "loader, s = make()", True),
        ("return s", "s = make()", True),
        ("return (d, loader, s, 1)", "d, loader, s, one = make()", True),
        ("return loader, s", "loader, s = make()\nprint(s.num_samples)", False),
        ("return loader, [s]", "loader, several = make()", False),
    ],
)
def test_a_sampler_that_a_function_gives_back(returned: str, taken: str, is_understood: bool) -> None:
    made = "def make():\n    s = DistributedSampler(d)\n    loader = DataLoader(d, sampler=s)\n"
    result = found(distributed(f"{START}{made}    {returned}\n{taken}\n"))
    assert result.is_understood is is_understood
    if is_understood:
        assert texts(result.returned) == ["DistributedSampler(d)"]
        assert "s = DistributedSampler(d)" not in texts(result.removed)


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("rank = int(os.environ['OMPI_COMM_WORLD_RANK'])", True),
        ("size = int(os.environ['SLURM_NTASKS'])", True),
        ("if 'SLURM_PROCID' in os.environ:\n    rank = int(os.environ['SLURM_PROCID'])", False),
        ("rank = int(os.environ.get('SLURM_PROCID', 0))", False),
        ("os.environ['SLURM_PROCID'] = '0'", False),
    ],
)
def test_variables_that_another_launcher_sets(text: str, is_refused: bool) -> None:
    assert any("another launcher" in reason for reason in reasons(f"{text}\n")) is is_refused
