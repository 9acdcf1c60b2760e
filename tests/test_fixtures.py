"""Whole scripts, before and after: the bytes, the report, and that a second run finds nothing to do."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from accelify.codemod.files.diff import unified_diff
from accelify.codemod.result import Status
from tests import scripts
from tests.scripts import FIXTURES, KNOWN_WRONG, MAIN


def known(kind: str) -> list[object]:
    marks = {name: pytest.mark.xfail(strict=True, reason=reason) for name, reason in KNOWN_WRONG.items()}
    return [pytest.param(name, marks=[marks[name]] if name in marks else []) for name in scripts.names(kind)]


@pytest.mark.parametrize("name", known("scripts"))
def test_script_comes_out_as_expected(name: str, tmp_path: Path, update_fixtures: bool) -> None:
    folder = FIXTURES / "scripts" / name
    before = scripts.read(folder, "before")
    results, after = scripts.rewrite(tmp_path, before)
    statuses = {r.status for r in results}
    assert Status.MIGRATED in statuses <= {Status.MIGRATED, Status.UNCHANGED}, scripts.report(results)
    if update_fixtures and name not in KNOWN_WRONG:
        scripts.write_after(folder, after)
        (folder / "report.json").write_text(scripts.report(results))
    expected = scripts.read(folder, "after")
    for path in sorted({*expected, *after}):
        got, want = after.get(path, b""), expected.get(path, b"")
        assert got == want, "\n" + unified_diff(path, want, got).decode()
    assert (folder / "report.json").read_text() == scripts.report(results)


@pytest.mark.parametrize("name", known("declined"))
def test_script_is_declined_whole(name: str, tmp_path: Path, update_fixtures: bool) -> None:
    folder = FIXTURES / "declined" / name
    before = scripts.read(folder, "before")
    results, after = scripts.rewrite(tmp_path, before)
    assert after == before
    assert {r.status for r in results} == {Status.DECLINED}
    assert all(r.notes for r in results)
    if update_fixtures and name not in KNOWN_WRONG:
        (folder / "report.json").write_text(scripts.report(results))
    assert (folder / "report.json").read_text() == scripts.report(results)


@pytest.mark.parametrize("name", scripts.names("scripts"))
def test_second_run_changes_nothing(name: str, tmp_path: Path) -> None:
    """The files are those that the test above expects of the first run."""
    before, changed = (scripts.read(FIXTURES / "scripts" / name, which) for which in ("before", "after"))
    after = before | changed
    results, again = scripts.rewrite(tmp_path, after)
    assert again == after
    assert {r.status for r in results} == {Status.UNCHANGED}


PRINTED = """\
+ from accelify.runtime import Accelerator
  from transformers import AdamW, AutoModelForSequenceClassification, get_scheduler

+ accelerator = Accelerator()

  model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=2)
  optimizer = AdamW(model.parameters(), lr=3e-5)

- device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
- model.to(device)

+ train_dataloader, eval_dataloader, model, optimizer = accelerator.prepare(
+     train_dataloader, eval_dataloader, model, optimizer
+ )

  num_epochs = 3
  num_training_steps = num_epochs * len(train_dataloader)
  lr_scheduler = get_scheduler(
      "linear",
      optimizer=optimizer,
      num_warmup_steps=0,
      num_training_steps=num_training_steps
  )

  progress_bar = tqdm(range(num_training_steps))

  model.train()
  for epoch in range(num_epochs):
      for batch in train_dataloader:
-         batch = {k: v.to(device) for k, v in batch.items()}
          outputs = model(**batch)
          loss = outputs.loss
-         loss.backward()
+         accelerator.backward(loss)

          optimizer.step()
          lr_scheduler.step()
          optimizer.zero_grad()
          progress_bar.update(1)
"""


def test_the_tutorial_has_the_printed_diff(tmp_path: Path) -> None:
    """The diff as it is told everywhere shows blank lines without a sign, and nothing of the lines above it."""
    before = scripts.read(FIXTURES / "scripts" / "tutorial", "before")
    _, after = scripts.rewrite(tmp_path, before)
    old, new = (files[MAIN].decode() for files in (before, after))
    printed = PRINTED.splitlines()
    told_before = _squeezed([line[2:] for line in printed if not line.startswith("+")])
    told_after = _squeezed([line[2:] for line in printed if not line.startswith("-")])
    head_before, head_after = old.splitlines()[: -len(told_before)], new.splitlines()[: -len(told_after)]
    assert old.splitlines()[len(head_before) :] == told_before
    assert new.splitlines()[len(head_after) :] == told_after
    assert [line for line in difflib.ndiff(head_before, head_after) if line[0] != " "] == ["- import torch"]


def _squeezed(lines: list[str]) -> list[str]:
    """Blank lines that follow each other because the signed lines between them are gone, as one."""
    return [line for index, line in enumerate(lines) if line or index == 0 or lines[index - 1]]


def test_each_variant_of_the_tutorial_makes_its_changes(tmp_path: Path) -> None:
    """However it is dressed, the tutorial's six edits are made, and `device` stays only where something reads it."""
    for name in (n for n in scripts.names("scripts") if n.startswith("tutorial")):
        results, after = scripts.rewrite(tmp_path / name, scripts.read(FIXTURES / "scripts" / name, "before"))
        text = after[MAIN].decode()
        assert text.count("from accelify.runtime import Accelerator\n") == 1, name
        assert text.count("accelerator = Accelerator()\n") == 1, name
        assert text.count("accelerator.prepare(") == 1, name
        assert text.count("accelerator.backward(") == 1, name
        assert ".to(" not in text, name
        assert ("accelerator.device" in text) == (name == "tutorial_device_elsewhere"), name
        assert {r.status for r in results} == {Status.MIGRATED}, name
