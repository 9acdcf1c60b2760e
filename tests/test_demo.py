"""The main job on real data: what `make demo` shows must hold, and its checks must be able to fail."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def demo() -> Iterator[object]:
    """The demo's own module, found as it finds the tracer: beside it."""
    sys.path.insert(0, str(ROOT / "fixtures"))
    try:
        import demo

        yield demo
    finally:
        sys.path.remove(str(ROOT / "fixtures"))


@pytest.fixture(scope="module", params=["digits", "tutorial"])
def runs(demo, request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return demo.runs(demo.RUNNABLE / request.param / "train.py", folder)


def broken(demo, runs) -> list[str]:
    return [finding.claim for finding in demo.findings(runs) if not finding.holds]


def test_all_of_it_holds(demo, runs) -> None:
    assert [str(finding) for finding in demo.findings(runs) if not finding.holds] == []


def test_a_loss_that_is_a_little_off_is_seen(demo, runs) -> None:
    one, two = runs["one process"], runs["two processes"]
    nudged = replace(one.ranks[0], losses=[*one.ranks[0].losses[:-1], one.ranks[0].losses[-1] + 1e-7])
    assert broken(demo, runs | {"one process": replace(one, ranks=[nudged])}) == ["same losses, bit for bit"]
    moved = replace(two.ranks[0], losses=[two.ranks[0].losses[0] + 5e-5, *two.ranks[0].losses[1:]])
    assert broken(demo, runs | {"two processes": replace(two, ranks=[moved, two.ranks[1]])}) == [
        "mean loss of ranks within 1e-05"
    ]


def test_ranks_that_part_or_repeat_each_other_are_seen(demo, runs) -> None:
    two = runs["two processes"]
    first, second = two.ranks
    parted = replace(second, parameters=[*second.parameters[:-1], "another"])
    assert broken(demo, runs | {"two processes": replace(two, ranks=[first, parted])}) == [
        "same parameters on both ranks"
    ]
    alone = replace(two, ranks=[runs["original"].ranks[0]] * 2)
    assert broken(demo, runs | {"two processes": alone}) == ["each rank on data of its own"]


def test_an_accuracy_that_changed_or_is_missing_is_seen(demo, runs) -> None:
    two = runs["two processes"]
    for output in (two.output.replace("accuracy: ", "accuracy: 1"), ""):
        assert broken(demo, runs | {"two processes": replace(two, output=output)}) == ["same test accuracy"]


def test_random_numbers_drawn_more_are_seen(demo, runs) -> None:
    one = runs["one process"]
    drawn = replace(one.ranks[0], random="another")
    assert broken(demo, runs | {"one process": replace(one, ranks=[drawn])}) == ["same random numbers drawn"]


def test_a_command_that_fails_stops_the_demo(demo, tmp_path: Path) -> None:
    with pytest.raises(demo.Failed, match="exit status 1"):
        demo.call([*demo.REWRITE, "--check", str(demo.RUNNABLE / "digits" / "train.py")], tmp_path)
