"""What is left of a line once its moves are gone reads as if nobody had ever moved anything."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import changed, run, script

UNPACKED = [
    "a, b = [t.to(device) for t in batch]",
    "a, b = tuple(t.to(device) for t in batch)",
    "a, b = map(lambda t: t.to(device), batch)",
    "a, b = list(map(lambda t: t.to(device), batch))",
]


LOOP = "for batch in loader:\n    {line}\n    {use}"


@pytest.mark.parametrize("line", UNPACKED)
def test_a_batch_that_is_taken_apart_is_taken_apart(line: str) -> None:
    changed(f"-{line}", "+a, b = batch", end=LOOP.format(line=line, use="print(a, b)"))


@pytest.mark.parametrize("kind", ["tuple", "list"])
def test_a_container_that_is_only_indexed_stays_what_it_was(kind: str) -> None:
    line = f"batch = {kind}(t.to(device) for t in batch)"
    changed(f"-{line}", end=LOOP.format(line=line, use="x = batch[0]"))


def test_a_container_whose_kind_is_asked_for_is_made() -> None:
    line = "batch = tuple(t.to(device) for t in batch)"
    changed(f"-{line}", "+batch = tuple(batch)", end=LOOP.format(line=line, use="print(batch)"))


@pytest.mark.parametrize("built", ["t.to(device) for t in batch if len(t)", "t.to(device, torch.half) for t in batch"])
def test_a_container_that_is_built_for_more_stays(built: str) -> None:
    result = run(script(end=LOOP.format(line=f"a = [{built}]", use="print(a)")))
    assert built.partition(" for ")[2] in result.after.decode()


def test_a_choice_without_effect_goes() -> None:
    changed("-model.cuda() if use_cuda else None", model="model.cuda() if use_cuda else None")


def test_what_is_left_is_done_otherwise() -> None:
    choice = "if use_cuda:\n    x = x.cuda()\nelse:\n    print(x)"
    changed("-if use_cuda:", "-x = x.cuda()", "-else:", "+if not use_cuda:", batch=choice)
