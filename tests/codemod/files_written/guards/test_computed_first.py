"""Facts about what all processes compute before one of them writes it, and what becomes of it."""

from __future__ import annotations

import pytest

from accelify.codemod.files_written.guards.computed_first import ComputedFirst
from tests.codemod.facts import texts
from tests.codemod.pairs import run, script
from tests.codemod.training_scripts import training

IMPORTS = """import collections, json, os, pathlib
from torch.utils.tensorboard import SummaryWriter
from torchvision.utils import save_image"""


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("save_image(model(x), 'a.png')", ["model(x)"]),
        ("save_image((model(x) + 1).cpu()[:2], 'a.png')", ["model(x)"]),
        ("open('a', 'a').write(f'{model(x).sum()} {run(x)}')", ["model(x)", "run(x)"]),
        ("open('a', 'a').write(str(count) + str(run(x)))", []),
        ("json.dump(model(x), unknown())", []),
        ("os.remove(saved.pop(0))", ["saved.pop(0)"]),
        ("recent.popleft().unlink()", ["recent.popleft()"]),
        ("os.remove(os.path.join('runs', saved.pop()))", ["saved.pop()"]),
        ("open('a', 'a').write(saved[0] + saved.pop(0))", []),
        ("os.remove(taken(saved))", []),
        ("open('a', 'a').write(next(iter(loader)))", []),
        ("open('a', 'a').write(str(1) if x is None else model(x))", []),
        ("json.dump([model(r) for r in x], open('a', 'w'))", []),
        ("save_image(x, 'a.png')", []),
        ("print(model(x))", []),
    ],
)
def test_what_is_computed_first(line: str, first: list[str]) -> None:
    function = "count = 0\n\n\ndef run(x):\n    global count\n    count += 1\n    return model(x)\n"
    kept = "saved, recent = ['a'], collections.deque([pathlib.Path('b')])\ndef taken(names):\n    return names.pop()\n"
    facts = training(imports=IMPORTS, before=function + kept, end=f"x = torch.ones(2, 4)\n{line}\n")
    found = ComputedFirst(facts.script.written.guarding.alone)
    assert texts(found.calls(facts.program.files[0].tree.body[-1])) == first


def test_all_compute_and_one_writes() -> None:
    end = "x = torch.ones(2, 4)\nif use_cuda:\n    save_image(model(x.to(device)), 'a.png')"
    after = run(script(imports=IMPORTS, end=end)).after.decode()
    guard = "    if accelerator.is_main_process:\n        save_image(images, 'a.png')\n"
    assert f"    images = model(x.to(device))\n{guard}" in after


def test_a_file_that_one_removes_leaves_the_lists_of_all() -> None:
    end = "saved = ['a', 'b']\nwhile len(saved) > 1:\n    os.remove(saved.pop(0))\nprint(saved)"
    after = run(script(imports=IMPORTS, end=end)).after.decode()
    guard = "    if accelerator.is_main_process:\n        os.remove(removed)\n"
    assert f"while len(saved) > 1:\n    removed = saved.pop(0)\n{guard}print(saved)" in after


def test_names_say_what_is_computed() -> None:
    end = "output = 1\nwriter = SummaryWriter()\nwriter.add_scalars('a', {'mean': model(x).mean(), '2': model(x)})"
    after = run(script(imports=IMPORTS, end=f"x = torch.ones(2, 4)\n{end}\nprint(output)")).after.decode()
    assert "output_2 = model(x)\n" in after
    assert "{'mean': output_2.mean(), '2': output_3})" in after
