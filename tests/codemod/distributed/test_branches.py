"""Facts about branches: what their statements are for, and whether two differ in more than the accelerator does."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.distributed.branches import Branches, Purpose
from tests.codemod.distributed.scripts import branches, distributed

SET_UP = """\
import argparse
args = argparse.ArgumentParser().parse_args()
model = nn.Linear(1, 1)
rank, batch_size = dist.get_rank(), 8
size = dist.get_world_size()
sampler = DistributedSampler(rows)
def wait():
    if not dist.is_initialized():
        return
    dist.barrier()
if args.many:
    dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("dist.init_process_group('gloo')", Purpose.START),
        ("torch.cuda.set_device(rank)", Purpose.START),
        ("os.environ['MASTER_PORT'] = '1'", Purpose.START),
        ("wait()", Purpose.SYNC),
        ("sampler = None", Purpose.SHARD),
        ("sampler.set_epoch(3)", Purpose.SHARD),
        ("model = DDP(model)", Purpose.PLACE),
        ("model = model.cuda(rank)", Purpose.PLACE),
        ("model.cuda()", Purpose.PLACE),
        ("device = torch.device('cuda', 1)", Purpose.DEVICE),
        ("device = f'cuda:{rank}'", Purpose.DEVICE),
        ("size = 1", Purpose.NUMBER),
        ("is_first = size == 1", Purpose.NUMBER),
        ("assert size > 1", Purpose.NUMBER),
        ("batch_size = batch_size // size", Purpose.SCALE),
        ("batch_size //= size", Purpose.SCALE),
        ("batch_size = batch_size // 2", Purpose.OWN),
        ("batch_size = size", Purpose.NUMBER),
        ("print('many')", Purpose.SAY),
        ("logger.info('x')", Purpose.SAY),
        ("torch.backends.cudnn.benchmark = True", Purpose.SAY),
        ("pass", Purpose.SAY),
        ("raise ValueError", Purpose.REFUSE),
        ("lr = 0.1", Purpose.OWN),
        ("train(model)", Purpose.OWN),
        ("other = DDP(model)", Purpose.PLACE),
        ("for x in y: pass", Purpose.OWN),
        ("return_value", Purpose.OWN),
    ],
)
def test_what_a_statement_is_for(statement: str, kind: Purpose) -> None:
    facts = distributed(f"{SET_UP}if other:\n    pass\n{statement}\n")
    last = facts.files[0].tree.body[-1]
    assert branches(facts).kind(last) == kind


def compared(on: str, off: str) -> list[str]:
    """What only one of two branches has for itself."""
    facts = distributed(f"{SET_UP}if args.many:\n    {on}\nelse:\n    {off}\n")
    choice = facts.files[0].tree.body[-1]
    assert isinstance(choice, ast.If)
    return [ast.unparse(s) for s in branches(facts).own(choice.body, choice.orelse)]


def test_branches_that_differ_only_in_what_the_accelerator_does() -> None:
    assert compared("model = DDP(model.cuda(rank))", "model = model.cuda()") == []
    assert compared("loader = DataLoader(d, sampler=sampler)", "loader = DataLoader(d, shuffle=True)") == []
    assert compared("n = dist.get_world_size()", "n = 1") == []
    assert compared("print('many')", "print('one')") == []


def test_branches_that_do_something_of_their_own() -> None:
    assert compared("lr = 0.1", "lr = 0.2") == ["lr = 0.1", "lr = 0.2"]
    assert compared("loader = DataLoader(d, sampler=sampler)", "loader = DataLoader(e, shuffle=True)") != []
    assert compared("model = DDP(model)", "save(model)") == ["save(model)"]


def test_a_block_that_makes_what_is_there_once() -> None:
    facts = distributed(f"{SET_UP}model = DDP(model)\nuse(model)\n")
    asked = branches(facts)
    assert isinstance(asked, Branches)
    *_, wrap, use = facts.files[0].tree.body
    assert asked.is_structural([wrap])
    assert not asked.is_structural([use])
    assert asked.places([wrap])
    assert not asked.places([use])


def test_whether_a_loader_shuffles() -> None:
    facts = distributed(f"{SET_UP}s = DistributedSampler(d, shuffle=False)\nDataLoader(d, sampler=s)\n")
    asked = branches(facts)
    assert asked.shuffles(facts.call("DataLoader(d").keywords[0].value, None) is False
    assert asked.shuffles(facts.expression("sampler"), None) is True
    assert asked.shuffles(None, ast.Constant(True)) is True
