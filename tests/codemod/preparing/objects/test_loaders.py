"""Which loaders are prepared, and under which names."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.objects.bindings import Bindings
from accelify.codemod.preparing.objects.found import Found
from accelify.codemod.preparing.objects.loaders import Loaders
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated, run
from tests.codemod.preparing.objects.texts import HEAD, STEP
from tests.codemod.training_scripts import script


def test_batches_of_the_script_s_own_are_sharded() -> None:
    found = Facts(script().replace("for x, y in loader:", "for x, y in batches():")).script.preparation
    assert [kind.kind for kind, _ in found.sharded] == ["sequence"]


def test_a_loader_without_a_name_is_wrapped() -> None:
    found = Facts(script().replace("for x, y in loader:", "for x, y in DataLoader(rows):")).script.preparation
    assert [(kind, ast.unparse(node)) for kind, node in found.wrapped] == [("loader", "DataLoader(rows)")]


OWN = """\
import sys
class Own:
    def draw(self):
        return torch.randn(2, 4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
is_own = len(sys.argv) > 1
{made}
for epoch in range(2):
    x = {source}.draw() if is_own else next(iter({source}))[0]
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


LOADER = "DataLoader(data, batch_size=2)"


@pytest.mark.parametrize(
    ("made", "prepared"),
    [
        (f"if is_own:\n    s = Own()\nelse:\n    s = {LOADER}", f"s = {LOADER}\n    s = accelerator.prepare(s)"),
        (f"s = Own()\nif not is_own:\n    s = {LOADER}", f"s = {LOADER}\n    s = accelerator.prepare(s)"),
        (f"s = Own() if is_own else {LOADER}", f"s = Own() if is_own else accelerator.prepare({LOADER})"),
        (
            f"def make():\n    if is_own:\n        return Own()\n    return {LOADER}\ns = make()",
            f"return accelerator.prepare({LOADER})",
        ),
    ],
)
def test_what_is_a_loader_at_times_is_prepared_where_it_is_made(made: str, prepared: str) -> None:
    after = migrated(HEAD + OWN.format(made=made, source="s"))
    assert prepared in after
    assert after.count("accelerator.prepare(") == 2
    assert "model, optimizer = accelerator.prepare(model, optimizer)" in after


BOUND_AGAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, items):
        self.rows = []
        for item in items:
            self.rows.append(torch.tensor(item))


