"""What comments leave out of a migration: what it can do without goes, what it needs declines the file."""

from __future__ import annotations

import pytest

from accelify.codemod.options import Options, Selection
from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import rewrite_source
from accelify.codemod.rules import optional_rules, pages
from tests.cli.running import PLAIN, WRITES

TENSORBOARD = WRITES.replace("import torch\n", "import torch\nfrom torch.utils.tensorboard import SummaryWriter\n", 1)
TENSORBOARD = TENSORBOARD.replace("for epoch", "writer = SummaryWriter()\nfor epoch")
TENSORBOARD += '    writer.add_scalar("loss", loss.item(), epoch)\n'


def run(text: str, *marks: tuple[str, str], options: Options | None = None) -> FileResult:
    """Rewrite a script with comments at the ends of lines that contain something."""
    for at, comment in marks:
        assert at in text
        text = "".join(
            line.replace("\n", f"  # accelify: {comment}\n") if at in line else line for line in text.splitlines(True)
        )
    return rewrite_source("train.py", text.encode(), options or Options())


def after(result: FileResult) -> str:
    assert result.status is Status.MIGRATED, result.notes
    return result.after.decode()


def reasons(result: FileResult) -> list[str]:
    assert result.status is Status.DECLINED
    assert result.after == result.before
    return [f"{note.line}: {note.rule}: {note.message}" for note in result.notes]


def test_a_guard_that_is_ignored_is_left_out() -> None:
    assert "if accelerator.is_main_process:\n        with open" in after(run(WRITES))
    for comment in ("ignore[writes]", "ignore"):
        text = after(run(WRITES, ("with open", comment)))
        assert "is_main_process" not in text
        assert f"with open('log.txt', 'a') as log:  # accelify: {comment}\n" in text


def test_what_depends_on_a_guard_that_is_left_out_is_not_guarded_either() -> None:
    text = after(run(TENSORBOARD))
    assert "is_main_process:\n    writer = SummaryWriter()" in text
    text = after(run(TENSORBOARD, ("add_scalar", "ignore[writes]")))
    assert "\nwriter = SummaryWriter()\n" in text
    assert "is_main_process:\n        with open" in text  # which has nothing to do with it


@pytest.mark.parametrize("at", ["loss.backward()", "loader = DataLoader"])
def test_a_change_that_is_needed_declines_the_file_with_that_line(at: str) -> None:
    line = next(number for number, text in enumerate(PLAIN.splitlines(), start=1) if at in text)
    said = reasons(run(PLAIN, (at, "ignore")))
    assert len(said) == 1
    assert said[0].startswith(f"{line}: ")
    assert "`# accelify: ignore` leaves out a change that the migration needs: " in said[0]


def test_a_move_that_is_ignored_stays_where_the_device_is_the_accelerators() -> None:
    text = after(run(PLAIN, ("x, y = x.to", "ignore[device_moves]")))
    assert "device = accelerator.device\n" in text
    assert "        x, y = x.to(device), y.to(device)  # accelify: ignore[device_moves]\n" in text


def test_a_device_that_the_accelerator_must_choose_is_needed() -> None:
    text = PLAIN.replace("zero_grad()", "zero_grad()\n        x = x + torch.zeros(1, device=device)")
    assert "device = accelerator.device" in after(run(text))
    assert "`# accelify: ignore[devices]` leaves out" in reasons(run(text, ("device = torch", "ignore[devices]")))[0]


def test_an_import_or_a_value_that_is_ignored_stays() -> None:
    text = after(run(PLAIN, ("device = torch", "ignore[unused]")))
    assert 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # accelify' in text
    head, body = PLAIN.split("\n\n", 1)
    indented = body.replace("\n", "\n    ").rstrip()
    text = f"{head}\n\n\ndef main():\n    {indented}\n\n\nmain()\n"
    assert "    device = torch" in after(run(text, ("device = torch", "ignore[unused]")))


