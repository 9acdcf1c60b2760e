"""Traces in, rows out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelify.verify.judging import data, endings, launched, outputs, training
from accelify.verify.judging.evidence import Evidence
from accelify.verify.judging.judge import judge
from accelify.verify.scratch import OwnValue
from accelify.verify.trace import (
    Backward,
    Call,
    Checkpoint,
    End,
    Leaf,
    Nature,
    Optimizer,
    Pass,
    Print,
    Run,
    Sketch,
    Step,
    Trace,
    Write,
)
from accelify.verify.verdict import Status

WHOLE = (0, 1, 2, 3), (4, 5, 6, 7), (8, 9)


def traced(rank: int = 0, **parts: object) -> Trace:
    return Trace(rank, end=End("exit", 0), **parts)  # type: ignore[arg-type]  # fields of Trace


def evidence(original: Trace, *ranks: Trace, **more: object) -> Evidence:
    first = Run("original", (original,))
    return Evidence(first, first, first, Run("many", ranks), **more)  # type: ignore[arg-type]  # fields of Evidence


def passing(*batches: tuple[int, ...], **more: object) -> list[Pass]:
    return [Pass(0, 0, "Data", 10, batches=list(batches), backwards=1, is_over=True, **more)]  # type: ignore[arg-type]


def sampled(*ranks: tuple[tuple[int, ...], ...], original: tuple[tuple[int, ...], ...] = WHOLE) -> tuple[Status, str]:
    traces = [traced(rank, passes=passing(*batches)) for rank, batches in enumerate(ranks)]
    row = data.samples(evidence(traced(passes=passing(*original)), *traces))
    return row.status, row.words


def test_batches_that_are_split_among_the_ranks() -> None:
    status, words = sampled(((0, 1), (4, 5), (8,)), ((2, 3), (6, 7), (9,)))
    assert status is Status.HOLDS
    assert words.startswith("10 samples")


def test_batches_that_are_dealt_whole() -> None:
    status, _ = sampled(((0, 1, 2, 3), (8, 9)), ((4, 5, 6, 7), (0, 1)))
    assert status is Status.HOLDS


def passed(backwards: int, rank: int = 0) -> Trace:
    return traced(rank, passes=[Pass(0, 0, "Stream", batches=[None] * 4, backwards=backwards, is_over=True)])


def test_a_pass_that_is_learned_from_less_loses_samples() -> None:
    many = evidence(passed(4), *(replace(passed(2, rank), backwards=[Backward(1.0)] * 2) for rank in range(2)))
    row = endings.work(many)
    assert (row.status, row.words) == (
        Status.DIFFERS,
        "pass 1 over Stream: every rank takes 2 backward passes for 4, so that samples are lost, as where data are "
        "sharded twice",
    )
    as_launched = replace(many, launched=many.many).as_launched
    assert endings.work(as_launched).status is Status.HOLDS
    assert endings.work(replace(as_launched, baseline=Run("original", (passed(8),)))).status is Status.DIFFERS


def test_a_sum_over_the_ranks_counts_parts_of_batches_only_where_they_are_divided() -> None:
    original = traced(prints=printing("loss 2.00"))
    doubled = [traced(rank, prints=printing("loss 4.00")) for rank in range(2)]
    found = evidence(original, *doubled)
    for printed, status in (("loss 1.90", Status.NATURE), ("loss 3.80", Status.DIFFERS)):
        launched = Run("launched", tuple(traced(rank, prints=printing(printed)) for rank in range(2)))
        assert outputs.printed(replace(found, launched=launched)).status is status


def test_where_ranks_stand_that_do_not_end() -> None:
    stacks = None, "", "/lib/python/site.py:1 in main\ntrain.py:7 in step\ntorch/nn/linear.py:3 in forward"
    ranks = tuple(traced(rank) for rank in range(3))
    row = endings.ending(Run("original", (traced(),)), Run("many", ranks, hang="no end after 9 s", stacks=stacks))
    assert row.words == (
        "hangs, no end after 9 s: rank 0 has ended; rank 1 does not say where it stands; rank 2 stands at train.py:7"
    )
    assert row.at == "train.py:7"


def test_a_row_that_fills_up_is_counted_and_no_more_than_that() -> None:
    status, words = sampled(((0, 1), (4,)), ((2, 3), (4,)), original=((0, 1, 2, 3), (4,)))
    assert status is Status.HOLDS
    assert words.endswith("; 1 row repeated to fill up, without weight")
    status, words = sampled(((0,), (1,)), ((0,), (1,)), original=((0,), (1,)))
    assert words.startswith("2 samples")


def test_a_sample_that_no_rank_sees() -> None:
    status, words = sampled(((0, 1), (4, 5)), ((2, 3), (6, 6)))
    assert (status, words) == (Status.DIFFERS, "batch 2 of Data: no rank sees [7]")


def test_a_sample_that_two_ranks_see() -> None:
    status, words = sampled(((0, 1, 2, 3),), ((0, 1, 2, 3),))
    assert (status, words) == (Status.DIFFERS, "batch 1 of Data: [0, 1, 2, 3] are seen by 2 ranks, all of 4")


def test_a_rank_that_is_one_batch_ahead_when_stopped() -> None:
    ahead, behind = passing((0, 1), (4, 5)), passing((2, 3))
    for each in (*ahead, *behind):
        each.is_over = False
    row = data.samples(evidence(traced(passes=passing(*WHOLE)), traced(passes=ahead), traced(1, passes=behind)))
    assert row.status is Status.HOLDS


def test_a_pass_that_ends_too_soon() -> None:
    status, words = sampled(((0, 1), (4, 5)), ((2, 3), (6, 7)))
    assert (status, words) == (Status.DIFFERS, "2 of the 10 samples of Data are seen by no rank")


def test_loaders_without_indices_are_left_to_the_losses() -> None:
    row = data.samples(evidence(traced(passes=[]), traced(), traced(1)))
    assert row.status is Status.NOTHING


def losses(*values: float) -> list[Backward]:
    return [Backward(value, at="train.py:7") for value in values]


def test_the_mean_over_ranks_is_what_counts() -> None:
    row = training.losses(
        evidence(
            traced(backwards=losses(2.0, 1.0)),
            traced(0, backwards=losses(1.5, 1.25)),
            traced(1, backwards=losses(2.5, 0.75)),
        )
    )
    assert row.status is Status.HOLDS


def test_a_summed_loss_is_said_to_be_half() -> None:
    row = training.losses(
        evidence(traced(backwards=losses(8.0)), traced(0, backwards=losses(3.0)), traced(1, backwards=losses(5.0)))
    )
    assert (row.status, row.step, row.at) == (Status.DIFFERS, 1, "train.py:7")
    assert row.words == "backward pass 1: 4 (mean of 3, 5) for 8 (half the original's)"


def test_one_bit_is_too_much_in_one_process() -> None:
    one = Run("one", (traced(backwards=losses(1.0000000000000002)),))
    row = training.losses_of_one(Run("original", (traced(backwards=losses(1.0)),)), one)
    assert row.status is Status.DIFFERS


def test_noise_in_the_training_step_is_told_from_a_fault() -> None:
    drawn = [Nature("draw", "vae.py:40", "randn_like")]
    ranks = [traced(rank, backwards=losses(3.0 + rank), natures=drawn) for rank in range(2)]
    row = training.losses(evidence(traced(backwards=losses(8.0)), *ranks))
    assert row.status is Status.NATURE
    assert "randn_like at vae.py:40" in row.words


def test_the_same_data_on_all_ranks_is_no_fault_where_the_rewrite_said_so() -> None:
    ranks = [traced(rank, backwards=losses(3.0, 2.0)) for rank in range(2)]
    plain = evidence(traced(backwards=losses(3.0, 2.0)), *ranks)
    assert data.data(plain).status is Status.DIFFERS
    told = replace(plain, notes=("train.py:9: every process has the same data",))
    assert data.data(told).status is Status.NATURE


def stepped(gradient: Sketch, after: Sketch, digest: str = "a") -> dict[str, object]:
    known = Optimizer("SGD", ("fc.weight",), ("float32",), ((1.0, 1.0, 1.0),))
    return {
        "optimizers": {0: known},
        "steps": [Step(0, "train.py:9", (0.1,), (gradient,), (digest,), (after,))],
    }


def test_the_first_gradient_that_differs_is_named() -> None:
    original = traced(**stepped((2.0, 2.0, -2.0), (1.0, 1.2, 0.8)))
    ranks = [traced(rank, **stepped((1.0, 1.0, -1.0), (1.0, 1.1, 0.9))) for rank in range(2)]
    row = training.gradients(evidence(original, *ranks))
    assert row.words == "the gradient of fc.weight is half the original's at step 1"
    row = training.parameters(evidence(original, *ranks))
    assert row.words == "fc.weight differs by 0.5 of the way it moved, after step 1"


def test_a_parameter_that_only_rounding_moves_is_no_difference() -> None:
    known = Optimizer("Adam", ("weight", "bias"), ("float32", "float32"), ((1.0, 1.0, 1.0),) * 2)

    def moved(bias: Sketch, size: float) -> Trace:
        step = Step(0, "train.py:9", (0.1,), ((2.0, 2.0, -2.0), (size, size, size)), (), ((1.0, 1.2, 0.8), bias))
        return traced(optimizers={0: known}, steps=[step])

    for size, status in ((2e-8, Status.HOLDS), (2e-2, Status.DIFFERS)):
        row = training.parameters(evidence(moved((1.0, 1.1, 1.1), size), *[moved((1.0, 0.9, 0.9), size)] * 2))
        assert row.status is status


def test_ranks_that_part_are_named() -> None:
    ranks = [traced(rank, **stepped((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), str(rank))) for rank in range(2)]
    row = training.agreement(evidence(ranks[0], *ranks))
    assert (row.status, row.words) == (Status.DIFFERS, "fc.weight differs between ranks 0 and 1 after step 1")


def test_a_file_that_is_renamed_into_its_place_has_one_writer() -> None:
    first = traced(
        0, writes=[Write("a.part"), Write("model.pt", "rename", "train.py:30", "a.part"), Write("out", "mkdir")]
    )
    second = traced(1, writes=[Write("out", "mkdir")])
    original = traced(writes=[Write("model.pt")])
    assert outputs.files(evidence(original, first, second)).status is Status.HOLDS
    both = traced(1, writes=[Write("model.pt", "open", "train.py:30")])
    row = outputs.files(evidence(original, first, both))
    assert row.words == "model.pt is written by ranks 0 and 1 (at train.py:30)"


def test_a_file_that_is_written_no_more() -> None:
    original = traced(writes=[Write("results/epoch3.png", at="train.py:40")])
    row = outputs.files(evidence(original, traced(), traced(1)))
    assert (row.status, row.words) == (Status.DIFFERS, "results/epoch3.png is not written")


def checkpoint(*leaves: Leaf) -> list[Checkpoint]:
    return [Checkpoint("model.pt", "train.py:50", leaves)]


def test_checkpoints_with_other_keys_shapes_or_values() -> None:
    weight = Leaf("fc.weight", "float32[2, 2]", "abc", (2.0, 2.0, 1.0))
    original = Run("original", (traced(checkpoints=checkpoint(weight)),))

    def compared(*leaves: Leaf) -> str:
        return outputs.checkpoints_of_one(original, Run("one", (traced(checkpoints=checkpoint(*leaves)),))).words

    assert compared(weight) == "1 checkpoint, the same bit for bit"
    assert compared() == "model.pt: the key fc.weight is missing"
    assert "module.fc.weight is new" in compared(weight, replace(weight, key="module.fc.weight"))
    assert "is float32[4] for float32[2, 2]" in compared(replace(weight, kind="float32[4]"))
    assert "the value of fc.weight is not the original's" in compared(replace(weight, value="abd"))


def printing(*lines: str) -> list[Print]:
    """Lines of a loss, the last one after evaluating."""
    places = (f"train.py:{9 + index}" for index in range(len(lines)))
    return [
        Print(text, at, index == 1, stack=(at, "train.py:30"))
        for index, (text, at) in enumerate(zip(lines, places, strict=True))
    ]


def test_every_printed_number_is_the_originals() -> None:
    original = traced(prints=printing("loss 0.5", "accuracy 0.75"))
    same = [traced(rank, prints=printing("loss 0.5", "accuracy 0.75")) for rank in range(2)]
    for row in (outputs.printed, outputs.evaluation):
        assert row(evidence(original, *same)).status is Status.HOLDS
    own = [traced(rank, prints=printing("loss 0.25", f"accuracy 0.{rank + 1}")) for rank in range(2)]
    found = evidence(original, *own)
    assert outputs.evaluation(found).words == (
        "prints 0.1 for 0.75: each rank prints a number of its own shard, so it is not gathered"
    )
    assert outputs.printed(found).words == "prints 0.25 for 0.5 (half the original's)"
    for at, status in (("train.py:10", Status.NATURE), ("train.py:30", Status.NATURE), ("train.py:11", Status.DIFFERS)):
        told = replace(found, own_values=(own_value(at),))
        assert [row(told).status for row in (outputs.printed, outputs.evaluation)] == [Status.DIFFERS, status]


def own_value(at: str) -> OwnValue:
    return OwnValue(at, "train.py:3: `total` adds up this process's shard only", "train.py", (1, 20))


def test_a_mean_over_uneven_parts_of_a_batch_is_near() -> None:
    original = traced(prints=printing("loss 0.500"), passes=passing((0, 1, 2)))
    for printed, status in (("loss 0.450", Status.NATURE), ("loss 0.250", Status.DIFFERS)):
        ranks = [traced(rank, prints=printing(printed)) for rank in range(2)]
        assert outputs.printed(evidence(original, *ranks)).status is status


@pytest.mark.parametrize(
    ("number", "status"),
    [("0.500", Status.NATURE), ("1.000", Status.NATURE), ("0.480", Status.DIFFERS), ("0.250", Status.DIFFERS)],
)
def test_a_mean_of_losses_may_be_shown_after_an_evaluation(number: str, status: Status) -> None:
    def line(text: str) -> list[Print]:
        return [Print(f"loss {text}", "train.py:9", True, 2, ("train.py:9",))]

    original = traced(prints=line(number), passes=passing((0, 1, 2)), backwards=[Backward(0.4), Backward(0.6)])
    ranks = [traced(rank, prints=line(f"{float(number) - 0.01:.3f}")) for rank in range(2)]
    assert outputs.evaluation(evidence(original, *ranks)).status is status


def test_other_words_after_an_evaluation_differ() -> None:
    def line(text: str) -> list[Print]:
        return [Print(text, "train.py:9", True, 2, ("train.py:9",))]

    original = traced(prints=line("best"), passes=passing((0, 1, 2)), backwards=[Backward(0.4), Backward(0.6)])
    ranks = [traced(rank, prints=line("worse")) for rank in range(2)]
    assert outputs.evaluation(evidence(original, *ranks)).status is Status.DIFFERS


def test_numbers_that_differ_from_run_to_run_are_not_compared() -> None:
    original, again = (traced(prints=printing(f"seed {number} loss 0.50")) for number in (3, 4))
    repeated = Run("original, again", (again,))
    for text, status in (("seed 5 loss 0.50", Status.HOLDS), ("seed 5 loss 0.40", Status.DIFFERS)):
        one = Run("one", (traced(prints=printing(text)),))
        assert outputs.output_of_one(replace(evidence(original), one=one, again=repeated)).status is status


def test_an_end_by_error_is_that_of_the_rank_whose_fault_it_is() -> None:
    lost = replace(traced(), end=End("error", 1, "RuntimeError: Connection closed by peer", "train.py:9"))
    own = replace(traced(1), end=End("error", 1, "ValueError: no", "train.py:8"))
    row = endings.ending(Run("original", (traced(),)), Run("many", (lost, own)))
    assert (row.words, row.at) == ("rank 1 fails: ValueError: no", "train.py:8")


def test_what_is_drawn_with_replacement_may_come_to_two_ranks() -> None:
    drawn, again = ((0, 3, 3, 1), (2, 2, 0, 1)), (((5, 1, 1, 2),), ((5, 4, 0, 0),))
    original = traced(passes=passing(*drawn))
    many = evidence(original, *(traced(rank, passes=passing(*batches)) for rank, batches in enumerate(again)))
    row = launched.samples(many)
    words = "Data is drawn from with replacement: each pass takes as many samples"
    assert (row.status, row.words) == (Status.HOLDS, words)
    same = evidence(original, *(traced(rank, passes=passing(*again[0])) for rank in range(2)))
    assert launched.samples(same).status is Status.DIFFERS
    each_all = evidence(
        original, *(traced(rank, passes=passing(*drawn, *batches)) for rank, batches in enumerate(again))
    )
    assert launched.samples(each_all).status is Status.DIFFERS


def test_samples_that_a_rank_makes_for_itself_are_its_own_where_it_sees_all_of_them() -> None:
    def made(rank: int, *batches: tuple[int, ...]) -> Trace:
        natures = [Nature("own draw", "a.py:3")]
        seeds = [("torch", str(rank), "a.py:2")]
        samples = {("Data", str(index)): {f"{rank}"} for index in range(4)}
        return traced(rank, passes=passing(*batches), natures=natures, seeds=seeds, samples=samples)

    original = made(0, (0, 1), (2, 3))
    whole = evidence(original, *(made(rank, (0, 1), (2, 3)) for rank in range(2)))
    row = data.samples(whole)
    assert (row.status, row.at) == (Status.NATURE, "a.py:2")
    assert row.words.endswith("(a.py:2), makes samples of them, and learns from all of its samples")
    assert data.samples(replace(whole, launched=whole.many).as_launched).status is Status.NATURE
    sharded = evidence(original, made(0, (0, 1)), made(1, (2, 3)))
    assert data.samples(sharded).status is Status.DIFFERS


def test_a_state_in_files_of_a_librarys_own_is_compared_by_the_call() -> None:
    original, once = traced(states=["a.py:7", "a.py:7"]), traced(states=["a.py:7"])
    row = outputs.checkpoints(evidence(original, original, original))
    assert (row.status, row.words) == (Status.HOLDS, "2 states saved by `save_state`, in files of the library's own")
    row = outputs.checkpoints(evidence(original, once, once))
    assert (row.status, row.words, row.at) == (Status.DIFFERS, "`save_state` is called 1 time for 2", "a.py:7")


def test_batches_of_a_loader_that_accelerate_prepared_are_whole_ones_too() -> None:
    original = traced(passes=passing((0, 1), (2, 3), prepared=True))
    ranks = [traced(rank, passes=passing(rows)) for rank, rows in enumerate(((0, 1), (2, 3)))]
    row = launched.batches(evidence(original, *ranks, notes=("a.py:3: something else",)))
    assert row.status is Status.HOLDS
    assert row.words.endswith("as the original does on 2 processes")


def test_words_that_only_one_process_prints_are_no_number_that_is_missing() -> None:
    def found(*texts: str) -> tuple[Status, str]:
        lines = [Print(text, "a.py:3") for text in texts]
        original = traced(prints=lines)
        row = outputs.printed(evidence(original, traced(prints=[Print("loss 2.0", "a.py:5")])))
        return row.status, row.words

    assert found("one process") == (Status.NATURE, "0 lines for 1, without a number")
    assert found("loss 2.0") == (Status.DIFFERS, "0 lines for 1")


def test_samples_that_differ_after_losses_follow_from_them() -> None:
    def trained(losses: tuple[float, ...], second: tuple[int, ...]) -> Run:
        backwards = [Backward(loss) for loss in losses]
        calls = [Call("backward")] * len(losses)
        passes = [*passing((0, 1)), Pass(0, 1, "Data", 2, batches=[second], backwards=1, is_over=True)]
        return Run("run", (traced(backwards=backwards, passes=passes, calls=calls),))

    def order(original: Run, one: Run) -> list[str]:
        rows = judge(replace(evidence(original.ranks[0], original.ranks[0]), one=one))
        return [row.name for row in rows if row.processes == 1 and row.status is Status.DIFFERS]

    original = trained((1.0, 0.5), (0, 1))
    assert order(original, trained((1.0, 0.4), (1, 0))) == ["samples", "losses"]
    assert order(original, trained((0.9, 0.4), (1, 0))) == ["losses", "samples"]
