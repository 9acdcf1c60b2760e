"""Facts about statements that make or fetch a file only where it is missing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from accelify.codemod.files_written.caches import Caches
from accelify.codemod.files_written.existence_checks import ExistenceChecks
from accelify.codemod.files_written.going_first import GoingFirst
from accelify.codemod.rewrite import Options, rewrite_together
from tests import scripts
from tests.codemod.facts import Facts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import training

IMPORTS = "import json, nltk, os, subprocess, urllib.request\nfrom pathlib import Path\nimport numpy as np\n"
LOAD, SAVE = "data = json.load(open('c.json'))", "data = make()\n    json.dump(data, open('c.json', 'w'))"


def cached(end: str) -> list[str]:
    """The first lines of the statements that one process runs first."""
    guarding = training(before=f"{IMPORTS}def make(): return 1\n", end=f"{end}\n").script.written.guarding
    going = GoingFirst(guarding.alone, ExistenceChecks(guarding.alone.effects, guarding.stored))
    return [ast.unparse(choice).partition("\n")[0] for choice in Caches(going, guarding.stored).find()]


@pytest.mark.parametrize(
    "end",
    [
        f"if os.path.exists('c.json'):\n    {LOAD}\nelse:\n    {SAVE}",
        f"if not os.path.isfile('c.json'):\n    {SAVE}\nelse:\n    {LOAD}",
        f"if not Path('c.json').exists():\n    {SAVE}\nelse:\n    {LOAD}",
        "if not os.path.exists('d'):\n    subprocess.run(['wget', 'http://x'])",
        "if not os.path.exists('d'):\n    os.system('wget http://x')",
        "if not os.path.exists('d.zip'):\n    path, _ = urllib.request.urlretrieve('http://x', 'd.zip')",
    ],
)
def test_what_is_made_where_it_is_missing(end: str) -> None:
    assert cached(end) == [end.partition("\n")[0]]


@pytest.mark.parametrize(
    "end",
    [
        f"if fresh:\n    {SAVE}\nelse:\n    {LOAD}",  # all processes decide alike
        "if os.path.exists('m.pt'):\n    model.load_state_dict(torch.load('m.pt'))\nelse:\n    os.system('x')",
        "if not os.path.exists('c.json'):\n    json.dump(1, open('c.json', 'w'))",  # is guarded as a whole
        "if os.path.exists('d'):\n    os.system('rm -rf d')\nelse:\n    os.mkdir('d')",  # the others would delete it
        "if not os.path.exists('d'):\n    out = model(torch.zeros(1))\n    os.system('x')",
        "for k in range(3):\n    if not os.path.exists('d'):\n        os.system('x')",
        "if not os.path.exists('d'):\n    os.system('wget http://x')\nelse:\n    raise FileExistsError('d')",
        "if os.path.exists('d'):\n    print('there')\n    exit(1)\nelse:\n    os.system('wget http://x')",
    ],
)
def test_what_is_none(end: str) -> None:
    assert cached(end) == []


HEAD = """\
import os, pickle
import torch
from torch import nn
from torch.utils.data import DataLoader
"""
MAIN = """\
def main():
    data = {call}
    loader = DataLoader(data, batch_size=2)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
main()
"""
KEPT = "def rows(path):\n    if os.path.exists(path):\n        return pickle.load(open(path, 'rb'))\n"
MADE_ONCE = """\
def make(path):
    {asked}
    with open(path, "wb") as f:
        pickle.dump([1], f)
