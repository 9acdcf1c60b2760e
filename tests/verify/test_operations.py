"""The operations of a first step: recorded, and the first that is another one or is set otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from accelify.verify.inside.operations import Operations
from accelify.verify.judging import judge
from accelify.verify.judging.operations import operations_of_one, operations_of_ranks
from accelify.verify.trace import Call, End, Operation, Run
from accelify.verify.verdict import Row, Status
from tests.verify.test_judge import evidence, traced


class Listener:
    """Hears of the operations of this file."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, str]]] = []

    def owns(self, file: str) -> bool:
        return file == __file__

    def named(self, file: str, line: int) -> str:
        return f"a.py:{line}"

    def write(self, event: str, name: str, settings: list[tuple[str, str]], **_: Any) -> None:
        self.heard.append((name, dict(settings)))


def test_the_outermost_operations_up_to_the_first_backward_pass() -> None:
    listener = Listener()
    model, x = nn.Linear(3, 2), torch.ones(4, 3)
    with Operations(listener):  # type: ignore[arg-type]  # stands for a recorder
        loss = functional.cross_entropy(
            model(x).view(4, 2).cpu(), torch.zeros(4, dtype=torch.long), label_smoothing=0.1
        )
        loss.backward()
        model(x)
    assert [name for name, _ in listener.heard] == ["linear", "view", "zeros", "cross_entropy"]
    assert listener.heard[1][1] == {"1": "a tensor"}
    assert listener.heard[3][1]["label_smoothing"] == "0.1"


def run(*ranks: tuple[Operation, ...]) -> Run:
    return Run("run", tuple(traced(rank, operations=list(each)) for rank, each in enumerate(ranks)))


def test_the_first_operation_that_differs_is_named() -> None:
    view, loss = (
        Operation("view", "a.py:3"),
        Operation("cross_entropy", "a.py:4", (("weight", "None"), ("label", "0.1"))),
    )
    plain = Operation("cross_entropy", "a.py:4", (("weight", "None"), ("label", "0.0")))
    for ours, status, words in (
        ((view, loss), Status.HOLDS, "the same 2 operations up to the first backward pass"),
        ((view, plain), Status.DIFFERS, "cross_entropy with label=0.0, in the original with label=0.1"),
        ((loss,), Status.DIFFERS, "no view, in the original there is one at a.py:3"),
        ((view, view, loss), Status.DIFFERS, "view, in the original there is none"),
        ((loss, view), Status.DIFFERS, "cross_entropy, where in the original view follows at a.py:3"),
        ((view,), Status.DIFFERS, "no cross_entropy, in the original there is one at a.py:4"),
    ):
        row = operations_of_one(run((view, loss)), run(ours))
        assert row is not None
        assert (row.status, row.words) == (status, words)
    row = operations_of_ranks(run((view, loss), (view, plain)))
    assert row is not None
    assert row.words == "cross_entropy with label=0.0 on rank 1, on rank 0 with label=0.1"
    assert operations_of_one(run(()), run(())) is None


def test_what_differs_later_is_said_later() -> None:
    trace = traced(calls=[Call("backward"), Call("step"), Call("backward"), Call("step")])
    losses, gradients = (
        Row(name, 1, Status.DIFFERS, "", step=step) for name, step in (("losses", 2), ("gradients", 1))
    )
    first, last = Row("samples", 1, Status.HOLDS, ""), Row("output", 1, Status.HOLDS, "")
    assert judge._earliest_first([first, losses, gradients, last], trace) == [first, gradients, losses, last]


def test_another_number_of_steps_follows_from_what_differs_before() -> None:
    found = evidence(traced(), traced())
    stopped = Run("one", (replace(traced(), end=End("steps", 0)),))
    assert judge.judge(found)[0].name == "ending"
    names = [row.name for row in judge.judge(replace(found, one=stopped))]
    assert names.index("calls") < names.index("ending") < names.index("losses")
