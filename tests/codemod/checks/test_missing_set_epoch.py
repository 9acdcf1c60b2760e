"""Samplers that are never given the epoch."""

from __future__ import annotations

from accelify.codemod.checks.missing_set_epoch import NAME
from tests.codemod.checks.checking import DDP, fixed, leaves, reports

TRAIN = (
    DDP
    + """\
sampler = DistributedSampler(data){mark}
loader = DataLoader(data, sampler=sampler)
for epoch in range(10):
    for x in loader:
        loss = net(x)
        loss.backward()
        optimizer.step()
"""
)
PLAIN = TRAIN.replace("{mark}", "")


def test_a_sampler_of_several_epochs() -> None:
    reports(NAME, TRAIN.replace("{mark}", "  # <- here"))
    reports(NAME, TRAIN.replace("{mark}", "  # <- here").replace("(data)", "(data, shuffle=True)"))


def test_the_epochs_stand_round_a_call() -> None:
    text = DDP + (
        "sampler = DistributedSampler(data)  # <- here\nloader = DataLoader(data, sampler=sampler)\n"
        "def train(loader):\n    for x in loader:\n        net(x).backward()\n"
        "for epoch in range(3):\n    train(loader)\n"
    )
    reports(NAME, text)


def test_it_is_put_at_the_top_of_the_epoch() -> None:
    assert "for epoch in range(10):\n    sampler.set_epoch(epoch)\n    for x in loader:\n" in fixed(PLAIN)


def test_no_fix_where_the_epoch_has_no_number() -> None:
    text = PLAIN.replace("for epoch in range(10)", "while True")
    assert fixed(text) == text


def test_what_is_right() -> None:
    leaves(NAME, PLAIN.replace("    for x in", "    sampler.set_epoch(epoch)\n    for x in"))
    leaves(NAME, PLAIN.replace("    for x in", "    loader.sampler.set_epoch(epoch)\n    for x in"))
    leaves(NAME, PLAIN.replace("(data)", "(data, shuffle=False)"))
    leaves(NAME, PLAIN.replace("(data)", "(data, 2, 0, False)"))
    leaves(NAME, PLAIN.replace("(data)", "(data, shuffle=args.shuffle)"))


def test_one_pass_needs_none() -> None:
    leaves(NAME, PLAIN.replace("for epoch in range(10)", "if train"))


def test_evaluation_needs_none() -> None:
    leaves(NAME, PLAIN.replace("        loss.backward()\n        optimizer.step()\n", "        total += loss\n"))


def test_samplers_of_one_process() -> None:
    leaves(NAME, PLAIN.replace("DistributedSampler(data)", "torch.utils.data.RandomSampler(data)"))