"""


@pytest.mark.parametrize(
    ("asked", "goes_first"),
    [
        ("if os.path.exists(path):\n        return", True),
        ("if os.path.isfile(path):\n        raise FileExistsError(path)", False),
        ("if os.path.exists(path):\n        print('there')\n        exit(1)", False),
    ],
)
def test_what_fails_where_the_file_is_there_is_not_run_by_one_process_after_another(
    asked: str, goes_first: bool
) -> None:
    call = "pickle.load(open('c.pkl', 'rb'))"
    main = MAIN.replace("main():\n", "main():\n    make('c.pkl')\n", 1).format(call=call)
    text = run(f"{HEAD}{MADE_ONCE.format(asked=asked)}{main}").after.decode()
    assert ("    with accelerator.main_process_first():\n        make('c.pkl')\n" in text) is goes_first
    assert ("is_main_process:" in text and "wait_for_everyone()" in text) is not goes_first


LOADED = KEPT.replace("rows", "loaded") + "    return None\n"
LOADED += "def rows(path):\n    kept = loaded(path)\n    if kept is not None:\n        return kept\n"
MADE = "    found = read()\n    pickle.dump(found, open(path, 'wb'))\n    return found\n"


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (KEPT + MADE, "rows('a.pkl')"),
        (KEPT + "    else:\n" + MADE.replace("    ", "        ").replace("return found", "return found"), "rows('a')"),
        (
            "def rows():\n    if os.path.exists('c'): return torch.load('c/x.pt')\n    x = read()\n"
            "    torch.save(x, os.path.join('c', 'x.pt'))\n    return x\n",
            "rows()",
        ),
        (
            "def rows():\n    if not os.path.exists('w.pt'):\n        torch.save(read(), 'w.pt')\n"
            "    return torch.load('w.pt')\n",
            "rows()",
        ),
        (
            KEPT.replace("    if os.path.exists(path)", "    kept = os.path.exists(path)\n    if kept") + MADE,
            "rows('a')",
        ),
        (LOADED + MADE, "rows('a.pkl')"),
        (KEPT + MADE + "def all_of(n):\n    return [rows(f'{i}.pkl') for i in range(n)]\n", "all_of(3)"),
    ],
)
def test_functions_that_keep_what_they_find_in_a_file(function: str, call: str) -> None:
    result = run(HEAD + "from data import read\n" + function + MAIN.format(call=call))
    assert f"    with accelerator.main_process_first():\n        data = {call}\n" in result.after.decode()
    assert b"wait_for_everyone" not in result.after
    assert not any(n.rule == "writes" for n in result.notes)


NAMED = """\
NAME = {name}
class Store:
    def path(self, folder, size):
        return os.path.join(folder, NAME{filled})
    def make(self, folder, size):
        found, kept = read(), self.path(folder, size)
        pickle.dump(found, open(kept, 'wb'))
        return found
    def load(self, folder, size):
        path = self.path(folder, size)
        if not os.path.exists(path):
            found = self.make(folder, size)
        else:
            found = pickle.load(open({read}, 'rb'))
        return found
"""


@pytest.mark.parametrize(
    ("name", "filled", "read", "is_cache"),
    [
        ("'rows_{}.pkl'", ".format(size)", "path", True),
        ("'rows_{n}.pkl'", ".format(n=size)", "path", True),
        ("'rows_%d.pkl'", " % size", "path", True),
        ("'rows_{}.pkl'", ".format(size)", "'source.pkl'", False),  # the file that is made is not read
    ],
)
def test_a_file_whose_name_is_filled_in_elsewhere(name: str, filled: str, read: str, is_cache: bool) -> None:
    store = NAMED.format(name=name, filled=filled, read=read)
    result = run(HEAD + "from data import read\n" + store + MAIN.format(call="Store().load('c', 3)"))
    assert any(c.reason.startswith("one process creates it") for c in result.changes) is is_cache


FOLDED = """\
import numpy as np
def fold(function, values, start):
    return start if not values else fold(function, values[1:], function(start, values[0]))
class Store:
    def __init__(self, folder):
        self.sources = [folder + 's.npy']
        self.kept = [[folder + 'a.npy'], [folder + 'b.npy']]
        found = {found}
        if found:
            self.load(self.kept)
        else:
            self.make({made})
    def make(self, targets):
        self.rows = read()
        for target in targets[0]:
            np.save(target, self.rows)
        np.save(targets[1][0], self.rows)
    def load(self, groups):
        self.rows = [np.load(path) for group in groups for path in group]
"""
EACH = "[os.path.exists(path) for group in self.kept for path in group]"


@pytest.mark.parametrize(
    ("found", "made", "is_cache"),
    [
        (f"fold(lambda x, y: x and y, {EACH}, True)", "self.kept", True),
        (f"all({EACH})", "self.kept", True),
        (f"fold(lambda x, y: x and y, {EACH}, True)", "[self.sources, self.sources]", False),  # makes none of those
    ],
)
def test_files_whose_paths_an_object_holds_in_lists(found: str, made: str, is_cache: bool) -> None:
    store = FOLDED.format(found=found, made=made)
    result = run(HEAD + "from data import read\n" + store + MAIN.format(call="Store('c/').rows"))
    assert any(c.reason.startswith("one process creates it") for c in result.changes) is is_cache


KEEP = """\
def keep(path):
    if os.path.exists(path):
        return
    with open(path, 'wb') as file:
        pickle.dump(read(), file)
