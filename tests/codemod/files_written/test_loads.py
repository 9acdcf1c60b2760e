"""Facts about loads that may read what was saved before, in the same run."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files_written.loads import is_loaded_later, leads_to, may_be_of
from tests.codemod.facts import Facts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import script, training

SAVE = "torch.save(model.state_dict(), 'best.pt')"


def loaded(before: str = "", end: str = "") -> tuple[Facts, ast.Call, ast.expr, ast.Call]:
    facts = training(before=before, end_of_epoch=SAVE, end=end)
    load = facts.call("torch.load(")
    return facts, load, load.args[0], facts.call("torch.save(")


@pytest.mark.parametrize(
    ("before", "end", "may"),
    [
        ("", "torch.load('best.pt')\n", True),
        ("", "torch.load('other.pt')\n", False),
        ("torch.load('best.pt')\n", "", False),  # which is over before anything is saved
        ("", "p = 'best.pt'\ntorch.load(p)\n", True),
    ],
)
def test_whether_a_load_may_read_it(before: str, end: str, may: bool) -> None:
    facts, load, path, save = loaded(before, end)
    assert may_be_of(facts.script.written.stored, load, path, save) is may
    assert is_loaded_later(facts.script.written.stored, load, path, save) is may


def test_calls_that_lead_to_others() -> None:
    facts = training(before=f"def f():\n    g()\ndef g():\n    {SAVE}\ndef h(): pass\n", end="f()\nh()\n")
    save = facts.call("torch.save(")
    assert leads_to(facts.script.written.stored, facts.call("f()"), save)
    assert not leads_to(facts.script.written.stored, facts.call("h()"), save)


@pytest.mark.parametrize(
    ("saved", "loaded", "waits"),
    [
        ("f'model_{epoch + 1}.pt'", "'model_2.pt'", True),
        ("'out/%s/%d.pt' % (name, epoch)", "'out/a/1.pt'", True),
        ("f'model_{epoch}.pt'", "'start_2.pt'", False),
        ("f'model_{epoch}.pt'", "f'{stem}_last.pt'", True),
        ("name_of('best')", "name_of('best')", True),  # unknown: it may be the same
        ("'best.pt'", "name_of('best')", True),
        ("'best.pt'", "'start.pt'", False),
    ],
)
def test_a_load_waits_for_what_may_be_its_file(saved: str, loaded: str, waits: bool) -> None:
    after = run(
        script(
            imports="from names import name, name_of, stem",
            before="rows = torch.ones(8, 2, 1)",
            end_of_epoch=f"torch.save(model.state_dict(), {saved})",
            end=f"model.load_state_dict(torch.load({loaded}))",
        )
    ).after.decode()
    assert ("accelerator.wait_for_everyone()\nmodel.load_state_dict" in after) is waits


@pytest.mark.parametrize("listing", ["sorted(glob.glob('*.pt'))[-1]", "max(os.listdir('.'))"])
def test_a_load_of_the_last_file_waits_once_before_the_listing(listing: str) -> None:
    after = run(
        script(
            imports="import glob, os",
            before="rows = torch.ones(8, 2, 1)",
            end_of_epoch="torch.save(model.state_dict(), f'{epoch}.pt')",
            end=f"last = {listing}\nmodel.load_state_dict(torch.load(last))",
        )
    ).after.decode()
    assert after.count("wait_for_everyone") == 1
    assert "accelerator.wait_for_everyone()\nlast = " in after


@pytest.mark.parametrize(
    ("drawn", "saved", "waits"),
    [
        ("np.random.choice(paths)", "os.path.join('logs', 'net' + str(epoch) + '.pt')", 0),
        ("random.choice(paths)", "f'cache/net_{epoch}.pt'", 0),
        ("random.sample(paths, 1)[0]", "'cache/net.pt'", 0),
        ("paths[epoch]", "'net.pt'", 0),
        ("random.choice(paths)", "f'cache/{epoch}.data'", 1),  # which may be drawn in a later round
        ("random.choice(glob.glob('cache/*'))", "f'cache/net_{epoch}.pt'", 1),
        ("paths[epoch]", "name_of(epoch)", 1),
    ],
)
def test_a_load_of_a_file_that_is_drawn_waits_for_what_may_be_among_them(drawn: str, saved: str, waits: int) -> None:
    after = run(
        script(
            imports="import glob, os, random\nimport numpy as np\nfrom names import name_of",
            before="rows = torch.ones(8, 2, 1)\npaths = glob.glob(os.path.join('cache', '*.data'))",
            epoch=f"extra = torch.load({drawn})",
            end_of_epoch=f"torch.save(model.state_dict(), {saved})",
        )
    ).after.decode()
    assert after.count("wait_for_everyone()") == waits, after


SHOWN = """\
def shown(folder):
    {first}
    for name in os.listdir(folder):
        print(torch.load(os.path.join(folder, name))["loss"])
"""


@pytest.mark.parametrize(
    ("first", "end", "waits"),
    [
        ("found = []", "shown('logs')", 1),
        ("found = []", "print('done')\nif len(rows) > 2:\n    shown('logs')", 1),
        ("found = []", "def ended():\n    shown('logs')\nended()", 1),
        ("torch.save(model.state_dict(), folder + '/net.pt')", "shown('logs')", 2),  # written after the first wait
    ],
)
def test_a_function_waits_for_no_file_that_its_caller_has_waited_for(first: str, end: str, waits: int) -> None:
    after = run(
        script(
            imports="import os",
            before=SHOWN.format(first=first),
            end_of_epoch="torch.save({'loss': loss.item()}, f'logs/{epoch}.pt')",
            end=end,
        )
    ).after.decode()
    assert after.count("wait_for_everyone()") == waits, after
