"""Facts about how the training code is run."""

from __future__ import annotations

from accelify.codemod.training.facts import Run
from tests.codemod.facts import Facts
from tests.codemod.training_scripts import STEP, script, training


def run(facts: Facts) -> Run:
    return facts.script.run


def test_what_leads_to_training() -> None:
    text = (
        script().replace("for epoch in range(2):", "def train():\n  for epoch in range(2):")
        + "train()\ndef test(): pass\ntest()\n"
    )
    text = text.replace("def train():\n  for", "for")
    facts = Facts("def other(): pass\n" + text)
    assert {s.qualified_name for s in run(facts).leading} == {"main.py"}
    assert {s.qualified_name for s in run(facts).run} >= {"main.py", "other"}


def test_data_sets_that_draw() -> None:
    rows = "class Rows:\n    def __getitem__(self, i):\n        return {0}\nrows = Rows()\n"
    assert run(training(before=rows.format("torch.randn(4)"))).draws_in_its_data
    assert not run(training(before=rows.format("self.x[i]"))).draws_in_its_data


def test_who_is_waited_for() -> None:
    assert not run(training()).waits
    text = "import torch\ndef train(loader, model, optimizer):\n    for x, y in loader:\n        " + STEP.replace(
        "\n", "\n        "
    )
    facts = Facts(text.replace("nn.", "torch.nn.") + "\n")
    assert run(facts).waits


def test_trials_and_random_data() -> None:
    step = "x = y = torch.randn(2, 4)\n" + STEP
    lines = script(step=step).replace("for x, y in loader:", "for _ in range(3):")
    assert run(Facts(lines)).ends_apart
    assert not run(Facts(lines)).is_trial
    head, _, tail = lines.partition("model = nn.Linear")
    guarded = head + 'if __name__ == "__main__":\n    ' + ("model = nn.Linear" + tail).replace("\n", "\n    ") + "\n"
    assert run(Facts(guarded)).is_trial
    assert not run(training()).ends_apart