"""
STORE = """\
import pickle
from pathlib import Path
from data import read
class Store:
    def path(self):
        return Path('c').joinpath('a.pkl')
    def keep(self):
        path = self.path()
        if path.is_file():
            return
        with path.open('wb') as file:
            pickle.dump(read(), file)
    def load(self):
        {call}
        path = self.path()
        return pickle.load(path.open('rb'))
"""
METHODS = STORE.partition("from data import read\n")[2]


@pytest.mark.parametrize(
    ("function", "call", "is_cache"),
    [
        (METHODS.format(call="self.keep()"), "Store().load()", True),
        (METHODS.format(call="kept = self.keep()"), "Store().load()", True),
        (f"{KEEP}def rows(path):\n    keep(path)\n    return pickle.load(open(path, 'rb'))\n", "rows('a.pkl')", True),
        (f"{KEEP}def rows(path):\n    keep(path)\n    return read()\n", "rows('a.pkl')", False),
    ],
)
def test_a_file_that_is_read_behind_the_call_of_what_makes_it(function: str, call: str, is_cache: bool) -> None:
    result = run(HEAD + "from pathlib import Path\nfrom data import read\n" + function + MAIN.format(call=call))
    assert f"    with accelerator.main_process_first():\n        data = {call}\n" in result.after.decode()
    # It waits in any case for what unknown code may download.
    assert any(c.reason.startswith("one process creates it") for c in result.changes) is is_cache
    assert any(n.rule == "writes" for n in result.notes) is not is_cache
    assert not any(c.rule == "writes" for c in result.changes)


LOADERS = """\
from torch.utils.data import DataLoader
from store import Store
def loader_of(name):
    store = Store()
    {lines}
    return DataLoader(rows, batch_size=2)
"""
TRAINER = """\
import torch
class Trainer:
    def __init__(self, loader):
        self.loader = loader
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def fit(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            self.model(x).mean().backward()
            self.optimizer.step()
"""
JOB = """\
import sys
from loaders import loader_of
from trainer import Trainer
def main():
    loader = loader_of(sys.argv[1])
    Trainer(loader).fit()
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("lines", "call", "is_first"),
    [
        ("rows = store.load()", "self.keep()", True),
        ("rows = store.load()", "done = self.keep()", True),
        ("store.keep()\n    rows = store.load()", "self.keep()", True),
        ("rows = [store.load() for _ in range(len(name))]", "self.keep()", False),  # nothing tells how often
        ("if store.path().exists():\n        rows = store.load()", "self.keep()", False),  # only some come there
        ("rows = store.load()", "for _ in range(2):\n            self.keep()", False),
        ("rows = store.load()", "if self.path().exists():\n            return []\n        self.keep()", False),
    ],
)
def test_a_file_that_one_process_makes_first_where_no_accelerator_is(
    tmp_path: Path, lines: str, call: str, is_first: bool
) -> None:
    files = {"main.py": JOB, "trainer.py": TRAINER}
    files |= {"loaders.py": LOADERS.format(lines=lines), "store.py": STORE.format(call=call)}
    scripts.write(tmp_path, {name: text.encode() for name, text in files.items()})
    with scripts.inside(tmp_path):
        results = {r.path: r for r in rewrite_together(("main.py",), Options())}
    after = {path: r.after.decode() for path, r in results.items()}
    block = f"        with accelify.runtime.PartialState().main_process_first():\n            {call}\n"
    assert (block in after.get("store.py", "")) is is_first
    is_noted = any(n.rule in ("downloads", "writes") for r in results.values() for n in r.notes)
    assert any("main_process_first" in text for text in after.values()) is not is_noted  # else where that is called
    assert not any("is_main_process" in text for text in after.values())


TABLES = """\
import os
from glob import glob
import numpy as np
import torch
class Tables(torch.utils.data.Dataset):
    def __init__(self, path):
        self.rows = []
        {begin}
    def files(self, path):
        for source in sorted(glob(path + "/*.npy")):
            label = source.replace(".npy", ".tsv")
            if not os.path.exists(label):
                np.savetxt(label, np.load(source))
            yield label
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return {item}
"""
TAKEN = "for label in self.files(path):\n            self.rows.append(torch.from_numpy(np.loadtxt(label)))"
OF_TABLES = """\
from torch.utils.data import DataLoader
from store import Tables
def loader_of(name):
    data = Tables(name)
    return DataLoader(data, batch_size=2)
"""


