"""What a script does besides training is done once: folders, files, logs, downloads."""

from __future__ import annotations

import pytest

from tests.codemod.pairs import changed, run, script

# Folders.


@pytest.mark.parametrize(
    ("made", "by_all"),
    [
        ("os.mkdir('out')", "os.makedirs('out', exist_ok=True)"),
        ("os.makedirs('out', 0o755)", "os.makedirs('out', 0o755, exist_ok=True)"),
        ("os.makedirs('out', exist_ok=False)", "os.makedirs('out', exist_ok=True)"),
        ("Path('out').mkdir()", "Path('out').mkdir(exist_ok=True)"),
        ("Path('out').mkdir(parents=True)", "Path('out').mkdir(parents=True, exist_ok=True)"),
    ],
)
def test_a_folder_may_be_there_already(made: str, by_all: str) -> None:
    changed("-" + made, "+" + by_all, imports="import os\nfrom pathlib import Path", before=made)


@pytest.mark.parametrize(
    "made",
    [
        "os.makedirs('out', exist_ok=True)",
        "os.makedirs('out', 0o755, True)",
        "os.makedirs(*where)",
        "Path('out').mkdir(exist_ok=True)",
        "try:\n    os.mkdir('out')\nexcept OSError:\n    pass",
        "client.mkdir('out')",
    ],
)
def test_a_folder_that_may_be_there_anyway_is_left_alone(made: str) -> None:
    changed(imports="import os\nfrom pathlib import Path\nfrom remote import client, where", before=made)


def test_a_folder_named_for_the_time_is_told() -> None:
    made = "name = time.strftime('%H%M')\nwhere = os.path.join('out', name)\nif not os.path.exists(where):\n"
    text = made + "    os.makedirs(where)"
    result = changed(
        "-os.makedirs(where)", "+os.makedirs(where, exist_ok=True)", imports="import os\nimport time", before=text
    )
    assert any(n.rule == "folders" and "clocks differ" in n.message for n in result.notes)


def test_a_script_that_stops_where_its_folder_is_told() -> None:
    made = "if os.path.exists('out'):\n    raise SystemExit('there')\nos.makedirs('out')"
    result = changed("-os.makedirs('out')", "+os.makedirs('out', exist_ok=True)", imports="import os", before=made)
    assert any(n.rule == "folders" and "stops here" in n.message for n in result.notes)


def test_a_choice_that_cannot_go_keeps_its_folder() -> None:
    text = script(
        imports="import os, ask\n\n\ndef make():\n    may = ask.whether()\n    os.makedirs('out', exist_ok=may)\n",
        before="make()",
    )
    result = run(text)
    assert "exist_ok=may" in result.after.decode()
    assert any(n.rule == "folders" and "comes second" in n.message for n in result.notes)
