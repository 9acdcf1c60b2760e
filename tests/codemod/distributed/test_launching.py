"""Facts about how a script starts its processes, and which names tell a process which it is."""

from __future__ import annotations

import pytest

from accelify.codemod.distributed.findings import Place
from accelify.codemod.distributed.launching import Launching, Spawn, spawned
from tests.codemod.distributed.scripts import distributed, launching
from tests.codemod.facts import texts

SPAWN = """\
def worker(gpu, size, args):
    dist.init_process_group("nccl", rank=gpu, world_size=size)
    use(gpu, size, args)
def main(args):
    n = torch.cuda.device_count()
    mp.spawn(worker, nprocs=n, args=(n, args))
main(options)
"""


def word(text: str, node: str) -> str | None:
    facts = distributed(text)
    return launching(facts).word(facts.expression(node))


def test_a_script_that_starts_its_processes() -> None:
    facts = distributed(SPAWN)
    found = launching(facts)
    assert isinstance(found, Launching)
    (spawn,) = found.spawns
    assert spawn.worker is facts.scope("worker")
    assert spawn.count is not None
    assert texts([spawn.count, *spawn.arguments]) == ["n", "n", "args"]
    assert found.foreign == []
    assert found.runs_in_worker(facts["use(gpu, size, args)"])
    assert not found.runs_in_worker(facts["main(options)"])


def test_what_a_worker_is_given() -> None:
    facts = distributed(SPAWN)
    found = launching(facts)
    use = facts.call("use(gpu, size, args)")
    assert [found.word(a) for a in use.args] == ["get_rank", "get_world_size", None]
    count = facts.call("mp.spawn(").keywords[0].value
    assert found.word(count) is None  # until a process is told its number


@pytest.mark.parametrize(
    "call",
    [
        "mp.spawn(unknown, nprocs=2)",
        "mp.spawn(worker, nprocs=2, args=rest)",
        "x = mp.spawn(worker, nprocs=2)",
        "mp.spawn(worker, nprocs=2, kwargs={})",
        "mp.spawn(worker, nprocs=2, join=False)",
        "mp.spawn(none, nprocs=2)",
    ],
)
def test_starts_that_are_not_understood(call: str) -> None:
    facts = distributed(f"def worker(gpu): pass\ndef none(): pass\n{call}\n")
    node = facts.call(call.removeprefix("x = "))
    assert isinstance(spawned(Place(facts.program, {"main.py"}), node), str)
    assert len(launching(facts).foreign) == 1


def test_a_start_that_is_understood() -> None:
    facts = distributed("def worker(gpu): pass\nmp.spawn(fn=worker, nprocs=2)\n")
    assert isinstance(spawned(Place(facts.program, {"main.py"}), facts.call("mp.spawn(")), Spawn)


@pytest.mark.parametrize(
    ("text", "node", "expected"),
    [
        ("use(dist.get_rank())", "dist.get_rank()", "get_rank"),
        ("r = dist.get_rank()\nuse(r)", "r#2", "get_rank"),
        ("use(int(os.environ['LOCAL_RANK']))", "int(os.environ['LOCAL_RANK'])", "get_node_local_rank"),
        ("use(int(os.getenv('WORLD_SIZE', 1)))", "int(os.getenv('WORLD_SIZE', 1))", "get_world_size"),
        ("use(int(os.environ['HOME']))", "int(os.environ['HOME'])", None),
        ("use(os.environ['RANK'])", "os.environ['RANK']", None),
        (
            "r = dist.get_rank()\nuse(r % torch.cuda.device_count())",
            "r % torch.cuda.device_count()",
            "get_node_local_rank",
        ),
        ("r = dist.get_rank()\nuse(r % 3)", "r % 3", None),
        ("def f(): return dist.get_rank()\nuse(f())", "f()", "get_rank"),
        ("def f(): return 3\nuse(f())", "f()", None),
        ("def f(rank):\n    use(rank)\nf(dist.get_rank())", "rank", "get_rank"),
        ("def f(rank):\n    use(rank)\nf(dist.get_rank())\nf(0)", "rank", None),
        ("gpu = 1\ntorch.cuda.set_device(gpu)\nuse(gpu)", "gpu#3", "get_node_local_rank"),
        ("gpu = 'cuda:0'\ntorch.cuda.set_device(gpu)\nuse(gpu)", "gpu#3", None),
        ("rank = 3\nuse(rank)", "rank#2", None),  # a name alone says nothing
    ],
)
def test_which_names_tell_a_process_which_it_is(text: str, node: str, expected: str | None) -> None:
    assert word(text + "\n", node) == expected


def test_the_number_of_gpus_is_no_word_but_a_count() -> None:
    facts = distributed("n = torch.cuda.device_count()\nm = 2\nuse(n, m)\n")
    found = launching(facts)
    use = facts.call("use(n, m)")
    assert [found.is_count(a) for a in use.args] == [True, False]
    assert [found.is_size(a) for a in use.args] == [True, False]


def test_a_name_that_is_true_in_one_branch_and_false_in_the_other() -> None:
    text = "if dist.get_world_size() > 1:\n    many = True\nelse:\n    many = False\nuse(many)\n"
    facts = distributed(text)
    found = launching(facts)
    assert found.truth(facts.call("use(many)").args[0]) is True
    assert found.alone(facts.call("use(many)").args[0]) is False
