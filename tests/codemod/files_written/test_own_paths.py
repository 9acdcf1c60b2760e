"""Facts about paths of a rank's own: made of its items of a sharded loop, and not of what a model makes of them."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files_written.own_paths import OwnPaths
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import STEP, training
from tests.codemod.training_scripts import script as written_script

IMPORTS = "import cv2, os\nimport numpy as np\nimport torch.nn.functional as F\n"
KEEP = "def keep(image, path):\n    cv2.imwrite(path, image)\n"


def own(*lines: str, before: str = "") -> list[str]:
    """The calls that write to files of a rank's own, made in a round of the training loop."""
    step = "out = model(x)\n" + STEP + "\n".join(lines)
    script = training(imports=IMPORTS, before=before, step=step).script
    paths = OwnPaths(script.written.guarding.alone, script.metrics.ranks)
    found = [call for call in script.program.calls if paths.is_written(call)]
    assert script.written.guarding.covered.isdisjoint(found)
    assert not any(save.call in found for save in script.written.saves)
    return texts(sorted(found, key=script.program.position))


@pytest.mark.parametrize(
    "path",
    ["f'{y[0]}.png'", "'%s.png' % y[0]", "os.path.join('out', y[0] + '.png')", "'{}.png'.format(y)", "f'{y}_{out}'"],
)
def test_an_item_of_a_shard_names_a_file_of_the_rank(path: str) -> None:
    assert own(f"cv2.imwrite({path}, out)") == [f"cv2.imwrite({path}, out)"]


def test_through_variables_loops_and_functions() -> None:
    for zipped in ("name, image in zip(y, out)", "i, (name, image) in enumerate(zip(y, out))"):
        assert own(f"for {zipped}:", "    cv2.imwrite(name, image)") == ["cv2.imwrite(name, image)"]
    assert own("name = f'{y}.png'", "cv2.imwrite(name, out)") == ["cv2.imwrite(name, out)"]
    assert own("keep(out, f'{y}.png')", before=KEEP) == ["cv2.imwrite(path, image)"]


def test_weights_and_open_files() -> None:
    assert own("torch.save(out, f'{y}.pt')") == ["torch.save(out, f'{y}.pt')"]
    text = ("with open(f'{y}.txt', 'w') as f:", "    f.write(str(out))")
    assert own(*text) == ["open(f'{y}.txt', 'w')", "f.write(str(out))"]


@pytest.mark.parametrize(
    "path", ["'last.png'", "f'{epoch}.png'", "f'{loss:.3f}.png'", "f'{F.mse_loss(out, y)}.png'", "f'{len(y)}.png'"]
)
def test_other_values_name_one_file_for_all(path: str) -> None:
    assert own(f"cv2.imwrite({path}, out)", f"torch.save(out, {path})") == []


def guarding(*lines: str, before: str) -> tuple[list[str], list[str]]:
    """The statements that the main process alone runs, and the calls that write on every process."""
    step = "out = model(x)\n" + STEP + "\n".join(lines)
    found = training(imports=IMPORTS, before=before, step=step).script.written.guarding
    return [ast.unparse(statement) for run in found.runs for statement in run], texts(found.unguarded)


@pytest.mark.parametrize("path", ["'last.png'", "f'{epoch}.png'"])
def test_a_function_that_writes_both_is_guarded_where_all_ranks_name_the_same_file(path: str) -> None:
    assert guarding("keep(out, f'{y}.png')", f"keep(out, {path})", before=KEEP) == ([f"keep(out, {path})"], [])


def test_a_method_with_an_open_file_that_writes_both() -> None:
    notes = "class Notes:\n    def put(self, name):\n        with open(name, 'w') as f:\n            f.write(name)\n"
    calls = "for name in y:\n    notes.put(name)", "notes.put('all.txt')"
    assert guarding(*calls, before=notes + "notes = Notes()\n") == (["notes.put('all.txt')"], [])


def test_what_all_ranks_must_run_is_reported_there() -> None:
    together = "def together(image, path):\n    cv2.imwrite(path, image)\n    torch.manual_seed(0)\n"
    assert guarding("together(out, f'{y}.png')", "together(out, 'a.png')", before=together) == (
        [],
        ["together(out, 'a.png')"],
    )


SHOW = """\
from collections import OrderedDict
def show(images):
    for label, image in images.items():
        keep(image, f"{label}.png")
def named(names, values):
    found = OrderedDict()
    for name in names:
        found[name] = values
    found.setdefault("last", values)
    return found
"""


@pytest.mark.parametrize(
    "images",
    ["{'x': x, 'out': out}", "dict(x=x)", "{n: x for n in ['a', 'b']}", "named(['a', 'b'], x)", "{f'{epoch}': out}"],
)
def test_keys_that_are_alike_name_one_file_for_all(images: str) -> None:
    assert own(f"show({images})", before=KEEP + SHOW) == []
    assert guarding(f"show({images})", before=KEEP + SHOW) == (["cv2.imwrite(path, image)"], [])


@pytest.mark.parametrize("images", ["{n: x for n in y}", "{y[0]: x}", "named(y, x)", "dict(zip(y, x))"])
def test_keys_that_come_from_a_batch_name_files_of_the_rank(images: str) -> None:
    assert own(f"show({images})", before=KEEP + SHOW) == ["cv2.imwrite(path, image)"]


def test_keys_of_a_batch_are_the_same_on_all_ranks() -> None:
    over = "for key, image in batch.items():\n    cv2.imwrite({name} + '.png', image)\n"
    for name, found in ("key", 0), ("batch['name'][0]", 1):
        text = written_script(imports=IMPORTS, step=STEP + over.format(name=name))
        text = text.replace("for x, y in loader:", "for batch in loader:\n        x, y = batch['x'], batch['y']")
        assert len(Facts(text).script.written.guarding.own) == found


@pytest.mark.parametrize(("start", "is_own"), [("f'{y}'", True), ("f'{epoch}'", False), ("str(out)", False)])
def test_a_name_that_is_extended_in_many_places(start: str, is_own: bool) -> None:
    """Each of them may extend what any other has made: the ways from one to the next are not gone one by one."""
    extended = [f"    if len(name) > {i}:\n        name = name + '{i}'" for i in range(11)]
    lines = [f"name = {start}", "for _ in range(epoch):", *extended, "cv2.imwrite(name, out)"]
    assert own("\n".join(lines)) == (["cv2.imwrite(name, out)"] if is_own else [])


@pytest.mark.parametrize(
    ("made", "is_own"),
    [("name + '.png'", True), ("f'{name}_{out}'", True), ("'%s' % scored(name, out)", False)],
)
def test_a_name_that_is_made_of_itself(made: str, is_own: bool) -> None:
    before = "def scored(name, out):\n    return model(out) + len(name)\n"
    lines = ["name = f'{y}'", "for _ in range(epoch):", f"    name = {made}", "    cv2.imwrite(name, out)"]
    assert own("\n".join(lines), before=before) == (["cv2.imwrite(name, out)"] if is_own else [])
