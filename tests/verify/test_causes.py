"""Traces in, rows out: what differs is named by its cause, and what is one rank's by nature is no difference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

from accelify.verify import compare
from accelify.verify.inside.reach import Reach
from accelify.verify.inside.record import Recorder
from accelify.verify.inside.settings import _of_module
from accelify.verify.judging import calls, data, launched, outputs, randomness, settings, training
from accelify.verify.judging.evidence import Evidence
from accelify.verify.trace import Backward, Call, Nature, Optimizer, Pass, Print, Run, Step, Trace, read_trace
from accelify.verify.verdict import Row, Status
from tests.verify.test_judge import evidence, passing, traced

USUAL = "zero_grad", "backward", "clip_grad_norm_", "step"


def looped(*kinds: str, loss: float = 1.0, rank: int = 0) -> Trace:
    return traced(
        rank, calls=[Call(kind, f"a.py:{index}") for index, kind in enumerate(kinds)], backwards=[Backward(loss)]
    )


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (USUAL, ""),
        (("zero_grad", "backward", "step"), "no clip_grad_norm_, which the original calls at a.py:2"),
        (("backward", "clip_grad_norm_", "step"), "no zero_grad, which the original calls at a.py:0"),
        (("zero_grad", "backward", *USUAL), "zero_grad 2 times for 1"),
        ((*USUAL[:3], "scheduler.step", "step"), "scheduler.step, which the original does not call"),
        (
            ("zero_grad", "clip_grad_norm_", "backward", "step"),
            "zero_grad, clip_grad_norm_, backward, step for zero_grad, backward, clip_grad_norm_, step",
        ),
    ],
)
def test_calls_that_a_step_lacks_or_has_twice_are_named(kinds: tuple[str, ...], words: str) -> None:
    original, one = Run("original", (looped(*USUAL),)), Run("one", (looped(*kinds, loss=2.0),))
    row = calls.calls_of_one(original, one)
    assert row.words == (f"before step 1: {words}" if words else row.words)
    assert row.status is (Status.DIFFERS if words else Status.HOLDS)
    assert calls.calls_of_one(original, Run("one", (looped(*kinds),))).status is Status.HOLDS  # the same without them
    ranks = [looped(*USUAL, loss=2.0), looped(*kinds, loss=2.0, rank=1)]
    found = calls.calls(evidence(looped(*USUAL), *ranks))
    assert found.words == (f"before step 1 on rank 1: {words}" if words else found.words)


def drawing(*natures: Nature, loss: float = 1.0, seeds: int = 1) -> Run:
    seeded = [("torch", "5", f"a.py:{number}") for number in range(seeds)]
    return Run("run", (traced(natures=list(natures), backwards=[Backward(loss)], seeds=seeded),))


DROPOUT, FLIPS = Nature("dropout", "a.py:3"), Nature("augmentation", None, "Pictures")
UNLIKE = Nature("BatchNorm in evaluation", "a.py:4")


@pytest.mark.parametrize(
    ("original", "one", "words"),
    [
        (drawing(DROPOUT), drawing(loss=2.0), "no dropout, which the original has at a.py:3"),
        (drawing(FLIPS), drawing(loss=2.0), "no random augmentation by Pictures, which the original has"),
        (
            drawing(),
            drawing(Nature("draw", "a.py:3", "randn"), loss=2.0),
            "draw by randn in the training step, which the original has not",
        ),
        (
            drawing(Nature("draw", "a.py:3", "randn")),
            drawing(Nature("draw", "a.py:3", "randn from a generator"), loss=2.0),
            "no draw by randn in the training step, which the original has at a.py:3",
        ),
        (
            drawing(),
            drawing(UNLIKE),
            "BatchNorm with an evaluation's own batches, as where `model.eval()` is missing, "
            "which the original has not",
        ),
        (drawing(), drawing(loss=2.0, seeds=3), "torch is seeded with 5 3 times for 1"),
        (drawing(DROPOUT, UNLIKE), drawing(DROPOUT, UNLIKE, loss=2.0), "drawn by the same means as in the original"),
        (drawing(FLIPS), drawing(), "nothing that changes a loss"),
    ],
)
def test_what_is_no_longer_drawn_is_named(original: Run, one: Run, words: str) -> None:
    row = randomness.random_numbers_of_one(original, one)
    if words.startswith("nothing that"):
        assert row.status is Status.HOLDS
    else:
        assert row.words == words


def test_an_optimizer_that_steps_other_parameters_is_named() -> None:
    def started(names: tuple[str, ...], value: float = 1.0) -> Run:
        known = Optimizer("SGD", names, ("float32",) * len(names), ((value, value),) * len(names))
        return Run("run", (traced(optimizers={0: known}, steps=[Step(0, "a.py:9")]),))

    original = started(("up.weight", "out.weight"))
    assert training.start_of_one(original, original).status is Status.HOLDS
    row = training.start_of_one(original, started(("out.weight",)))
    assert (row.words, row.at) == ("optimizer 1 steps 1 parameter for 2: not up.weight", "a.py:9")
    row = training.start_of_one(original, started(("up.weight", "out.weight"), 2.0))
    assert row.words == "up.weight begins with other values than in the original"


def showing(loss: float, text: str, rank: int = 0) -> Trace:
    return traced(rank, backwards=[Backward(loss)], prints=[Print(text, "a.py:7", passes=1)])


def both(found: Evidence) -> list[Status]:
    as_launched = replace(found, launched=found.many).as_launched
    return [outputs.printed(found).status, launched.printed(as_launched).status]


def test_the_loss_of_one_step_is_each_ranks_own() -> None:
    original = showing(3.0, "step 1: loss 6.00 lr 0.10")
    own = [showing(2.0, "step 1: loss 4.00 lr 0.10"), showing(4.0, "step 1: loss 8.00 lr 0.10", 1)]
    assert both(evidence(original, *own)) == [Status.NATURE] * 2
    wrong = [showing(2.0, "step 1: loss 4.00 lr 0.10"), showing(4.0, "step 1: loss 4.50 lr 0.10", 1)]
    assert both(evidence(original, *wrong)) == [Status.DIFFERS] * 2
    other_rate = [showing(2.0, "step 1: loss 4.00 lr 0.20"), showing(4.0, "step 1: loss 8.00 lr 0.20", 1)]
    assert outputs.printed(evidence(original, *other_rate)).status is Status.DIFFERS


def test_a_number_that_is_one_ranks_own_hides_no_other() -> None:
    def two(loss: float, accuracy: str, rank: int = 0) -> Trace:
        trace = showing(loss, f"loss {loss:.2f}", rank)
        trace.prints.append(Print(f"accuracy {accuracy}", "a.py:9", passes=1))
        return trace

    row = outputs.printed(evidence(two(3.0, "0.5"), two(2.0, "0.9"), two(4.0, "0.9", 1)))
    assert (row.status, row.at) == (Status.DIFFERS, "a.py:9")


def test_multiples_are_told_up_to_the_digits_that_are_printed() -> None:
    assert compare.are_multiples([("0.67", 1.0), ("1.33", 2.0)])
    assert not compare.are_multiples([("0.67", 1.0), ("1.40", 2.0)])
    assert not compare.are_multiples([("0.00", 1.0), ("0.00", 2.0)])


def passed(*batches: tuple[int, ...], trains: int = 1, number: int = 0) -> Pass:
    return Pass(number, 0, "Data", 10, batches=list(batches), backwards=trains, is_over=True)


def of_one(original: list[Pass], one: list[Pass]) -> Row:
    return data.samples_of_one(Run("original", (traced(passes=original),)), Run("one", (traced(passes=one),)))


def test_a_batch_of_another_size_and_an_evaluation_of_less_are_named() -> None:
    whole = passed((0, 1), (2, 3))
    evaluated = passed((0, 1), (2, 3), trains=0, number=1)
    assert of_one([whole, evaluated], [whole, evaluated]).status is Status.HOLDS
    assert of_one([whole], [passed((0,), (1,))]).words == "batch 1 of Data has 1 sample for 2"
    assert of_one([whole], [passed((0, 1), (2, 4))]).words == "batch 2 of Data is [4] for [3]"
    words = "pass 1 over Data has 1 batch for 2, 2 samples for 4"
    found = of_one([whole], [passed((0, 1))])
    assert (found.words, found.step) == (words, 1)
    less = passed((0, 1), trains=0, number=1)
    words = "a pass over Data that nothing is learned from takes 2 samples for 4"
    assert of_one([whole, evaluated], [whole, less]).words == words
    assert of_one([whole, less], [whole, evaluated]).status is Status.HOLDS  # read one batch ahead


def test_a_rank_whose_data_set_holds_other_samples_is_named() -> None:
    def fetched(rank: int, *digests: str) -> Trace:
        samples = {("Data", str(index)): {digest} for index, digest in enumerate(digests)}
        seeds = [("torch", str(rank), "a.py:5")]
        natures = [Nature("own draw", "a.py:6", "randn")]
        rows = (0, 1, 2, 3)[slice(0, 4) if len(digests) == 4 else slice(2 * rank, 2 * rank + 2)]
        return traced(rank, passes=passing(rows), samples=samples, seeds=seeds, natures=natures)

    original = fetched(0, "a", "b", "c", "d")
    row = data.samples(evidence(original, fetched(0, "a", "b"), fetched(1, "x", "y")))
    assert (row.status, row.at) == (Status.DIFFERS, "a.py:5")
    assert row.words == "Data holds other samples on rank 1 than in the original, so that ranks do not share its data"
    split = data.samples(evidence(original, fetched(0, "a", "b"), fetched(1, "a", "y")))  # one is the same by chance
    assert split.words == row.words
    drawn = data.samples(evidence(original, fetched(0, "a", "x"), fetched(1, "y", "z")))  # by a generator of its own
    assert "holds other samples" not in drawn.words


def test_a_learning_rate_beyond_what_the_original_came_to_is_not_judged() -> None:
    def trained(*batches: tuple[int, ...], rates: tuple[float, ...], how: str, rank: int = 0) -> Trace:
        steps = [Step(rates=(rate,)) for rate in rates]
        trace = traced(rank, passes=passing(*batches), steps=steps)
        return replace(trace, end=replace(trace.end, how=how))

    rises = tuple(0.1 * step for step in range(1, 9))
    ranks = [trained((0, 1), (4, 5), rates=(0.1, 0.3, 0.5, 0.85), how="exit", rank=rank) for rank in range(2)]
    for how, status in (("steps", Status.HOLDS), ("exit", Status.DIFFERS)):
        original = trained((0, 1), (2, 3), (4, 5), (6, 7), rates=rises, how=how)
        assert launched.learning_rate(evidence(original, *ranks)).status is status


def test_a_script_goes_on_to_the_files_that_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "train.py"
    script.write_text('with open("history.json", "w") as file:\n    json.dump(history, file)\n')
    monkeypatch.setattr(Reach, "_own_files", lambda self: [str(script)])

    def unreached(*written: str, before: str = "") -> list[str]:
        recorder = Recorder(str(tmp_path / "trace"), str(tmp_path))
        reach = Reach(recorder, 0.0)
        reach.wrote(before)
        reach.learned()
        for path in written:
            reach.wrote(path)
        assert reach.is_far_enough(20)
        return json.loads((tmp_path / "trace").read_text().splitlines()[-1])["unreached"]  # type: ignore[no-any-return]

    assert unreached("model.pt") == ["files"]
    assert unreached(before="config.json") == ["files"]
    assert unreached("history.json") == []
    assert unreached(before="log.csv") == []


def test_a_resume_is_not_reached_before_an_optimizer_is_given_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    monkeypatch.setattr(Reach, "_own_files", lambda self: [str(script)])

    def unreached(line: str, loads: bool = False) -> tuple[str, ...]:
        script.write_text(line)
        path = tmp_path / f"trace.{len(list(tmp_path.iterdir()))}"
        reach = Reach(Recorder(str(path), str(tmp_path)), 0.0)
        if loads:
            reach.loaded()
        reach.learned()
        reach.learned()
        return read_trace(path, 0).unreached

    assert unreached('optimizer_d.load_state_dict(state["d"])') == ("a resume",)
    assert unreached("accelerator.load_state(args.resume)") == ("a resume",)
    assert unreached("self.opts[0].load_state_dict(state)", loads=True) == ()
    assert unreached('model.load_state_dict(torch.load("best.pt"))') == ()


def test_a_wrapper_has_no_class_that_is_compared() -> None:
    wrapped = nn.DataParallel(nn.Linear(2, 2))
    assert "class" not in dict(_of_module(wrapped))
    assert dict(_of_module(wrapped.module))["class"] == "Linear"


def test_a_module_of_another_class_is_named() -> None:
    tanh, relu = (traced(backwards=[Backward(1.0)], settings=[(0, {"Net.1.class": name})]) for name in ("Tanh", "ReLU"))
    row = settings.settings(evidence(tanh, relu))
    assert (row.status, row.words) == (Status.DIFFERS, "Net.1 is a ReLU for a Tanh, at backward pass 1")
