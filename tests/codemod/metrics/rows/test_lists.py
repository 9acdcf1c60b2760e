"""Facts about the lists that a loop fills, and that are gathered after it."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.rows.lists import Lists
from accelify.codemod.training.harmless import Harmless
from tests.codemod.metrics.loops import in_loop, sums_of
from tests.codemod.training_scripts import STEP, training


def lists(body: str, end: str, before: str = "losses = []") -> list[tuple[str, str | None, str]]:
    facts, loop = in_loop(body, end, f"import numpy as np\n{before}")
    found = Lists(facts.program, facts.tracer, Harmless(facts.program, facts.roles), sums_of(facts))
    block = facts.program.block(loop)
    listed = found.of(loop, block[: block.index(loop)])
    return [(c.name, c.per, ast.unparse(c.trimmed) if c.trimmed else "") for c in listed]


@pytest.mark.parametrize(
    ("value", "mean"),
    [
        ("model(x).mean().item()", "np.mean(losses)"),
        ("model(x).mean().detach()", "torch.stack(losses).mean()"),
        ("model(x).mean()", "torch.stack(losses).mean().item()"),
        ("model(x).mean()", "float(torch.stack(losses).mean().detach())"),
        ("model(x).mean().item()", "torch.mean(torch.FloatTensor(losses))"),
        ("model(x).mean().item()", "np.mean(np.array(losses))"),
        ("model(x).mean()", "torch.mean(torch.stack(losses)).item()"),
    ],
)
def test_a_list_that_is_read_for_its_mean(value: str, mean: str) -> None:
    assert lists(f"losses.append({value})", f"print({mean})\n") == [("losses", "batch", "")]


@pytest.mark.parametrize(
    ("body", "end", "before"),
    [
        ("losses.append(model(x).mean().item())", "print(losses[-1])\n", "losses = []"),
        ("losses.append(model(x))", "print(np.mean(losses))\n", "losses = []"),
        ("losses.append(model(x).mean())", "torch.stack(losses).mean().backward()\n", "losses = []"),
        ("losses.append(model(x).mean())", "torch.mean(torch.stack(losses)).backward()\n", "losses = []"),
        ("losses.append(1.0)", "print(torch.FloatTensor(losses)[0])\n", "losses = []"),
        ("losses.append(1.0)\nbreak", "print(np.mean(losses))\n", "losses = []"),
        ("losses.append(1.0)", "print(np.mean(losses))\n", "losses = [0.0]"),
    ],
)
def test_lists_that_are_left_alone(body: str, end: str, before: str) -> None:
    assert lists(body, end, before) == []


NUMBER = "losses.append(model(x).mean().item())"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (f"if amp:\n    {NUMBER}\nelse:\n    {NUMBER}", [("losses", "batch", "")]),
        (
            f"if amp:\n    with z:\n        {NUMBER}\nelse:\n    losses += [x.sum().item()]",
            [("losses", "batch", "")],
        ),
        (f"if a:\n    {NUMBER}\nelif b:\n    {NUMBER}\nelse:\n    {NUMBER}", [("losses", "batch", "")]),
        (f"if amp:\n    {NUMBER}\nelse:\n    pass", []),
        (f"if a:\n    {NUMBER}\nelif b:\n    {NUMBER}", []),
        (f"if amp:\n    {NUMBER}\nelse:\n    {NUMBER}\n    {NUMBER}", []),
        (f"if amp:\n    {NUMBER}\nelse:\n    {NUMBER}\n{NUMBER}", []),
        (f"if amp:\n    {NUMBER}\nelse:\n    losses.extend(y.tolist())", []),
        (f"if amp:\n    {NUMBER}\nelse:\n    losses.append(model(x).mean())", []),
    ],
)
def test_a_list_that_gets_its_element_in_each_branch(body: str, found: list[tuple[str, str, str]]) -> None:
    assert lists(body, "print(np.average(losses))\n") == found


@pytest.mark.parametrize(
    ("over", "found"),
    [
        ("iter(loader)", ["losses"]),
        ("tqdm(iter(loader))", ["losses"]),
        ("iter(zip(loader, loader))", []),
        ("iter(loader.draw, None)", []),
    ],
)
def test_a_list_that_a_loop_over_an_iterator_fills(over: str, found: list[str]) -> None:
    body = "    for x, y in {}:\n        losses.append(model(x).mean().item())\n    print(np.mean(losses))"
    facts, _ = in_loop("pass", f"for i in range(2):\n    losses = []\n{body.format(over)}", "import numpy as np")
    listed = Lists(facts.program, facts.tracer, Harmless(facts.program, facts.roles), sums_of(facts))
    (loop,) = (n for n in facts.files[0].nodes if isinstance(n, ast.For) and ast.unparse(n.iter) == over)
    assert [c.name for c in listed.of(loop, facts.program.block(loop)[:1])] == found


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("print(np.mean(losses))\nlosses = []", True),
        ("print(np.mean(losses))\nlosses = list()", True),
        ("print(np.mean(losses))\nif epoch % 2:\n    losses = []", False),
        ("print(np.mean(losses))\nlosses = [0.0]", False),
        ("print(np.mean(losses))", False),
    ],
)
def test_a_list_that_is_emptied_after_each_epoch(end: str, found: bool) -> None:
    facts = training(
        imports="import numpy as np",
        set_up="losses = []",
        step=f"{STEP}losses.append(loss.item())\n",
        end_of_epoch=end,
    )
    metered = [c.name for m in facts.script.metrics.metered for c in m.lists]
    assert metered == (["losses"] if found else [])


@pytest.mark.parametrize(
    ("order", "found"), [("{add}\n{back}", True), ("{back}\n{add}", True), ("{add}\n{all}", False)]
)
def test_losses_with_their_graphs_are_gathered_where_only_numbers_are_read(order: str, found: bool) -> None:
    add, back, every = "losses.append(loss)", "loss.backward()", "sum(losses).backward()"
    body = f"loss = model(x).mean()\n{order.format(add=add, back=back, all=every)}"
    listed = lists(body, "print(torch.stack(losses).mean().item())\n", "losses = []")
    assert listed == ([("losses", "batch", "")] if found else [])


@pytest.mark.parametrize(
    ("body", "before", "found"),
    [
        ("rows = rows + y.tolist()", "rows = []", [("rows", "row", "")]),
        ("rows = rows + list(y.numpy())", "rows = list()", [("rows", "row", "")]),
        ("rows = rows + [y.tolist()]", "rows = []", [("rows", "batch", "y.tolist()")]),
        ("rows = y.tolist() + rows", "rows = []", []),
        ("rows = rows + y.tolist()", "rows = [1]", []),
        ("rows = others + y.tolist()", "rows, others = [], []", []),
    ],
)
def test_rows_that_are_put_at_the_end_of_a_new_list(body: str, before: str, found: list[tuple[str, str, str]]) -> None:
    assert lists(body, "print(score(rows))\n", before) == found


def test_a_sum_by_the_number_of_batches() -> None:
    facts, loop = in_loop("losses.append(model(x).mean().item())", "print(sum(losses) / len(loader))\n", "losses = []")
    found = Lists(facts.program, facts.tracer, Harmless(facts.program, facts.roles), sums_of(facts))
    block = facts.program.block(loop)
    (collected,) = found.of(loop, block[: block.index(loop)])
    assert [ast.unparse(n) for n in collected.lengths] == ["len(loader)"]


ROWS = [
    "model(x).argmax(1).tolist()",
    "y.cpu().numpy()",
    "list(y.numpy())",
    "torch.softmax(model(x), dim=1)[:, 1].tolist()",
    "torch.max(model(x), 1)[1].tolist()",
    "np.argmax(model(x).detach().numpy(), axis=1)",
    "(torch.sigmoid(model(x)).squeeze() > 0.5).long().tolist()",
    "[int(each) for each in y]",
]


@pytest.mark.parametrize("value", ROWS)
def test_a_list_of_rows(value: str) -> None:
    end = "print(sum(a == b for a, b in zip(rows, rows)) / len(rows), rows[-1])\n"
    assert lists(f"rows.extend({value})", end, "rows = []") == [("rows", "row", "")]
    assert lists(f"rows += {value}", end, "rows = []") == [("rows", "row", "")]


@pytest.mark.parametrize(
    ("before", "value"),
    [
        ("pass", "model(x).detach().cpu().numpy()"),
        ("pass", "y.cpu()"),
        ("x, y = x.to(device), y.to(device)", "y.cpu()"),
        ("x = x.to(device)\ny = y.long().to(device)", "y"),
        ("pass", "model(x).argmax(1).cpu()"),
        ("_, found = torch.max(model(x), 1)", "found"),
        ("pass", "(model(x) > 0.5).float()"),
        ("pass", "model(x).max(dim=1).indices"),
    ],
)
def test_a_list_of_batches_is_trimmed(before: str, value: str) -> None:
    found = lists(f"{before}\nrows.append({value})", "print(np.concatenate(rows)[0])\n", "device = 'cpu'\nrows = []")
    assert found == [("rows", "batch", value)]


@pytest.mark.parametrize("value", ["model(x)", "found", "model(x).max(dim=1)[0]", "x * model(x)"])
def test_a_list_of_batches_that_something_may_be_learned_from(value: str) -> None:
    before = "found, _ = torch.max(model(x), 1)"
    assert lists(f"{before}\nrows.append({value})", "print(np.concatenate(rows)[0])\n", "rows = []") == []


@pytest.mark.parametrize(
    "value",
    [
        "y[y > 0].tolist()",
        "model(x).view(-1, 2).tolist()",
        "model(x).flatten(0, 1).tolist()",
        "model(x).t().tolist()",
        "criterion(model(x), y).tolist()",
        "unknown(y)",
        "sorted(y.tolist())",
        "[each for each in y if each]",
    ],
)
def test_what_may_be_other_rows(value: str) -> None:
    assert lists(f"rows.extend({value})", "print(rows)\n", "criterion = torch.nn.MSELoss()\nrows = []") == []


@pytest.mark.parametrize(
    ("body", "end", "before"),
    [
        ("rows.extend(y.tolist())", "print(sum(rows) / len(loader))\n", "rows = []"),
        ("rows.extend(y.tolist())\nmasks.extend(y[y > 0])", "print(score(rows, masks))\n", "rows, masks = [], []"),
        ("rows.extend(y.tolist())\nhigh = high * x[0, 0]", "print(len(rows) * high)\n", "rows, high = [], 0"),
        ("if len(x) > 1: rows.extend(y.tolist())", "print(rows)\n", "rows = []"),
        ("rows.extend(y.tolist())\nif sum(rows) > 3: model.train()", "print(rows)\n", "rows = []"),
    ],
)
def test_rows_that_would_be_set_beside_what_is_one_process_s_own(body: str, end: str, before: str) -> None:
    assert lists(body, end, before) == []


@pytest.mark.parametrize(
    ("made", "end", "gathered"),
    [
        ("defaultdict(list)", "print(np.mean(logs['loss']), sum(logs['acc']) / len(logs['acc']))", ["loss", "acc"]),
        ("{'loss': [], 'acc': []}", "print({k: np.mean(v) for k, v in logs.items()})", ["loss", "acc"]),
        ("defaultdict(list)", "for v in logs.values(): print(np.mean(v))", ["loss", "acc"]),
        ("defaultdict(list)", "print(logs['loss'][-1], np.mean(logs['acc']))", ["acc"]),
        ("defaultdict(list)", "print(logs)", []),
        ("{'loss': [0.5], 'acc': []}", "print(np.mean(logs['loss']))", []),
    ],
)
def test_lists_at_keys_of_a_dict(made: str, end: str, gathered: list[str]) -> None:
    body = "logs['loss'].append(model(x).mean().item())\nlogs['acc'].append((model(x) > y).float().mean().item())"
    found = lists(body, f"{end}\n", f"from collections import defaultdict\nlogs = {made}")
    assert found == [(f"logs['{key}']", "batch", "") for key in gathered]


TRAINER = """\
class Trainer:
    def __init__(self):
        self.rows, self.losses, self.lr = [], [], 1
    def note(self):
        {noted}
    def run(self):
        {begin}
        for x, y in loader:
            self.note()
            self.rows.extend(model(x).argmax(1).tolist())
            self.losses.append(model(x).mean().item())
        print(np.mean(self.losses))
        print(score(self.rows))
Trainer().run()
"""


@pytest.mark.parametrize(
    ("begin", "noted", "gathered"),
    [
        ("self.rows, self.losses = [], []", "print(self.lr)", ["self.rows", "self.losses"]),
        ("self.rows, self.losses = [], []", "self.lr = 0.5 if sum(self.losses) > 1 else self.lr", ["self.rows"]),
        ("self.rows = []", "print(self.lr)", ["self.rows"]),
        ("self.losses = list()", "self.rows = []", ["self.losses"]),
    ],
)
def test_lists_that_are_attributes(begin: str, noted: str, gathered: list[str]) -> None:
    facts, _ = in_loop("pass", TRAINER.format(begin=begin, noted=noted), "import numpy as np")
    found = Lists(facts.program, facts.tracer, Harmless(facts.program, facts.roles), sums_of(facts))
    (loop,) = (n for n in facts.files[0].nodes if isinstance(n, ast.For) and "self.note" in ast.unparse(n))
    block = facts.program.block(loop)
    assert [c.name for c in found.of(loop, block[: block.index(loop)])] == gathered