@pytest.mark.parametrize(
    ("begin", "item", "is_first"),
    [
        (TAKEN, "self.rows[i]", True),
        ("self.names = list(self.files(path))", "torch.from_numpy(np.loadtxt(self.names[i]))", True),
        ("self.names = self.files(path)", "torch.from_numpy(np.loadtxt(next(self.names)))", False),  # made later
    ],
)
def test_a_file_that_a_generator_makes_where_it_is_missing(
    tmp_path: Path, begin: str, item: str, is_first: bool
) -> None:
    files = {"main.py": JOB, "trainer.py": TRAINER, "loaders.py": OF_TABLES}
    files |= {"store.py": TABLES.format(begin=begin, item=item)}
    scripts.write(tmp_path, {name: text.encode() for name, text in files.items()})
    with scripts.inside(tmp_path):
        results = rewrite_together(("main.py",), Options())
    after = "".join(r.after.decode() for r in results)
    assert after.count("main_process_first") == is_first
    assert "is_main_process" not in after  # a guard, for which no other process would wait
    notes = [n.message for r in results for n in r.notes if n.rule == "downloads"]
    assert [n.partition(" if ")[0] for n in notes] == ["every process creates this"] * (not is_first)


@pytest.mark.parametrize("absolute", ["os.path.abspath(path)", "os.path.realpath(path)", "path"])
def test_a_path_that_is_made_absolute_is_no_file_that_is_read(absolute: str) -> None:
    folder = f"os.path.dirname({absolute})"
    keep = f"def keep(model, path):\n    if not os.path.exists({folder}):\n        os.mkdir({folder})\n"
    keep += "    torch.save(model.state_dict(), path)\n"
    main = MAIN.format(call="read()").replace("\nmain()", "\n    keep(model, 'out/m.pt')\nmain()")
    result = run(HEAD + "from data import read\n" + keep + main)
    assert b"accelify.runtime.save(model.state_dict(), path)" in result.after
    assert not any(n.rule == "downloads" for n in result.notes)


ALONE = "if accelify.runtime.PartialState().is_main_process:"
NEW_FOLDER = "    if new and os.path.exists('c'):\n        shutil.rmtree('c')\n"


@pytest.mark.parametrize(
    ("body", "written"),
    [
        (
            "    if new and os.path.exists('c'):\n        os.remove('c')\n    if not os.path.exists('c'):\n"
            "        torch.save(read(), 'c')\n    return torch.load('c')\n",
            f"    {ALONE}\n        if new and os.path.exists('c'):\n            os.remove('c')\n",
        ),
        (
            "    if new or not os.path.exists('c'):\n        x = read()\n        pickle.dump(x, open('c', 'wb'))\n"
            "    else:\n        x = pickle.load(open('c', 'rb'))\n    return x\n",
            f"        {ALONE}\n            pickle.dump(x, open('c', 'wb'))\n",
        ),
        (
            "    if os.path.exists('c') and not new:\n        x = torch.load('c')\n    else:\n        x = read()\n"
            "        torch.save(x, 'c')\n    return x\n",
            "        accelify.runtime.save(x, 'c')\n",
        ),
        (
            f"{NEW_FOLDER}    if not os.path.exists('c'):\n        os.makedirs('c')\n"
            "        torch.save(read(), 'c/x')\n    return torch.load('c/x')\n",
            f"    {ALONE}\n        if new and os.path.exists('c'):\n            shutil.rmtree('c')\n",
        ),
    ],
)
def test_what_each_process_would_make_anew_the_first_makes(body: str, written: str) -> None:
    head = HEAD + "import shutil, sys\nfrom data import read\n"
    result = run(head + f"def rows(new):\n{body}" + MAIN.format(call="rows(len(sys.argv) > 1)"))
    assert "    with accelerator.main_process_first():\n" in result.after.decode()
    assert written in result.after.decode()
    assert b"wait_for_everyone" not in result.after
    assert not any(n.rule in ("writes", "folders") for n in result.notes)


