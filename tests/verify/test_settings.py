"""Settings that differ, buffers that diverge and a loss that is lost are named as such, with line and first step."""

from __future__ import annotations

from accelify.verify.judging import settings, training
from accelify.verify.trace import Backward
from accelify.verify.verdict import Status
from tests.verify import scripts
from tests.verify.conftest import Prove, differing, row
from tests.verify.test_judge import evidence, traced

ORIGINAL = scripts.RANDOM_BY_NATURE
EARLY = "accelerator = Accelerator()\n"
MIGRATED = scripts.RANDOM_BY_NATURE_MIGRATED.replace(EARLY, "").replace(
    "torch.manual_seed(3)\n", f"{EARLY}torch.manual_seed(3)\n"
)


def broken(line: str, instead: str) -> str:
    assert MIGRATED.count(line) == 1
    return MIGRATED.replace(line, instead)


def test_another_dropout_differs_though_dropout_is_off_where_runs_are_compared(proving: Prove) -> None:
    text = broken("nn.Dropout(0.5)", "nn.Dropout(0.5 if accelerator.num_processes == 1 else 0.1)")
    verdict = proving(ORIGINAL, text)
    assert differing(verdict) == [("settings", 2)]
    assert row(verdict, "settings").words == "Sequential.2.p is 0.1 for 0.5 on rank 0, at backward pass 1"


def test_a_rank_in_eval_is_named(proving: Prove) -> None:
    text = broken(
        "    optimizer.zero_grad()\n", "    optimizer.zero_grad()\n    model.train(accelerator.process_index == 0)\n"
    )
    found = row(proving(ORIGINAL, text), "settings")
    assert found.words.startswith("Sequential is in eval() on rank 1, not in train(), at backward pass 1")
    assert (found.at, found.step) == ("train_many.py:30", 1)


def test_buffers_that_diverge_are_named(proving: Prove) -> None:
    norm = "model = nn.Sequential("
    original, text = [
        script.replace(norm, f"norm = nn.BatchNorm1d(6, affine=False)\n{norm}").replace("model(x)", "model(norm(x))")
        for script in (ORIGINAL, MIGRATED)
    ]
    verdict = proving(original, text, launched=True)
    assert differing(verdict) == [("buffers", 2)]
    assert row(verdict, "buffers").words.startswith("the buffer BatchNorm1d.running_mean differs between ranks 0 and 1")


def test_a_loss_that_is_zero_on_one_rank_is_named() -> None:
    ranks = [traced(rank, backwards=[Backward(2.0 * (1 - rank), at="a.py:3")]) for rank in range(2)]
    found = training.losses(evidence(traced(backwards=[Backward(2.0)]), *ranks))
    assert (found.at, found.words) == (
        "a.py:3",
        "backward pass 1: the loss of rank 1 is zero, so that its samples are lost",
    )


def test_what_changes_in_training_is_no_setting() -> None:
    def trained(*changes: tuple[int, dict[str, str]]) -> object:
        return traced(backwards=[Backward(1.0, at="a.py:3")] * 3, settings=list(changes))

    assert (
        settings.settings(
            evidence(
                trained((0, {"optimizer 1: weight_decay": "0"})), trained((0, {"optimizer 1: weight_decay": "0.1"}))
            )  # type: ignore[arg-type]
        ).words
        == "optimizer 1: weight_decay is 0.1 for 0, at backward pass 1"
    )
    original = trained((0, {"A.p": "0.5", "A.count": "1", "A.training": "True"}), (1, {"A.count": "2"}))
    other = trained((0, {"A.p": "0.5", "A.count": "7", "A.training": "True"}))
    assert settings.settings(evidence(original, original, other)).status is Status.HOLDS  # type: ignore[arg-type]
    late = trained((0, {"A.p": "0.5", "A.training": "True"}), (2, {"A.training": "False"}))
    found = settings.settings(evidence(original, original, late))  # type: ignore[arg-type]
    assert (found.words, found.step) == ("A is in eval() on rank 1, not in train(), at backward pass 3", 3)


def test_groups_of_an_optimizer_that_are_lost_are_named(proving: Prove) -> None:
    groups = '[{"params": [p], "weight_decay": 0.1 * (p.dim() > 1)} for p in model.parameters()]'
    original = ORIGINAL.replace("(model.parameters(), lr", f"({groups}, lr")
    assert groups in original
    verdict = proving(original, MIGRATED)
    assert row(verdict, "settings", 1).words.startswith("optimizer 1: len(param_groups) is 1 for ")


def test_a_buffer_that_is_lost_is_named(proving: Prove) -> None:
    loss = "loss_function = nn.CrossEntropyLoss({})\nfor epoch in"
    original, text = (
        script.replace("for epoch in", loss.format(given), 1).replace("nn.functional.cross_entropy(", "loss_function(")
        for script, given in ((scripts.CLASSIFIER, "torch.tensor([1.0, 2.0])"), (scripts.CLASSIFIER_MIGRATED, ""))
    )
    found = row(proving(original, text), "settings", 1)
    assert found.words == "CrossEntropyLoss.weight is None for a tensor, at backward pass 1"
