"""A rule that takes code out leaves what has an effect: the same random numbers are drawn as before."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.result import Status
from tests.codemod.pairs import changed, run, script

SEED = "torch.manual_seed(1234)"
# Where the devices of these scripts come from: all of these seed the generator, however they are spelled.
DEVICES = f"""\
class Cluster:
    def device(self):
        {SEED}
        return "cpu"
    @property
    def where(self):
        {SEED}
        return "cpu"
    def __getitem__(self, i):
        {SEED}
        return "cpu"
    def __str__(self):
        {SEED}
        return "cpu"
cluster = Cluster()
def seeded(f):
    def inner():
        {SEED}
        return f()
    return inner
@seeded
def pick():
    return "cpu"
def choose(made=pick):
    return made()
"""
CHOICES = (
    *("cluster.device()", "cluster.where", "cluster[0]", "str(cluster)", "pick()", "choose()", "mystery.device()"),
    *("(lambda: pick())()", "[pick() for _ in range(1)][0]", "getattr(cluster, 'where')", "next(map(str, [cluster]))"),
)
USES = {
    "the device": {"before": "place = torch.device(CHOICE)", "model": "model.to(place)"},
    "a move of the model": {"model": "model.to(CHOICE)"},
    "a move of a batch": {"batch": "x, y = x.to(CHOICE), y.to(device)"},
    "a condition": {"model": "if CHOICE == 'cpu':\n    model = model.to(device)"},
    "an unread name": {"before": "is_gpu = CHOICE == 'cuda'", "model": "if is_gpu:\n    model.cuda()"},
    "branches": {"before": "if use_cuda:\n    place = 'cuda'\nelse:\n    place = CHOICE", "model": "model.to(place)"},
    "a choice": {"before": "place = torch.device('cuda' if use_cuda else CHOICE)", "model": "model.to(place)"},
}


def count(text: str, choice: str) -> int:
    wanted = ast.unparse(ast.parse(choice, mode="eval").body)
    return sum(ast.unparse(n) == wanted for n in ast.walk(ast.parse(text)) if isinstance(n, ast.expr))


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("choice", CHOICES)
def test_what_has_an_effect_is_evaluated_as_before(choice: str, use: str) -> None:
    slots = {slot: text.replace("CHOICE", choice) for slot, text in USES[use].items()}
    slots["before"] = DEVICES + slots.get("before", "")
    text = script(imports="import mystery", **slots)
    result = run(text)
    assert result.status in (Status.MIGRATED, Status.DECLINED)
    assert count(result.after.decode(), choice) == count(text, choice), result.after.decode()


@pytest.mark.parametrize(
    "choice",
    [
        "'cuda' if use_cuda else 'cpu'",
        "f'cuda:{0}' if torch.cuda.device_count() else 'cpu'",
        "named('cuda', 'cpu')",
        "os.environ.get('DEVICE', 'cpu')",
    ],
)
def test_what_has_none_goes(choice: str) -> None:
    defined = "def named(gpu, cpu):\n    return gpu if torch.cuda.is_available() else cpu\n"
    text = script(imports="import os", before=defined + f"place = torch.device({choice})", model="model.to(place)")
    result = run(text)
    assert result.status is Status.MIGRATED
    assert count(result.after.decode(), choice) < count(text, choice), result.after.decode()


def test_a_device_with_effects_is_given_another_value_afterwards() -> None:
    changed(
        "+place = accelerator.device",
        "-model.to(place)",
        before=DEVICES + "place = torch.device(cluster.device())",
        model="model.to(place)",
        end="print(place)",
    )
