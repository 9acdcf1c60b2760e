"""Whether what inserted statements read is bound on every way there, and where objects are prepared that are not."""

from __future__ import annotations

import pytest

from accelify.codemod.edits.inserted import Inserted
from accelify.codemod.edits.values import Insert
from tests.codemod.facts import Facts
from tests.codemod.pairs import run


@pytest.mark.parametrize(
    ("text", "name", "is_bound"),
    [
        ("if c:\n    x = 1\nhere()", "x", False),
        ("if c:\n    x = 1\nelse:\n    exit()\nhere()", "x", True),
        ("if c:\n    x = 1\nhere()\nprint(x)", "x", True),  # the script needs it as well
        ("if c:\n    x = 1\nhere()\nif c:\n    print(x)", "x", False),
        ("if c:\n    x = 1\nprint(x)\nhere()", "x", True),
        ("if c:\n    x = 1\nhere()\nx = 2\nprint(x)", "x", False),
        ("if c:\n    x = 1\nhere()\ndef show():\n    print(x)\nshow()", "x", True),
        ("if c:\n    x = 1\nhere()\ndef show():\n    if c:\n        print(x)\nshow()", "x", False),
        ("if c:\n    x = 1\nhere()\ndef show():\n    if c:\n        return\n    print(x)\nshow()", "x", False),
        ("if c:\n    x = 1\nhere()\ndef show():\n    for i in n:\n        print(x)\nshow()", "x", True),
        ("if c:\n    x = 1\nhere()\ndef show():\n    print(x)\ndef run():\n    show()\nrun()", "x", True),
        ("if c:\n    x = 1\nhere()\ndef show():\n    print(x)\ndef run():\n    c and show()\nrun()", "x", False),
        ("if c:\n    x = 1\nhere()\ndef show():\n    global x\n    x = 2\n    print(x)\nshow()", "x", False),
        ("for i in n:\n    x = i\nhere()", "x", True),
        ("for i in n:\n    if i:\n        x = i\nhere()", "x", False),
        ("if c:\n    x = 1\nhere()\nfor i in n:\n    print(x)", "x", True),
        ("x = 1\ndel x\nhere()", "x", False),
        ("x = 1\ndel x\nx = 2\nhere()", "x", True),
        ("try:\n    x = f()\nexcept OSError:\n    pass\nhere()", "x", False),
        ("d = {}\nhere()\nd['a'] = 1", "d['a']", False),
        ("d = dict()\nif c:\n    d['a'] = 1\nhere()", "d['a']", False),
        ("d = dict()\nfor k in n:\n    d[k] = 1\nhere()", "d['a']", True),
        ("d = {}\nd['b'] = 1\nhere()", "d['a']", False),
        ("d = {}\nd.update(f())\nhere()", "d['a']", True),
        ("d = f()\nhere()", "d['a']", True),
        ("d = {'b': 1}\nhere()", "d['a']", False),
        ("d = {'b': 1, **f()}\nhere()", "d['a']", True),
        ("def f():\n    d = {}\n    if c:\n        d['a'] = 1\n    return d\ne = f()\nhere()", "e['a']", False),
        ("def f():\n    d = {}\n    d['a'] = 1\n    return d\ne = f()\nhere()", "e['a']", True),
        ("here()", "x", True),
    ],
)
def test_what_is_bound_where_a_statement_is_inserted(text: str, name: str, is_bound: bool) -> None:
    facts = Facts(text)
    edit = Insert(facts.program.statement(facts.call("here()")), "after", "")
    assert Inserted(facts.program).is_bound(name, edit) is is_bound