APPENDED = """\
def rows(path):
    import pandas as pd
    new = pd.DataFrame({'a': [1]})
    if not os.path.exists(path):
        new.to_csv(path)
    else:
        old = pd.read_csv(path)
        pd.concat([new, old]).to_csv(path)
    return new
"""


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (KEPT.replace("os.path.exists(path)", "fresh") + MADE, "rows('a.pkl')"),
        (KEPT + MADE.replace("open(path, 'wb')", "open('log', 'wb')"), "rows('a.pkl')"),
        (APPENDED, "rows('a.csv')"),
        (APPENDED.replace("pd.concat([new, old]).to_csv(path)", "open(path, 'w').write(str(old))"), "rows('a.csv')"),
    ],
)
def test_functions_that_do_not(function: str, call: str) -> None:
    result = run(HEAD + "from data import fresh\ndef read(): return [1]\n" + function + MAIN.format(call=call))
    assert b"main_process_first" not in result.after
    assert not any("if it is missing" in n.message for n in result.notes)


def test_a_cache_that_not_all_processes_may_come_to_is_reported() -> None:
    call = "[]\n    if n():\n        data = rows('a')"
    result = run(HEAD + "from data import n, read\n" + KEPT + MADE + MAIN.format(call=call))
    assert any("create it before the run" in n.message for n in result.notes)
    assert not any(n.rule == "writes" for n in result.notes)


FILL = "    for name in os.listdir('all'):\n        open(os.path.join(folder, name), 'w').write('x')\n"
MAKE = "def make(folder):\n    os.makedirs(folder, exist_ok=True)\n" + FILL


@pytest.mark.parametrize(
    "test",
    [
        "not os.path.isdir('d')",
        "not Path('d').exists()",
        "not os.listdir('d')",
        "len(os.listdir('d')) == 0",
        "len(glob.glob('d/*')) < 9",
        "0 == len(os.listdir('d'))",
        "'--make' in sys.argv and not os.path.exists('d')",
    ],
)
def test_a_folder_that_a_function_fills_where_it_is_missing(test: str) -> None:
    text = f"{MAKE}def main():\n    if {test}:\n        make('d')\n{MAIN.partition('main():')[2]}"
    result = run(f"{HEAD}import glob, sys\nfrom pathlib import Path\n{text.format(call='[1]')}")
    assert f"    with accelerator.main_process_first():\n        if {test}:\n" in result.after.decode()
    assert not any(n.rule == "writes" for n in result.notes)


@pytest.mark.parametrize(
    ("made", "called"),
    [
        (
            "def fill(folder):\n    if os.path.isdir(folder):\n        return\n    os.makedirs(folder)\n" + FILL,
            "fill('d')",
        ),
        (MAKE + "def fill():\n    if not os.path.exists('d'):\n        make('d')\n", "fill()"),
        (
            MAKE
            + "def fill():\n    if os.path.exists('d'):\n        print('is there')\n    else:\n        make('d')\n",
            "fill()",
        ),
    ],
)
def test_a_function_that_fills_a_folder_is_called_first_by_one(made: str, called: str) -> None:
    result = run(HEAD + made + MAIN.format(call="[1]").replace("main():\n", f"main():\n    {called}\n"))
    assert f"    with accelerator.main_process_first():\n        {called}\n" in result.after.decode()


@pytest.mark.parametrize(
    "text",
    [
        "os.makedirs('d')",  # no files
        "make('e')",  # another folder
        "make('d')\nelse: raise FileExistsError('d')",
        "make('d')\nelse: fresh = False",  # who comes later does something else
        "make('d'); fresh = False",
        "make('d'); sys.exit()",
    ],
)
def test_folders_that_all_processes_make(text: str) -> None:
    before = f"fresh = True\nif not os.path.exists('d'): {text}\nprint(fresh)\n"
    inside = "".join(f"    {line}\n" for line in before.splitlines())
    result = run(f"{HEAD}import sys\n{MAKE}{MAIN.format(call='[1]')}".replace("main():\n", f"main():\n{inside}"))
    assert b"main_process_first" not in result.after


@pytest.mark.parametrize(
    ("body", "handler"),
    [
        ("os.listdir('d')", "except: make('d')"),
        ("names = os.listdir('d')", "except FileNotFoundError:\n    make('d')\n    names = os.listdir('d')"),
        ("len(os.listdir('d'))", "except OSError: make('d')"),
        ("os.mkdir('d'); make('d')", "except FileExistsError: pass"),
    ],
)
def test_a_folder_that_is_filled_where_it_cannot_be_listed(body: str, handler: str) -> None:
    before = f"try: {body}\n{handler}\nprint(names)\n"
    inside = "".join(f"    {line}\n" for line in before.splitlines())
    result = run(f"{HEAD}names = []\n{MAKE}{MAIN.format(call='[1]')}".replace("main():\n", f"main():\n{inside}"))
    assert b"    with accelerator.main_process_first():\n        try:" in result.after


