"""Facts about statements that one process alone may run: those that write, with what only they need."""

from __future__ import annotations

import pytest

from accelify.codemod.files_written.guarding import Guarding
from tests.codemod.facts import texts
from tests.codemod.training_scripts import training

IMPORTS = "import json\nfrom torch.utils.tensorboard import SummaryWriter\n"


def guarding(end: str, **slots: str) -> Guarding:
    found = training(imports=IMPORTS, end=end, **slots).script.written.guarding
    assert isinstance(found, Guarding)
    return found


def runs(end: str, **slots: str) -> list[list[str]]:
    return [texts(run) for run in guarding(end, **slots).runs]


def test_what_writes_with_what_only_it_needs() -> None:
    assert runs("text = json.dumps(a)\nwith open(p, 'w') as f:\n    f.write(text)\nuse()\n") == [
        ["text = json.dumps(a)", "with open(p, 'w') as f:\n    f.write(text)"]
    ]


def test_what_others_read_is_not_for_one_process() -> None:
    assert runs("text = json.dumps(a)\nwith open(p, 'w') as f:\n    f.write(text)\nuse(text)\n") == [
        ["with open(p, 'w') as f:\n    f.write(text)"]
    ]


@pytest.mark.parametrize("end", ["print(1)\n", "use()\n", "x = 1\n", "json.dump(model(x), unknown())\n"])
def test_what_writes_nothing_or_is_not_known(end: str) -> None:
    assert runs(end) == []


def test_what_every_process_writes() -> None:
    found = guarding("value = write(open(p, 'w'))\nuse(value)\n")
    assert texts(found.unguarded) == ["open(p, 'w')"]
    assert guarding("use()\n").unguarded == []
