"""What else can become of a proof: scripts that fail, hang, stop early, are random by nature, or write elsewhere."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from accelify.verify.verdict import Status
from tests.verify import scripts
from tests.verify.conftest import LIMITS, Prove, differing, row

CLASSIFIER, MIGRATED = scripts.CLASSIFIER, scripts.CLASSIFIER_MIGRATED


def test_what_the_codemod_makes_is_proven(proving: Prove) -> None:
    verdict = proving(CLASSIFIER)
    assert differing(verdict) == []
    assert "+    accelerator.backward(loss)" in verdict.diff.replace("+        acc", "+    acc")
    assert verdict.is_whole


def test_runs_stop_after_the_steps_that_were_asked_for(proving: Prove) -> None:
    verdict = proving(CLASSIFIER, MIGRATED, replace(LIMITS, steps=3))
    assert differing(verdict) == []
    assert (verdict.steps, verdict.is_whole) == (3, False)
    assert row(verdict, "checkpoints").status is Status.NOTHING


def test_an_original_that_fails_cannot_be_compared(proving: Prove) -> None:
    verdict = proving("import torch\nx = torch.ones(2, 3) @ torch.ones(2, 3)\n", MIGRATED)
    assert verdict.status == 2
    assert "mat1 and mat2 shapes cannot be multiplied" in (verdict.error or "")
    assert 'train.py", line 2' in (verdict.error or "")


def test_an_original_that_asks_for_a_gpu_is_told_that_there_is_none(proving: Prove) -> None:
    verdict = proving(CLASSIFIER.replace("nn.Linear(8, 2)", "nn.Linear(8, 2).cuda()"))
    assert verdict.status == 2
    assert 'train.py", line 11' in (verdict.error or "")
    assert (verdict.error or "").endswith("or tell it by an option)")


def test_an_original_that_draws_what_no_seed_reaches_cannot_be_compared(proving: Prove) -> None:
    drawn = "torch.from_numpy(np.random.RandomState().randn(44, 6)).float()"
    text = "import numpy as np\n" + CLASSIFIER.replace("torch.randn(44, 6)", drawn)
    verdict = proving(text, limits=replace(LIMITS, steps=2))
    assert verdict.status == 2
    assert "the original does not do the same twice" in (verdict.error or "")
    assert "train.py:19: a loss of " in (verdict.error or "")


def test_a_script_without_training_cannot_be_compared(proving: Prove) -> None:
    verdict = proving("print('hello')\n")
    assert verdict.status == 2
    assert "nothing to prove" in (verdict.error or "")


def test_a_migrated_script_that_fails_differs(proving: Prove) -> None:
    fault = "    correct = 0 / (accelerator.process_index - 1)\n"
    verdict = proving(CLASSIFIER, MIGRATED.replace("    correct = 0\n", fault))
    assert differing(verdict)[0] == ("ending", 2)
    assert "rank 1 fails: ZeroDivisionError" in row(verdict, "ending").words
    assert row(verdict, "ending").at == "train_many.py:26"


def test_a_hang_shows_where_each_rank_stands(proving: Prove) -> None:
    line = "    correct = 0\n"
    waiting = "    while accelerator.process_index:\n        pass\n    correct = 0\n"
    verdict = proving(CLASSIFIER, MIGRATED.replace(line, waiting), replace(LIMITS, silence=20.0))
    found = row(verdict, "ending")
    assert found.status is Status.DIFFERS
    words = (
        r"hangs, no sign of life for [\d.]+ s: rank 0 stands at train_many.py:\d+; rank 1 stands at train_many.py:2[67]"
    )
    assert re.fullmatch(words, found.words), found.words


def test_a_rank_that_does_nothing_is_idle(proving: Prove) -> None:
    # Without a model that is prepared, no rank waits for another.
    text = MIGRATED.replace("encoder, head = accelerator.prepare(encoder, head)\n", "")
    text = text.replace("optimizer, scheduler = accelerator.prepare(optimizer, scheduler)\n", "")
    text = text.replace("for epoch in range(2):", "for epoch in range(2 * accelerator.is_main_process):")
    text = text.replace("train, test = accelerator.prepare(train, test)", "").replace(
        "accelerator.gather_for_metrics", ""
    )
    found = row(proving(CLASSIFIER, text), "work")
    assert (found.status, found.words) == (Status.DIFFERS, "rank 1 did nothing: no backward pass")


def test_dropout_and_batch_norm_and_noise_are_taken_away_where_that_proves_more(proving: Prove) -> None:
    verdict = proving(scripts.RANDOM_BY_NATURE, scripts.RANDOM_BY_NATURE_MIGRATED)
    assert differing(verdict) == []
    assert row(verdict, "losses").status is Status.HOLDS
    made = " ".join(verdict.made_comparable)
    assert "dropout off (train.py:25)" in made
    assert "BatchNorm with its running statistics (train.py:25)" in made
    assert "augmentation seeded by sample (Noisy)" in made


def test_ranks_with_seeds_of_their_own_are_no_excuse_where_nothing_draws(proving: Prove) -> None:
    # The rewrite parts the ranks' seeds for the data set's sake, whose draws are seeded by sample here.
    seeded = scripts.RANDOM_BY_NATURE_MIGRATED.replace("for x, y", "accelerator.seed_by_rank()\nfor x, y", 1)
    verdict = proving(scripts.RANDOM_BY_NATURE, seeded)
    assert differing(verdict) == []
    assert row(verdict, "losses").status is Status.HOLDS
    text = seeded.replace("backward(loss)", "backward(loss / accelerator.num_processes)")
    found = row(proving(scripts.RANDOM_BY_NATURE, text), "gradients")
    assert (found.status, found.words) == (Status.DIFFERS, "the gradient of 0.weight is half the original's at step 1")


def test_a_batch_norm_that_has_only_the_batch_is_named_as_the_reason(proving: Prove) -> None:
    # It computes with the rows that a rank has, and there are no running statistics to take instead.
    original = scripts.RANDOM_BY_NATURE.replace("BatchNorm1d(8)", "BatchNorm1d(8, track_running_stats=False)")
    verdict = proving(original)
    assert differing(verdict) == []
    found = row(verdict, "losses")
    assert found.status is Status.NATURE
    assert re.match(r"BatchNorm without running statistics \(train.py:\d+\); backward pass 1: ", found.words)
    assert row(verdict, "ranks agree").status is Status.HOLDS


def test_a_script_that_counts_on_its_batch_size_is_run_on_whole_batches(proving: Prove) -> None:
    fixed = scripts.WITH_A_LOSS_METHOD.replace("model.loss(x)", "model.loss(x.reshape(8, 4))")
    verdict = proving(fixed)
    assert differing(verdict) == []
    found = row(verdict, "losses")
    assert found.status is Status.NATURE
    assert "does not run on parts of a batch (RuntimeError: shape '[8, 4]' is invalid" in found.words
    assert row(verdict, "samples").words == "32 samples, each as often as in the original and on one rank"
    assert row(verdict, "ranks agree").status is Status.HOLDS


def test_ranks_that_get_in_each_others_way_are_not_given_whole_batches(proving: Prove) -> None:
    # As when one rank reads what another is writing; on whole batches this one would pass.
    fault = "    if accelerator.num_processes > 1 and accelerator.split_batches:\n"
    fault += "        raise EOFError('Ran out of input')\n"
    verdict = proving(CLASSIFIER, MIGRATED.replace("    correct = 0\n", fault + "    correct = 0\n"))
    assert row(verdict, "ending").status is Status.DIFFERS
    assert "fails: EOFError: Ran out of input" in row(verdict, "ending").words


def test_noise_in_the_training_step_is_drawn_for_the_whole_batch(proving: Prove) -> None:
    verdict = proving(scripts.WITH_NOISE)
    assert differing(verdict) == []
    assert row(verdict, "losses").status is Status.HOLDS
    assert row(verdict, "gradients").status is Status.HOLDS
    assert "noise drawn for the whole batch" in verdict.made_comparable[0]


def test_noise_for_the_last_batch_is_that_batchs_after_the_pass_too(proving: Prove) -> None:
    inside, outside = scripts.WITH_NOISE.split("for (x,) in train:\n")
    twice = inside.replace("batch_size=7", "batch_size=10, shuffle=True") + "for epoch in range(2):\n"
    twice += "    for (x,) in train:\n" + outside.replace("    ", "        ")
    twice += "    with torch.no_grad():\n        y = torch.randn_like(model(x)), torch.randn(5, 3)\n"
    verdict = proving(twice)
    assert differing(verdict) == []
    assert row(verdict, "gradients").status is Status.HOLDS


def test_a_loss_that_is_a_sum_over_the_batch_is_added_up(proving: Prove) -> None:
    summed = scripts.WITH_NOISE.replace(".mean()", ".sum()").replace("7)", "6)").replace("0.05", "0.001")
    verdict = proving(summed)
    assert differing(verdict) == []
    assert [row(verdict, name).status for name in ("losses", "gradients", "parameters")] == [Status.HOLDS] * 3
    assert verdict.made_comparable[-1].startswith("losses that are sums over the batch added up over the ranks (train")


def test_a_sum_over_an_only_batch_is_known_as_one(proving: Prove) -> None:
    summed = scripts.WITH_A_LOSS_METHOD.replace(".mean()", ".sum()").replace("batch_size=8", "batch_size=40")
    verdict = proving(summed.replace("0.1", "0.001"))
    assert differing(verdict) == []
    assert row(verdict, "gradients").status is Status.HOLDS


def test_a_sum_that_is_divided_is_no_sum(proving: Prove) -> None:
    summed = scripts.WITH_A_LOSS_METHOD.replace(".mean()", ".sum()").replace("0.1", "0.001")
    migrated = (
        summed.replace("import torch\n", "import torch\nfrom accelify.runtime import Accelerator\n", 1)
        .replace("for (x,)", "accelerator = Accelerator()\ntrain, model, optimizer = PREPARED\nfor (x,)")
        .replace("PREPARED", "accelerator.prepare(train, model, optimizer)")
        .replace("model.loss(x).backward()", "accelerator.backward(model.loss(x) / accelerator.num_processes)")
    )
    found = row(proving(summed, migrated), "gradients")
    assert (found.status, found.words) == (
        Status.DIFFERS,
        "the gradient of fc.weight is a quarter of the original's at step 1",
    )


def test_a_script_may_not_write_outside_its_copy(proving: Prove, tmp_path: Path) -> None:
    elsewhere = CLASSIFIER.replace('"model.pt")', f'"{tmp_path / "model.pt"}")')
    verdict = proving(elsewhere, MIGRATED)
    assert verdict.status == 2
    assert "lets a script write only into its scratch copy" in (verdict.error or "")
    assert not (tmp_path / "model.pt").exists()


def test_a_large_file_that_the_script_changes_is_copied_first(server: object, tmp_path: Path) -> None:
    from accelify.verify.experiment import Request
    from accelify.verify.prove import prove

    log = tmp_path / "log.bin"
    log.write_bytes(b"x" * (2**20 + 1))
    (tmp_path / "train.py").write_text(CLASSIFIER + "open('log.bin', 'ab').write(b'more')\n")
    verdict = prove(Request(tmp_path / "train.py", limits=LIMITS, folder=tmp_path), lambda words: None, server)  # type: ignore[arg-type]
    assert verdict.error is None
    assert log.read_bytes() == b"x" * (2**20 + 1)
    assert row(verdict, "files").words == "2 files, each written by one rank"


RELOADS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = torch.randn(48, 4)
loader = DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
    model.load_state_dict(torch.load("last.pt")["model"])
"""


def test_a_script_that_reads_its_files_computes_in_float64(proving: Prove) -> None:
    verdict = proving(RELOADS)
    assert differing(verdict) == []
    assert "computed in float64" in verdict.made_comparable
