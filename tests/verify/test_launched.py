"""The run as `accelify launch` starts it: what it shows that runs made comparable cannot."""

from __future__ import annotations

from dataclasses import replace

from accelify.verify.judging import launched
from accelify.verify.trace import Draw, Nature, Pass, Print, Step, Trace
from accelify.verify.verdict import Row, Status, Verdict, Which
from tests.verify import scripts
from tests.verify.conftest import LIMITS, Prove, differing
from tests.verify.test_judge import evidence, own_value, passing, traced

CLASSIFIER, MIGRATED = scripts.CLASSIFIER, scripts.CLASSIFIER_MIGRATED


def shown(verdict: Verdict, name: str) -> Row:
    return next(row for row in verdict.rows if row.run is Which.LAUNCHED and row.name == name)


def test_it_says_how_many_samples_a_step_learns_from_and_that_the_rewrite_says_so(proving: Prove) -> None:
    verdict = proving(CLASSIFIER, launched=True)
    assert differing(verdict) == []
    found = shown(verdict, "batches")
    words = "a step learns from 16 samples for 8, so that an epoch has 2 steps for 4, as the rewrite says"
    assert (found.status, found.words) == (Status.HOLDS, words)
    assert "each batch divided between the processes (as launched, each takes whole ones)" in verdict.made_comparable
    assert shown(verdict, "samples").words.startswith("64 samples, each as often as in the original")


def test_ranks_that_draw_the_same_dropout_are_named(proving: Prove) -> None:
    seeded = scripts.RANDOM_BY_NATURE_MIGRATED.replace(
        "    optimizer.zero", "    torch.manual_seed(1)\n    optimizer.zero"
    )
    original = scripts.RANDOM_BY_NATURE.replace("    optimizer.zero", "    torch.manual_seed(1)\n    optimizer.zero")
    verdict = proving(original, seeded, launched=True)
    assert differing(verdict) == [("random numbers", 2)]
    found = shown(verdict, "random numbers")
    assert found.words == "dropout is drawn alike by ranks 0 and 1, though each has samples of its own"
    assert found.at == "train_many.py:29"


def test_a_number_of_one_rank_that_is_printed_is_named(proving: Prove) -> None:
    line = "        scheduler.step()\n"
    shown_at_each_step = f"{line}        print(loss.item() + x.mean().item())\n"
    original, migrated = [text.replace(line, shown_at_each_step) for text in (CLASSIFIER, MIGRATED)]
    verdict = proving(original, migrated, replace(LIMITS, steps=4), launched=True)
    assert differing(verdict) == [("printed", 2)]
    assert shown(verdict, "ending").words == "every rank takes 4 steps without an error"
    assert "a number of one rank's own, not everyone's" in shown(verdict, "printed").words


def stepped(*rates: float) -> list[Step]:
    return [Step(rates=(rate,)) for rate in rates]


def rated(theirs: tuple[float, ...], ours: tuple[float, ...], **more: object) -> Status:
    def trained(*batches: tuple[int, ...], rates: tuple[float, ...], rank: int = 0) -> Trace:
        return traced(rank, passes=passing(*batches), steps=stepped(*rates), **more)

    whole = trained((0, 1), (2, 3), (4, 5), (6, 7), rates=theirs)
    ranks = trained((0, 1), (4, 5), rates=ours), trained((2, 3), (6, 7), rates=ours, rank=1)
    return launched.learning_rate(evidence(whole, *ranks)).status


def test_a_learning_rate_goes_by_samples_or_by_steps() -> None:
    decay = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
    assert rated(decay, (1.0, 0.8, 0.6, 0.4, 0.2)) is Status.HOLDS
    slow = tuple(0.5**step for step in range(40))
    assert rated(slow, slow[:20]) is Status.NATURE
    assert rated(decay, (1.0, 2.0)) is Status.DIFFERS
    assert rated(decay, (1.0, 2.0), natures=[Nature("plateau")]) is Status.NATURE