def test_skip_on_a_function_leaves_all_of_it_alone() -> None:
    body = "    with open('plot.txt', 'w') as file:\n        file.write(str(epoch))\n"
    plot = f"\n\ndef plot(epoch):\n{body}\n\nplot(1)\n"
    assert run(PLAIN + plot).after.count(b"is_main_process") == 1
    result = run(PLAIN + plot, ("def plot", "skip"), ("plot(1)", "ignore[writes]"))
    assert "is_main_process" not in after(result)
    assert not [note for note in result.notes if note.rule == "suppressions"]
    indented = PLAIN.split("\n\n", 1)[1].replace("\n", "\n    ").rstrip()
    text = f"{PLAIN.split(chr(10) * 2)[0]}\n\n\ndef main():\n    {indented}\n\n\nmain()\n"
    assert any("`# accelify: skip` (line 6) leaves out" in each for each in reasons(run(text, ("def main", "skip"))))


def test_a_note_can_always_be_ignored() -> None:
    assert [note.rule for note in run(PLAIN).notes] == ["batch_size"]
    assert run(PLAIN, ("loader = DataLoader", "ignore[batch_size]")).notes == ()
    assert run(PLAIN, options=Options(selection=Selection(ignore=frozenset({"batch_size"})))).notes == ()


def test_a_comment_that_leaves_nothing_out_is_said() -> None:
    marks = ("criterion =", "ignore[writes]"), ("import nn", "ignor[x]"), ("zero_grad", "ignore[backwards]")
    result = run(PLAIN, *marks)
    said = {note.line: note.message for note in result.notes if note.rule == "suppressions"}
    lines = after(result).splitlines()
    for at, comment in marks:
        assert any(at in lines[line - 1] and comment in message for line, message in said.items())
    assert any(message.endswith("suppresses nothing here: remove it") for message in said.values())
    assert any("there is no rule 'backwards'; did you mean 'backward'?" in message for message in said.values())
    assert any("is none of `ignore[rule]`, `skip` and `skip-file`" in message for message in said.values())
    assert run(PLAIN, ("criterion =", "ignore[writes, suppressions]")).notes[1:] == ()


def test_a_comment_on_all_rules_that_leaves_nothing_out_is_said() -> None:
    helper = "\n\ndef twice(x):\n    return 2 * x\n\n\nclass Empty:\n    pass\n"
    result = run(PLAIN + helper, ("criterion =", "ignore"), ("def twice", "skip"), ("class Empty", "skip"))
    said = [note.message for note in result.notes if note.rule == "suppressions"]
    assert [message.split(":")[1].split("`")[0].strip() for message in said] == ["ignore", "skip"]
    assert "suppresses nothing here: remove it; also line " in said[1]
    ignoring = Options(selection=Selection(ignore=frozenset({"batch_size", "suppressions"})))
    assert run(PLAIN, ("criterion =", "ignore"), options=ignoring).notes == ()


def test_a_file_that_is_skipped_says_so() -> None:
    result = run(PLAIN, ("import nn", "skip-file"))
    assert (result.status, result.after) == (Status.UNCHANGED, result.before)
    assert result.because == "left alone because of `# accelify: skip-file` in line 2"


def test_every_page_says_what_ignoring_does() -> None:
    assert {"writes", "unused", "folders"} <= optional_rules()
    assert not {"backward", "prepare", "device_moves", "metrics", "data"} & optional_rules()
    assert pages()["writes"].endswith("If ignored: its changes and notes are left out.")
    assert "is declined" in pages()["backward"].splitlines()[-1]
    assert run(PLAIN, ("criterion =", "ignore[missing_set_epoch]")).notes[1:] == ()  # `accelify check` reads this one


EVALUATED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def evaluate(model, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()
    return right


loader = DataLoader(data, batch_size=8)
test = DataLoader(held_out, batch_size=8)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(evaluate(model, test))
"""


@pytest.mark.parametrize(
    ("mark", "options"),
    [
        (("def evaluate", "skip"), Options()),
        (("    for x, y in loader", "ignore[metrics]"), Options()),
        (("", ""), Options(selection=Selection(ignore=frozenset({"metrics"})))),
    ],
)
def test_an_evaluation_that_is_left_out_stays_whole(mark: tuple[str, str], options: Options) -> None:
    assert "in accelerator.shard(" in after(run(EVALUATED))
    result = run(EVALUATED, *([mark] if mark[0] else []), options=options)
    assert "accelerator.backward(loss)" in after(result)
    assert ".shard(" not in after(result)
    assert ".reduce(" not in after(result)
    assert not [note for note in result.notes if note.rule == "suppressions"]