model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train():
    for batch in rows:
        loss = model(batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
{bound}
    for _ in range(3):
        train()
"""


IN_AN_OBJECT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, path):
{bound}
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self):
        for batch in self.rows:
            loss = self.model(batch).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


Trainer("rows.pt").run()
"""


@pytest.mark.parametrize(
    ("text", "bound", "loaders"),
    [
        (BOUND_AGAIN, ["rows = torch.load('rows.pt')", "rows = DataLoader(Rows(rows))"], [2]),
        (BOUND_AGAIN, ["held, rows = split(torch.load('rows.pt'))", "rows = DataLoader(Rows(rows[4:]))"], [2]),
        (BOUND_AGAIN, ["rows = [[1.0]]", "rows = Rows(rows)", "rows = DataLoader(rows)"], [3]),
        (BOUND_AGAIN, ["with open('rows') as f: rows = f.read()", "rows = DataLoader(Rows(rows))"], [2]),
        (BOUND_AGAIN, ["rows = DataLoader(Rows([[1.0]]))", "train()", "rows = DataLoader(Rows([[2.0]]))"], [1, 3]),
        (IN_AN_OBJECT, ["self.rows = torch.load(path)", "self.rows = DataLoader(self.rows)"], [2]),
        (IN_AN_OBJECT, ["self.rows = [[1.0]]", "self.rows += [[2.0]]", "self.rows = DataLoader(self.rows)"], [3]),
    ],
)
def test_a_name_of_data_that_a_loader_gets_next(text: str, bound: list[str], loaders: list[int]) -> None:
    indent = " " * (4 if text is BOUND_AGAIN else 8)
    text = text.format(bound="\n".join(indent + line for line in bound))
    facts = Facts(text)
    assert facts.verdict.script is not None
    items = [i for i in facts.verdict.script.preparation.items if i.kind == "loader"]
    first = text.split("\n").index(indent + bound[0])
    assert [i.statement.lineno - first for i in items if i.statement is not None] == loaders
    assert "self.rows" not in " ".join(n.message for n in run(text).notes)


TEXT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
class Ahead:
    def __init__(self, loader):
        self.loader = iter(loader)
    def next(self):
        try:
            return next(self.loader)
        except StopIteration:
            return None
train_loader, valid_loader = DataLoader(load()), DataLoader(load("valid"))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{defined}
for epoch in range(3):
    ahead = Ahead(train_loader)
    x = ahead.next()
    while x is not None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        x = ahead.next()
    {evaluated}
"""


FUNCTION = """\
def evaluate(loader):
    batches, total = Ahead(loader), 0
    x = batches.next()
    while x is not None:
        total += model(x).sum().item()
        x = batches.next()
    return total
"""


LOOP = "{0} = Ahead(valid_loader)\n    x = {0}.next()\n    while x is not None:\n        {1}\n        x = {0}.next()"


ASKED_STEP = "optimizer.zero_grad(); model(x).sum().backward(); optimizer.step()"


@pytest.mark.parametrize(
    ("defined", "evaluated", "prepared"),
    [
        (FUNCTION, "print(evaluate(valid_loader))", "train_loader, model"),
        ("", LOOP.format("valid", "print(model(x).sum().item())"), "train_loader, model"),
        ("", LOOP.format("ahead", "print(model(x).sum().item())"), "train_loader, model"),
        ("", LOOP.format("more", ASKED_STEP), "train_loader, valid_loader, model"),
    ],
)
def test_a_loader_that_an_object_asks_to_evaluate_is_not_prepared(defined: str, evaluated: str, prepared: str) -> None:
    result = run(TEXT.format(defined=defined, evaluated=evaluated))
    text = "".join(result.after.decode().split())
    assert f"=accelerator.prepare({prepared},optimizer)".replace(" ", "") in text
    assert not any("shard only" in n.message for n in result.notes)


def test_the_loader_of_a_loop_is_prepared_by_its_name() -> None:
    facts, found = Facts(script()), Found(set())
    code = facts.program, facts.roles, facts.tracer
    loaders = Loaders(*code, facts.training, Bindings(*code), found)
    for data in facts.training.data:
        loaders.add(data)
    assert [(i.kind, i.text) for i in found.items] == [("loader", "loader")]


LISTED = """\
import itertools
import sys
loader = DataLoader(data, batch_size=4)
if len(sys.argv) > 1:
    loader = {listed}
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in {loop}:
"""


@pytest.mark.parametrize(
    ("listed", "loop"),
    [
        ("[next(iter(loader))] * 4", "loader"),
        ("[b for k, b in enumerate(loader) if k < 2]", "tqdm(loader)"),
        ("list(itertools.islice(loader, 2))", "loader"),
        ("list(loader)[:2]", "loader"),
    ],
)
def test_a_list_of_a_loader_s_batches_is_not_prepared_beside_it(listed: str, loop: str) -> None:
    after = migrated(HEAD + "from tqdm import tqdm\n" + LISTED.format(listed=listed, loop=loop) + STEP)
    assert "loader = DataLoader(data, batch_size=4)\nloader = accelerator.prepare(loader)\n" in after
    assert "\nmodel, optimizer = accelerator.prepare(model, optimizer)\n" in after
    assert after.count("prepare(") == 2


@pytest.mark.parametrize(
    ("listed", "loop"),
    [
        ("[(torch.randn(4, 4), torch.randn(4, 1)) for _ in range(4)]", "for x, y in accelerator.shard(loader):"),
        ("[(torch.randn(4, 4), torch.randn(4, 1))] * 4", "for x, y in accelerator.shard(loader):"),
        ("DataLoader(data)", "for x, y in loader:"),
    ],
)
def test_a_list_of_the_script_s_own_and_a_loader_are_sharded_alike(listed: str, loop: str) -> None:
    after = migrated(HEAD + LISTED.format(listed=listed, loop="loader") + STEP)
    assert loop in after
    assert (", optimizer = accelerator.prepare(loader" in after) is (loop == "for x, y in loader:")


HELD = """\
def make():
    train = DataLoader(data, batch_size=4)
    val = DataLoader(data, batch_size=4)
    return {returned}
def fit(loaders):
    for phase in ["train", "val"]:
        for x, y in loaders[phase]:
            loss = nn.functional.mse_loss(model(x), y)
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
found = {made}
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fit({given})
"""
BOTH = '{"train": train, "val": val}'


@pytest.mark.parametrize(
    ("returned", "made", "given"),
    [
        (f"dict(loaders={BOTH}, sizes=[8])", "make()", 'found["loaders"]'),
        (f'{{"loaders": {BOTH}}}', "make()", 'found["loaders"]'),
        (BOTH, '[{"train": torch.ones(2)}] * 2\nfor k in range(2):\n    found[k] = make()', "found[k]"),
    ],
)
def test_the_loader_of_a_container_in_another_is_prepared_where_it_is_made(
    returned: str, made: str, given: str
) -> None:
    after = migrated(HEAD + HELD.format(returned=returned, made=made, given=given))
    assert "    train = accelerator.prepare(DataLoader(data, batch_size=4))\n    val = DataLoader(" in after
    assert "\nmodel, optimizer = accelerator.prepare(model, optimizer)\n" in after
    assert after.count("prepare(") == 2


def test_the_loader_of_a_container_that_has_a_name_is_prepared_in_it() -> None:
    after = migrated(HEAD + HELD.format(returned=BOTH, made="make()", given="found"))
    assert '\nfound["train"], model, optimizer = accelerator.prepare(found["train"], model, optimizer)\n' in after


def test_a_name_in_a_literal_in_a_literal_is_not_taken_from_the_outer_one() -> None:
    made = 'a, b = DataLoader(data), DataLoader(data)\nfound = {"train": a, "inner": {"train": b}}\n'
    models = "model = nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    after = migrated(HEAD + made + models + 'for x, y in found["inner"]["train"]:\n' + STEP)
    assert "b = accelerator.prepare(b)" in after
    assert "prepare(a" not in after


UNNAMED = """
def make():
    return DataLoader(torch.randn(16, 4), batch_size=4), 16
def train(loader=None):
    {given}
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train()
"""


@pytest.mark.parametrize(
    "given",
    [
        "loader = loader if loader is not None else make()[0]",
        "loader = loader or make()[0]",
        "loader, size = loader or make()[0], 16",
        "loader = make()[0]",
    ],
)
def test_a_part_of_what_a_call_makes_is_prepared_under_the_name_it_gets(given: str) -> None:
    text = migrated(HEAD + UNNAMED.format(given=given))
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in text
    assert text.count("prepare(") == 1


KEPT = """
def make():
    return DataLoader(torch.randn(16, 4), batch_size=4), 16
class Trainer:
    def __init__(self, loader=None):
        self.loader = loader if loader else make()[0]
    def fit(self):
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in self.loader:
            loss = model(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
Trainer().fit()
"""


def test_such_a_part_that_an_attribute_keeps_is_prepared_as_that() -> None:
    text = migrated(HEAD + KEPT)
    assert "self.loader = self.accelerator.prepare(self.loader)" in text
    assert text.count("prepare(") == 2
    assert text.count("make()[0]") == 1


def test_a_place_in_a_container_that_has_a_name_is_prepared_in_place() -> None:
    loaders = "loaders = [DataLoader(torch.randn(16, 4), batch_size=4)]\n    loader = loaders[0]"
    text = migrated(HEAD + UNNAMED.format(given=loaders))
    assert "    loaders[0] = accelerator.prepare(loaders[0])\n    loader = loaders[0]" in text


@pytest.mark.parametrize(
    "given",
    ["both = make()\n    loader = both[0]", "both = make()\n    loader, size = both[0], both[1]"],
)
def test_an_item_of_a_tuple_is_prepared_under_its_own_name(given: str) -> None:
    text = migrated(HEAD + UNNAMED.format(given=given))
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in text
    assert text.count("prepare(") == 1


def test_an_item_of_a_tuple_that_has_no_name_is_prepared_where_it_is_made() -> None:
    given = UNNAMED.format(given="both = make()").replace("for x in loader", "for x in both[0]")
    text = migrated(HEAD + given)
    assert "return accelerator.prepare(DataLoader(torch.randn(16, 4), batch_size=4)), 16" in text


IN_BRANCHES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def run(model, rows, optimizer, training=True):
    size = 4 if training else len(rows)
    loader = DataLoader(TensorDataset(rows), batch_size=size)
    if {test}:
        losses = []
        for {i}(x,) in {source}:
            loss = ((model(x) - x) ** 2).mean()
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
{after}        return sum(losses) / len(losses)
    else:
        for (x,) in loader:
            scores = (model(x.view({size}, 3)) - x) ** 2
        return scores.detach().numpy()

model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.rand(18, 3)
for epoch in range(2):
    print(run(model, rows, optimizer))
print(run(model, rows, optimizer, training=False).mean())
"""
PREPARED = "loader = accelerator.prepare(loader)"


@pytest.mark.parametrize(
    ("test", "i", "source", "prepared"),
    [
        ("training", "", "loader", "in accelerator.prepare(loader):"),
        ("training is True", "i, ", "enumerate(loader)", "in enumerate(accelerator.prepare(loader)):"),
    ],
)
def test_a_loader_that_another_branch_evaluates_on_is_prepared_for_its_training_loop(
    test: str, i: str, source: str, prepared: str
) -> None:
    result = run(IN_BRANCHES.format(test=test, i=i, source=source, after="", size="size"))
    after = result.after.decode()
    assert prepared in after
    assert PREPARED not in after
    assert 'losses = accelerator.gather_for_metrics(losses, per="batch")' in after
    assert "        for (x,) in loader:\n" in after
    assert not any("built for batches" in note.message for note in result.notes)


def test_a_loader_whose_length_is_asked_keeps_its_name() -> None:
    after = migrated(
        IN_BRANCHES.format(
            test="training", i="", source="loader", after="        print(sum(losses) / len(loader))\n", size="-1"
        )
    )
    assert PREPARED in after


def test_a_loader_that_both_branches_train_on_keeps_its_name() -> None:
    text = IN_BRANCHES.format(test="training", i="", source="loader", after="", size="-1")
    step = "            scores.mean().backward()\n            optimizer.step()\n"
    after = migrated(text.replace("- x) ** 2\n        return scores", f"- x) ** 2\n{step}        return scores"))
    assert PREPARED in after