@pytest.mark.parametrize(
    ("body", "handler"),
    [
        ("os.listdir('d')", "except OSError: make('e')"),
        ("names = os.listdir('d')", "except OSError: make('d'); fresh = True"),
        ("names = os.listdir('d'); open('f', 'w').write('x')", "except OSError: make('d')"),
        ("os.mkdir('d')", "except FileExistsError: pass"),
        ("os.mkdir('d'); make('d'); fresh = True", "except FileExistsError: pass"),
    ],
)
def test_what_is_tried_and_fills_no_folder_that_it_looks_for(body: str, handler: str) -> None:
    before = f"fresh = False\ntry: {body}\n{handler}\nprint(fresh)\n"
    inside = "".join(f"    {line}\n" for line in before.splitlines())
    result = run(f"{HEAD}{MAKE}{MAIN.format(call='[1]')}".replace("main():\n", f"main():\n{inside}"))
    assert b"main_process_first" not in result.after


def test_a_folder_that_each_step_may_fill_is_no_cache() -> None:
    save = (
        "def save(x, k):\n    if not os.path.exists(k):\n        os.makedirs(k)\n        open(k + '/a', 'w').write(x)\n"
    )
    text = HEAD + save + MAIN.format(call="[1]").replace("optimizer.step()", "optimizer.step()\n        save(x, 'd')")
    assert b"main_process_first" not in run(text).after


DATA = """\
class Data(torch.utils.data.Dataset):
    def __init__(self, root, download=True):
        self.root = root
{body}
    def there(self): return os.path.exists(self.root + '/rows.txt')
    def make(self):
        if self.there():
            return
        open(self.root + '/rows.txt', 'w').write('1 2')
    def __len__(self): return 9
    def __getitem__(self, i): return self.rows[i]
class Log:
    def __init__(self, path):
        if not os.path.exists(path):
            open(path, 'w').write('epoch loss')
"""


def made_first(body: str, before: str = "") -> list[str]:
    """What a script lets one process make before the others, where its data set does as is said when it is made."""
    text = (
        HEAD + DATA.format(body="        " + body.replace("\n", "\n        ")) + before + MAIN.format(call="Data('d')")
    )
    facts = Facts(text)
    return [ast.unparse(s) for s in facts.script.written.guarding.cached.caches.first]


@pytest.mark.parametrize(
    "body",
    [
        "self.make()\nself.rows = open(root + '/rows.txt').read().split()",
        "if download and not self.there():\n    open(root + '/rows.txt', 'w').write('1')",
        "if not os.path.isdir(root):\n    os.makedirs(root)\n    os.system('wget x')",
        "if os.path.isdir(root): pass\nelse: os.system('wget x')",
    ],
)
def test_what_a_data_set_makes_where_it_is_missing(body: str) -> None:
    assert made_first(body) == ["data = Data('d')"]


@pytest.mark.parametrize(
    "body",
    [
        "self.rows = [1]",
        "if not os.path.isdir(root): os.makedirs(root)",
        "if os.path.isdir(root): os.system('ls')",
        "open('log', 'w').write('1')",
    ],
)
def test_what_it_does_else(body: str) -> None:
    assert made_first(body) == []


def test_a_log_is_no_data() -> None:
    assert made_first("self.rows = [1]", "log = Log('log.txt')\n") == []


TRIED = """\
def rows(path):
    try:
        with open(path, 'rb') as f:
            return pickle.load(f)
    except OSError:
        made = [1]
        pickle.dump(made, open(path, 'wb'))
        return made
"""


@pytest.mark.parametrize(
    "end",
    [
        f"try:\n    {LOAD}\nexcept FileNotFoundError:\n    {SAVE}",
        "try:\n    x = np.load('x.npy')\nexcept (OSError, ValueError):\n    x = np.ones(1)\n    np.save('x.npy', x)",
        "try:\n    nltk.data.find('a')\nexcept LookupError:\n    urllib.request.urlretrieve('https://x', 'a')",
        "try:\n    t = Path('t').read_text()\nexcept Exception:\n    t = 'new'\n    Path('t').write_text(t)",
    ],
)
def test_what_is_made_where_it_cannot_be_read(end: str) -> None:
    assert cached(end) == ["try:"]


