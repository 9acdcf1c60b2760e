"""Facts about what must change so that a launcher can start a script: which branch stays, and what is asked instead."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.distributed.launched import LauncherEdits
from accelify.codemod.distributed.launcher_changes import LauncherChanges
from tests.codemod.distributed.scripts import branches, distributed, edits

START = """\
import argparse
args = argparse.ArgumentParser().parse_args()
model = nn.Linear(1, 1)
if args.many:
    dist.init_process_group("nccl")
"""


def found(text: str) -> LauncherEdits:
    return edits(distributed(START + text))


def asked_instead(result: LauncherEdits) -> dict[str, str]:
    return {ast.unparse(node): code for node, (code, _) in result.tests.items()}


def test_it_is_made_of_branches() -> None:
    asked = branches(distributed(START))
    assert LauncherChanges(asked.launching, asked).find().foreign == []


def test_the_branch_for_several_processes_takes_the_place_of_both() -> None:
    result = found("if args.many:\n    model = DDP(model.cuda())\nelse:\n    model = model.cuda()\n")
    kept = {ast.unparse(node.test): branch for node, branch in result.branches.items()}
    assert kept["args.many"] == (0, True)
    assert result.foreign == []
    assert len(result.branches) == 2  # that of the start, too


def test_the_branch_may_be_the_other() -> None:
    result = found("if not args.many:\n    model = model.cuda()\nelse:\n    model = DDP(model.cuda())\n")
    kept = {ast.unparse(node.test): branch for node, branch in result.branches.items()}
    assert kept["not args.many"] == (0, False)


def test_branches_that_differ_in_more_are_refused() -> None:
    result = found("if args.many:\n    model = DDP(model)\nelse:\n    model = other(model)\n")
    assert [reason for _, reason in result.foreign] != []


def test_branches_with_nothing_of_the_accelerator_s_stay() -> None:
    result = found("if args.many:\n    lr = 1\nelse:\n    lr = 2\n")
    assert asked_instead(result) == {"args.many": "{group}.get_world_size() > 1"}
    assert result.foreign == []


def test_a_condition_that_asks_nothing_of_the_kind_stays_as_it_is() -> None:
    result = found("if args.verbose:\n    lr = 1\n")
    assert asked_instead(result) == {}
    assert [ast.unparse(n.test) for n in result.branches] == ["args.many"]


def test_questions_which_process_this_is() -> None:
    result = found(
        "rank = dist.get_rank()\nif not args.many or rank == 0:\n    save()\nif rank in (-1, 0):\n    log()\n"
    )
    assert asked_instead(result) == {"not args.many or rank == 0": "rank == 0", "rank in (-1, 0)": "rank == 0"}


def test_conditional_expressions() -> None:
    result = found("rank = dist.get_rank() if args.many else 0\nx = f() if args.many else g()\n")
    assert {ast.unparse(n): keeps for n, keeps in result.choices.items()} == {
        "dist.get_rank() if args.many else 0": True
    }
    assert asked_instead(result) == {"args.many": "{group}.get_world_size() > 1"}


def test_the_order_of_data_in_one_process_is_kept() -> None:
    text = "s = DistributedSampler(d) if args.many else None\nloader = DataLoader(d, sampler=s, shuffle=False)\n"
    result = found(text)
    assert list(result.orders.values()) == [False]
    assert found(text.replace("shuffle=False", "shuffle=s is None")).orders == {}  # both shuffle


@pytest.mark.parametrize(
    ("given", "shuffle", "orders"),
    [
        ("s if args.many else None", "not args.many", []),
        ("s if args.many else None", "False", [False]),
        ("None if not args.many else s", "True", []),
        ("s", "False", []),
    ],
)
def test_a_sampler_that_is_given_to_several_processes_only(given: str, shuffle: str, orders: list[bool]) -> None:
    text = f"s = DistributedSampler(d)\nloader = DataLoader(d, sampler={given}, shuffle={shuffle})\n"
    result = found(text)
    assert [ast.unparse(n) for n in result.choices] == [given] * (given != "s")
    assert list(result.orders.values()) == orders
