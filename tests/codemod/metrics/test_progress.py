"""Facts about bars, schedules and rounds that are told how many steps one process would take."""

from __future__ import annotations

from accelify.codemod.metrics.progress import overlong_schedules, overstated_bars, shrunken_schedules
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, script, training


def bars(total: str) -> list[str]:
    text = script(imports="from tqdm import tqdm\n").replace("in loader:", f"in tqdm(loader, total={total}):")
    return texts(overstated_bars(Facts(text).script))


def test_bars() -> None:
    assert bars("len(rows) // 2") == ["len(rows) // 2"]
    assert bars("len(loader)") == []
    assert bars("10") == []


def schedule(steps: str, step: str = STEP, end_of_epoch: str = "") -> tuple[list[str], list[str]]:
    set_up = f"scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, {steps})\n"
    found = training(set_up=set_up, step=step, end_of_epoch=end_of_epoch).script
    return texts(overlong_schedules(found)), texts(shrunken_schedules(found))


def test_schedules_that_step_with_each_batch() -> None:
    assert schedule("len(rows) // 2", STEP + "scheduler.step()\n") == (["len(rows) // 2"], [])
    assert schedule("len(loader)", STEP + "scheduler.step()\n") == ([], [])


def test_schedules_that_step_with_each_epoch() -> None:
    assert schedule("len(loader)", end_of_epoch="scheduler.step()\n") == ([], ["len(loader)"])
    assert schedule("10", end_of_epoch="scheduler.step()\n") == ([], [])