@pytest.mark.parametrize(
    "end",
    [
        f"try:\n    {LOAD}\nexcept OSError:\n    data = make()",
        "try:\n    x = np.load('x.npy')\nexcept OSError:\n    open('log', 'w').write('no x')",  # another file
        "try:\n    os.makedirs('d')\nexcept OSError:\n    json.dump(1, open('c.json', 'w'))",
    ],
)
def test_what_is_made_anyway(end: str) -> None:
    assert cached(end) == []


@pytest.mark.parametrize("read", ["pickle.load(f)", "[pickle.load(f)]"])
def test_a_function_that_makes_what_it_cannot_read(read: str) -> None:
    function = TRIED.replace("pickle.load(f)", read)
    after = run(HEAD + function + MAIN.format(call="rows('a.pkl')")).after.decode()
    assert "with accelerator.main_process_first():\n        data = rows('a.pkl')" in after


@pytest.mark.parametrize(
    "question", ["'c.json' in os.listdir('.')", "len(glob.glob('*.json')) > 0", "any(Path('.').glob('c.json'))"]
)
def test_folders_that_are_listed_for_a_file(question: str) -> None:
    end = f"import glob\nif {question}:\n    {LOAD}\nelse:\n    {SAVE}"
    assert cached(end) == [f"if {question}:"]


FEATURES = """\
import numpy as np
from torch.utils.data import TensorDataset
def features(rows):
    if os.path.exists('f'):
        found = {read}
    else:
        {made}
        {saved}
    return found
data = TensorDataset(torch.randn(8, 4))
loader = DataLoader(data, batch_size=2)
found = features({given})
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
COMPREHENSION = "found = [x.mean() for x, in rows]"
LOOP = "found = []\n        for x, in rows:\n            found.append(x.mean())"
LISTED = "found = list(rows)"
TORCH = ("torch.load('f')", "torch.save(found, 'f')")
NUMPY = ("np.load('f')", "np.save('f', found)")
PICKLE = ("pickle.load(open('f', 'rb'))", "pickle.dump(found, open('f', 'wb'))")


@pytest.mark.parametrize("made", [COMPREHENSION, LOOP, LISTED])
@pytest.mark.parametrize(("read", "saved"), [TORCH, NUMPY, PICKLE])
@pytest.mark.parametrize("given", ["loader", "data"])
def test_no_process_goes_over_a_prepared_loader_first(made: str, read: str, saved: str, given: str) -> None:
    result = run(HEAD + FEATURES.format(made=made, read=read, saved=saved, given=given))
    is_first = "with accelerator.main_process_first():" in result.after.decode()
    is_noted = any("each over its shard only: create it before the run" in n.message for n in result.notes)
    assert (is_first, is_noted) == ((False, True) if given == "loader" else (True, False))


@pytest.mark.parametrize("given", ["loader", "data"])
def test_a_pass_beside_the_training(given: str) -> None:
    made = f"""\
    if os.path.exists('f'):
        found = np.load('f')
    else:
        found = np.array([x.mean() for x in {given}])
        np.save('f', found)
"""
    main = MAIN.format(call="torch.randn(8, 4)").replace("    model =", f"{made}    model =", 1)
    result = run(HEAD + "import numpy as np\n" + main)
    is_first = "with accelerator.main_process_first():" in result.after.decode()
    is_noted = any("each over its shard only: create it before the run" in n.message for n in result.notes)
    assert (is_first, is_noted) == ((False, True) if given == "loader" else (True, False))


@pytest.mark.parametrize(
    "fetch",
    [
        "urlretrieve('http://x', 'd.zip')",
        "URLopener().retrieve('http://x', 'd.zip')",
        "opener = FancyURLopener()\n    opener.retrieve('http://x', 'd.zip')",
    ],
)
def test_a_download_that_either_python_names(fetch: str) -> None:
    names = "urlretrieve, FancyURLopener, URLopener"
    imports = f"try:\n    from urllib.request import {names}\nexcept ImportError:\n    from urllib import {names}\n"
    assert cached(f"{imports}if not os.path.exists('d.zip'):\n    {fetch}") == ["if not os.path.exists('d.zip'):"]
