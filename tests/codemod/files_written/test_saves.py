"""Facts about what saves each checkpoint, and what is written with it."""

from __future__ import annotations

from accelify.codemod.files_written.saves import Save, save_of
from tests.codemod.facts import Facts, texts

COPIED = "torch.save(a, p)\nshutil.copyfile(p, q)\nshutil.copyfile(r, q)\n"


def saved(text: str, saver: str | None) -> Save:
    facts = Facts(f"import shutil, torch\n{text}")
    return save_of(facts.program, facts.call("torch.save("), saver, "accelify.runtime")


def test_where_the_library_saves_what_copies_the_file_is_there_too() -> None:
    assert texts(saved(COPIED, "accelify.runtime").copies) == ["shutil.copyfile(p, q)"]
    assert saved(COPIED, "accelerator").copies == ()
    assert saved(COPIED, None).saver is None


def test_a_file_that_is_opened_for_it_alone() -> None:
    opened = "with open(p, 'wb') as f:\n    torch.save(a, f)\n"
    assert saved(opened, "accelify.runtime").opened is not None
    assert saved(f"{opened}    f.write(b)\n", "accelify.runtime").opened is None
    assert saved("torch.save(a, p)\n", "accelify.runtime").opened is None
