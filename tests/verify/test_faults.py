"""Ten planted faults, each a line of a migrated script broken, each found and named by the row that should."""

from __future__ import annotations

from accelify.verify.verdict import Status
from tests.verify import scripts
from tests.verify.conftest import Prove, differing, row

CLASSIFIER, MIGRATED = scripts.CLASSIFIER, scripts.CLASSIFIER_MIGRATED


def broken(text: str, line: str, instead: str) -> str:
    assert text.count(line) == 1
    return text.replace(line, instead)


def line_of(text: str, part: str) -> str:
    """The place that a row names: rows speak of the script that ran."""
    number = next(number for number, line in enumerate(text.splitlines(), 1) if part in line)
    return f"train_many.py:{number}"


def test_nothing_is_found_where_nothing_is_wrong(proving: Prove) -> None:
    verdict = proving(CLASSIFIER, MIGRATED)
    assert differing(verdict) == []
    assert verdict.word == "proven"
    assert {row.name for row in verdict.rows if row.status is not Status.HOLDS} == {
        "random numbers",
        "printed",
        "contents",
    }  # there are none


def test_one_of_two_models_is_not_prepared(proving: Prove) -> None:
    line = "first, slow = accelerator.prepare(first, slow)\n"
    assert differing(proving(scripts.TWO_MODELS, scripts.TWO_MODELS_MIGRATED)) == []
    verdict = proving(scripts.TWO_MODELS, broken(scripts.TWO_MODELS_MIGRATED, line, ""))
    found = next(r for r in verdict.rows if r.name == "ending" and r.processes == 2)
    assert found.status is Status.DIFFERS
    assert "NotPrepared" in found.words
    assert "2 tensors, of shape [4, 4], [4]" in found.words


def test_the_loader_is_not_prepared(proving: Prove) -> None:
    verdict = proving(
        CLASSIFIER,
        broken(MIGRATED, "train, test = accelerator.prepare(train, test)", "test = accelerator.prepare(test)"),
    )
    assert differing(verdict) == [("samples", 2), ("data", 2)]
    assert "batch 1 of TensorDataset" in row(verdict, "samples").words
    assert "seen by 2 ranks, all of 8" in row(verdict, "samples").words


def test_a_metric_is_not_gathered(proving: Prove) -> None:
    line = "            guess, y = accelerator.gather_for_metrics((guess, y))\n"
    verdict = proving(CLASSIFIER, broken(MIGRATED, line, ""))
    assert differing(verdict) == [("evaluation", 2)]


def test_the_scheduler_steps_once_for_each_process(proving: Prove) -> None:
    line = "        scheduler.step()\n"
    text = broken(MIGRATED, line, "        [scheduler.step() for _ in range(accelerator.num_processes)]\n")
    verdict = proving(CLASSIFIER, text)
    assert differing(verdict)[:2] == [("calls", 2), ("learning rate", 2)]
    assert row(verdict, "calls").words == "before step 2 on rank 0: scheduler.step 2 times for 1"
    found = row(verdict, "learning rate")
    assert (found.words, found.step, found.at) == ("step 2: 0.243 for 0.27", 2, line_of(text, "optimizer.step()"))


def test_the_checkpoint_is_written_by_all_ranks(proving: Prove) -> None:
    text = broken(MIGRATED, "accelerator.save(", "torch.save(")
    verdict = proving(CLASSIFIER, text)
    assert differing(verdict) == [("files", 2)]
    place = line_of(text, "torch.save(")
    assert row(verdict, "files").words == f"model.pt is written by ranks 0 and 1 (at {place})"


def test_random_batches_are_the_same_on_all_ranks(proving: Prove) -> None:
    good = scripts.RANDOM_BATCHES_MIGRATED
    verdict = proving(scripts.RANDOM_BATCHES, good)
    assert differing(verdict) == []
    assert row(verdict, "losses").status is Status.NATURE
    verdict = proving(scripts.RANDOM_BATCHES, broken(good, "5 + accelerator.process_index", "5"))
    assert differing(verdict) == [("data", 2)]
    assert "ranks 0 and 1 compute on the same data" in row(verdict, "data").words


def test_a_fault_shows_also_where_each_rank_draws_its_own_batches(proving: Prove) -> None:
    text = broken(scripts.RANDOM_BATCHES_MIGRATED, "backward(loss)", "backward(loss / accelerator.num_processes)")
    found = row(proving(scripts.RANDOM_BATCHES, text), "losses")
    assert found.status is Status.DIFFERS
    assert found.words.startswith("the first loss of rank 0 is")
    assert found.words.endswith("(half the original's)")


def test_the_gradient_is_divided_twice(proving: Prove) -> None:
    text = broken(MIGRATED, "backward(loss)", "backward(loss / accelerator.num_processes)")
    verdict = proving(CLASSIFIER, text)
    assert differing(verdict)[:2] == [("losses", 2), ("gradients", 2)]
    found = row(verdict, "gradients")
    assert found.words == "the gradient of Sequential.0.weight is half the original's at step 1"
    assert found.at == line_of(text, "optimizer.step()")


def test_zero_grad_is_lost(proving: Prove) -> None:
    verdict = proving(CLASSIFIER, broken(MIGRATED, "        optimizer.zero_grad()\n", ""))
    found = row(verdict, "parameters", 1)
    assert (found.status, found.step) == (Status.DIFFERS, 2)
    assert "Sequential.0.weight diverges at step 2: the gradient of Sequential.0.weight differs" in found.words


def test_the_evaluation_loader_is_divided_but_nothing_gathered(proving: Prove) -> None:
    # A person's choice that is right: the test set whole on every rank. Dividing it then halves what is counted.
    whole = broken(MIGRATED, "            guess, y = accelerator.gather_for_metrics((guess, y))\n", "")
    whole = broken(whole, "train, test = accelerator.prepare(train, test)", "train = accelerator.prepare(train)")
    assert differing(proving(CLASSIFIER, whole)) == []
    text = broken(whole, "train = accelerator.prepare(train)", "train, test = accelerator.prepare(train, test)")
    verdict = proving(CLASSIFIER, text)
    assert differing(verdict) == [("evaluation", 2)]
    assert row(verdict, "evaluation").at == line_of(text, "are right")


def test_a_loss_goes_around_plain_ddp(proving: Prove) -> None:
    assert differing(proving(scripts.WITH_A_LOSS_METHOD, scripts.ON_PLAIN_DDP)) == []
    around = "(wrapped.module if world > 1 else wrapped).loss(x).backward()"
    verdict = proving(scripts.WITH_A_LOSS_METHOD, broken(scripts.ON_PLAIN_DDP, "wrapped(x).backward()", around))
    assert differing(verdict)[0] == ("ranks agree", 2)
    assert row(verdict, "ranks agree").words == "fc.weight differs between ranks 0 and 1 after step 1"
