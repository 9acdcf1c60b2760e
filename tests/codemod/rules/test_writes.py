"""What one process writes, it alone renames, copies, removes and looks at; a file is opened and written by the same."""

from __future__ import annotations

import pytest

from accelify.codemod.result import Status
from tests.codemod.pairs import run, script

IMPORTS = "import csv, io, os, shutil\nfrom pathlib import Path\nimport matplotlib.pyplot as plt\nimport numpy as np"
SAVED = "path = 'last.pt'\ntorch.save(model.state_dict(), path)\n"
GUARD = "if accelerator.is_main_process:"


def end(text: str) -> str:
    """What the end of a script comes out as."""
    result = run(script(imports=IMPORTS, end=text))
    assert result.status is Status.MIGRATED
    return result.after.decode().partition("print(device, use_cuda)\n")[2].strip()


def guarded(*lines: str) -> str:
    return "\n".join([GUARD, *(f"    {line}" for line in lines)])


@pytest.mark.parametrize(
    "line",
    [
        "os.replace(path, 'best.pt')",
        "os.rename(path, 'best.pt')",
        "Path(path).rename('best.pt')",
        "shutil.copy(path, 'best.pt')",
        "shutil.move(path, 'best.pt')",
        "os.remove(path)",
        "Path(path).unlink()",
        "print(os.path.getsize(path))",
        "print(os.stat(path).st_size)",
        "print(Path(path).stat().st_size)",
    ],
)
def test_what_was_saved_is_handled_by_the_process_that_saved_it(line: str) -> None:
    saved = SAVED.replace("torch.save", "accelerator.save").strip()
    assert end(SAVED + line) == f"{saved}\n{guarded(line)}"


@pytest.mark.parametrize(
    "lines",
    [
        ("size = os.path.getsize(path) / 1e6", "print(f'{size:.1f} MB')"),
        ("size = Path(path).stat().st_size", "print(size)"),
    ],
)
def test_what_is_printed_of_it_goes_with_it(lines: tuple[str, str]) -> None:
    assert end(SAVED + "\n".join(lines)).endswith(guarded(*lines))


def test_what_others_need_of_it_is_waited_for() -> None:
    after = end(SAVED + "if os.path.getsize(path) > 10:\n    optimizer.param_groups[0]['lr'] *= 2")
    assert "accelerator.wait_for_everyone()\nif os.path.getsize(path) > 10:" in after


def test_a_question_before_it_is_written_is_everybodys() -> None:
    text = "print(os.path.exists('last.pt'))\nnp.save('last.pt', np.zeros(3))"
    assert end(text) == "print(os.path.exists('last.pt'))\n" + guarded("np.save('last.pt', np.zeros(3))")


@pytest.mark.parametrize(
    "text",
    [
        "f = open('rows.csv', 'w')\nw = csv.writer(f)\nw.writerow(['a'])\nf.close()",
        "with open('rows.csv', 'w') as f:\n    w = csv.DictWriter(f, ['a'])\n    w.writeheader()",
        "f = Path('rows.csv').open('w')\nprint('a', file=f)\nf.close()",
    ],
)
def test_a_file_is_opened_by_the_process_that_writes_it(text: str) -> None:
    assert end(text) == guarded(*text.split("\n"))


@pytest.mark.parametrize(
    "text",
    [
        # what is written depends on a forward, which all processes run
        "f = open('log.txt', 'a')\nfor x, y in loader:\n    f.write(str(model(x)))\nf.close()",
        "f = open('log.txt', 'w')\nw = csv.writer(f)\nw.writerow(['a'])\nfor x, y in loader:\n"
        "    w.writerow([model(x)])\nf.close()",
        "class Log:\n    def __init__(self, path):\n        self.file = open(path, 'w')\n"
        "        self.writer = csv.writer(self.file)\n    def add(self, row):\n        self.writer.writerow(row)\n"
        "    def close(self):\n        self.file.close()\nlog = Log('a.csv')\nlog.add([1])\nlog.close()",
    ],
)
def test_a_file_that_all_open_is_written_and_closed_by_all(text: str) -> None:
    result = run(script(imports=IMPORTS, end=text))
    assert GUARD not in result.after.decode()
    assert any("every process writes this" in note.message for note in result.notes)


@pytest.mark.parametrize(
    "text",
    [
        "b = io.BytesIO()\nplt.savefig(b)\nb.seek(0)\nprint(len(b.getvalue()))",
        "b = io.BytesIO()\nnp.save(b, np.zeros(3))\nprint(b.getvalue())",
    ],
)
def test_what_is_written_to_memory_is_read_by_all(text: str) -> None:
    assert end(text) == text