def test_a_larger_batch_that_no_note_mentions_differs() -> None:
    original = traced(passes=passing((0, 1), (2, 3)))
    ranks = traced(passes=passing((0, 1))), traced(1, passes=passing((2, 3)))
    row = launched.batches(evidence(original, *ranks, notes=("train.py:3: something else",)))
    assert (row.status, row.words) == (
        Status.DIFFERS,
        "a step learns from 4 samples for 2, so that an epoch has 1 step for 2; no note says so",
    )
    assert launched.batches(evidence(original, *ranks)).status is Status.NATURE
    split = traced(passes=passing((0,), (2,))), traced(1, passes=passing((1,), (3,)))
    assert launched.batches(evidence(original, *split)).words == "a step learns from 2 samples, as before"


def test_draws_and_prints_are_compared_by_line() -> None:
    loss = Print("loss 0.5", "train.py:2", stack=("train.py:2",))
    mine = traced(draws=[Draw("randn", "a.py:3", "x")], prints=[Print("rank 0", "a.py:1"), loss])
    other = traced(1, draws=[Draw("randn", "a.py:3", "y")], prints=[Print("rank 1", "a.py:1")])
    assert launched.random_numbers(evidence(mine, mine, other)).status is Status.HOLDS
    assert launched.random_numbers(evidence(mine, mine, mine)).status is Status.DIFFERS
    assert launched.printed(evidence(mine, mine, other)).status is Status.HOLDS
    unlike = replace(other, prints=[replace(loss, text="loss 0.25")])
    assert launched.printed(evidence(mine, mine, unlike)).status is Status.DIFFERS
    for at, status in (("train.py:2", Status.NATURE), ("train.py:1", Status.DIFFERS)):
        told = evidence(mine, mine, unlike, own_values=(own_value(at),))
        assert launched.printed(told).status is status


def test_batches_of_one_sample_are_taken_whole() -> None:
    ones = [Pass(0, 0, batches=[(number,) for number in range(4)], backwards=1, is_over=True)]
    ranks = [[Pass(0, 0, batches=[(rank,), (rank + 2,)], backwards=1, is_over=True)] for rank in range(2)]
    from accelify.verify.judging import data

    row = data.samples(evidence(traced(passes=ones), traced(passes=ranks[0]), traced(1, passes=ranks[1])))
    assert (row.status, row.words[:9]) == (Status.HOLDS, "4 samples")


def test_another_order_in_later_epochs_is_no_difference() -> None:
    original = traced(passes=passing((0, 1), (2, 3)))

    def judged(*ranks: tuple[tuple[int, ...], ...]) -> Status:
        traces = [traced(rank, passes=passing(*batches)) for rank, batches in enumerate(ranks)]
        return launched.samples(evidence(original, *traces)).status

    assert judged(((3, 0),), ((1, 2),)) is Status.HOLDS
    original.passes[0].is_over, original.passes[0].batches = False, [(0, 1)]
    assert judged(((3, 0), (5, 4)), ((1, 2), (7, 6))) is Status.HOLDS
    assert judged(((3, 0), (5, 4)), ((3, 0), (5, 4))) is Status.DIFFERS
    original = traced(passes=passing((0, 1), (2, 3)))
    assert judged(((3, 0),), ((1, 0),)) is Status.DIFFERS
    assert judged(((0, 1), (2, 3)), ((0, 1), (2, 3))) is Status.DIFFERS


def test_with_drop_last_another_order_leaves_out_other_samples() -> None:
    original = traced(passes=[replace(passing((0, 1), (2, 3), (4, 5))[0], length=7)])

    def judged(*ranks: tuple[int, ...]) -> Status:
        traces = [traced(rank, passes=passing(batch)) for rank, batch in enumerate(ranks)]
        return launched.samples(evidence(original, *traces)).status

    assert judged((6, 0), (3, 1)) is Status.HOLDS
    assert judged((6, 0), (3, 0)) is Status.DIFFERS
    assert judged((6, 8), (3, 1)) is Status.DIFFERS
    original.passes[0].length = 6
    assert judged((6, 0), (3, 1)) is Status.DIFFERS
