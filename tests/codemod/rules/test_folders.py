"""Folders that each process would name otherwise."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import run
from tests.codemod.training_scripts import script

IMPORTS = "import os, tempfile, shutil\nfrom pathlib import Path"


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("n = len(os.listdir('runs'))", "n = accelerator.broadcast_object_list([len(os.listdir('runs'))])[0]"),
        (
            "n = sum(1 for _ in Path('runs').iterdir()) + 1",
            "n = accelerator.broadcast_object_list([sum(1 for _ in Path('runs').iterdir())])[0] + 1",
        ),
    ],
)
def test_processes_agree_on_a_folder_named_for_those_there_are(line: str, after: str) -> None:
    before = f"{line}\nout = os.path.join('runs', f'run{{n}}')\nos.makedirs(out, exist_ok=True)"
    result = run(script(imports=IMPORTS, before=before))
    assert after in result.after.decode()
    assert not any(n.rule == "folders" for n in result.notes)


@pytest.mark.parametrize(
    "code",
    [
        "n = len(os.listdir('data'))\nos.makedirs(f'runs/{n}', exist_ok=True)",  # of another folder
        "for n in os.listdir('runs'):\n    os.makedirs(os.path.join('runs', n, 'a'), exist_ok=True)",
    ],
)
def test_what_names_no_new_folder(code: str) -> None:
    assert "broadcast" not in run(script(imports=IMPORTS, before=code)).after.decode()


def test_temporary_folders_are_reported_once() -> None:
    before = "out = tempfile.mkdtemp()\npath = os.path.join(out, 'best.pt')"
    end = "model.load_state_dict(torch.load(path))\nshutil.rmtree(out)"
    save = "torch.save(model.state_dict(), path)"
    notes = run(script(imports=IMPORTS, before=before, end_of_epoch=save, end=end)).notes
    (message,) = (n.message for n in notes if n.rule == "folders")
    assert "temporary folder" in message