HEAD = """\
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader

semi = "--semi" in sys.argv
"""
LOOP = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loaders["train"]:
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("filled", "there"),
    [
        ("loaders = {}\nif semi:\n    loaders['train'] = DataLoader(data)\n", "    loaders"),
        ("loaders = {}\nif semi:\n    loaders.update({'train': DataLoader(data)})\n", "    loaders"),
        ("loaders = dict()\nif semi:\n    loaders['train'] = DataLoader(data)\nloaders['val'] = 1\n", "    loaders"),
        ("loaders = {}\nfor phase in phases:\n    loaders[phase] = DataLoader(data)\n", "loaders"),
        ("loaders = {'val': 1}\nloaders['train'] = DataLoader(data)\n", "loaders"),
        ("loaders = {'train': None}\nif semi:\n    loaders['train'] = DataLoader(data)\n", "    loaders"),
    ],
)
def test_an_element_is_prepared_where_it_is_put_into_its_container(filled: str, there: str) -> None:
    text = run(HEAD + "model = nn.Linear(4, 2)\n" + filled + LOOP).after.decode()
    assert f'\n{there}["train"]' in text.replace("'train', model", '"train", model')
    assert text.index("DataLoader(data)") < text.index(".prepare(")


@pytest.mark.parametrize(
    "made",
    [
        "if semi:\n    other = nn.Linear(4, 2)\n    optimizer = torch.optim.SGD(list(model.parameters()) + "
        "list(other.parameters()))\nelse:\n    optimizer = torch.optim.SGD(model.parameters())\n",
        "if semi:\n    other = nn.Linear(4, 2)\nif semi:\n    optimizer = torch.optim.SGD(list(model.parameters()) + "
        "list(other.parameters()))\nelse:\n    optimizer = torch.optim.SGD(model.parameters())\n",
        "parameters = list(model.parameters())\nif semi:\n    other = nn.Linear(4, 2)\n    parameters += "
        "list(other.parameters())\noptimizer = torch.optim.SGD(parameters)\n",
    ],
)
def test_a_model_that_one_branch_makes_is_prepared_in_a_branch(made: str) -> None:
    loop = LOOP.partition("\n")[2].replace("loaders['train']", "DataLoader(data)")
    loop = loop.replace("model(x).sum()", "model(x).sum() + (other(x).sum() if semi else 0)")
    text = run(HEAD + "model = nn.Linear(4, 2)\n" + made + loop.replace('loaders["train"]', "DataLoader(data)"))
    after = text.after.decode()
    assert "\n    other = accelerator.prepare(other)\n" in after
    assert "\nmodel, optimizer = accelerator.prepare(model, optimizer)\n" in after


@pytest.mark.parametrize(
    "filled",
    [
        "loaders = {}\ndef fill(d):\n    d['train'] = DataLoader(data)\nfill(loaders)\n",
        "def make():\n    d = {}\n    if semi:\n        d['train'] = DataLoader(data)\n    return d\nloaders = make()",
    ],
)
def test_what_may_not_be_in_its_container_is_prepared_where_it_is_made(filled: str) -> None:
    loop = LOOP.partition("\n")
    trains = f"if semi:\n    {loop[0]}\n" + "".join(f"    {line}\n" for line in loop[2].splitlines())
    text = run(HEAD + "model = nn.Linear(4, 2)\n" + filled + "\n" + trains).after.decode()
    assert "accelerator.prepare(DataLoader(data))" in text
    assert 'prepare(loaders["train"]' not in text


def test_a_name_that_is_deleted_is_not_prepared_anew() -> None:
    trains = "def fit(model):\n" + LOOP.replace('loaders["train"]', "loader").replace("\n", "\n    ").rstrip(" ")
    trains = trains.replace("optimizer = ", "    optimizer = ", 1)
    text = run(HEAD + f"loader = DataLoader(data)\nmodel = nn.Linear(4, 2)\n{trains}fit(model)\ndel loader\n")
    assert text.after.decode().rstrip().endswith("del loader")


def test_a_checkpoint_is_no_model() -> None:
    made = (
        "path = 'ck.pt'\nif semi:\n    path = torch.load(path)\n    model = path['model']\n    optimizer = path['o']\n"
        "else:\n    model = nn.Linear(4, 2)\n    optimizer = torch.optim.SGD(filter(bool, model.parameters()))\n"
    )
    loop = LOOP.partition("\n")[2].replace('loaders["train"]', "DataLoader(data)")
    text = run(HEAD + made + loop + "print(sum(p.sum() for p in model.parameters()))\n").after.decode()
    assert "model, optimizer = accelerator.prepare(model, optimizer)\n" in text
