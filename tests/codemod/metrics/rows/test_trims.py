"""Facts about what is counted row by row: sums, and the rows that only even out an epoch."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.metrics.rows.trims import Summand, Trim, trim_of
from tests.codemod.metrics.loops import in_loop
from tests.codemod.training_scripts import STEP, training


@pytest.mark.parametrize(
    ("value", "of_rows"),
    [
        ("x.size(0)", True),
        ("len(x)", True),
        ("(model(x) == y).sum().item()", True),
        ("loss.item() * x.size(0)", True),
        ("counted", True),
        ("1", False),
        ("x.mean()", False),
        ("torch.mean(x)", False),
        ("F.mse_loss(x, y)", False),
        ("F.mse_loss(x, y, reduction='sum').detach()", True),
        ("F.mse_loss(x, y, reduction='none')", None),
        ("torch.nn.MSELoss(size_average=False)(x, y).item()", True),
        ("dice_loss(x, y)", False),
        ("-0.5 * torch.sum(x)", True),
        ("torch.sum(torch.nn.functional.mse_loss(x, y))", False),
        ("torch.nn.MSELoss()(x, y).sum().item()", False),
        ("F.mse_loss(x, y, reduction='sum').sum()", True),
        ("F.mse_loss(x, y, reduction='none').sum()", True),
        ("sum([torch.mean(x), torch.mean(y)])", False),
        ("sum(part.mean() for part in (x, y))", False),
        ("sum(means)", False),
        ("sum([p == t for p, t in zip(x, y)])", True),
        ("sum([x.mean(), x.sum()])", True),
        ("sum(appended)", False),
        ("torch.stack([F.mse_loss(part, y) for part in x]).sum()", False),
        ("torch.sum(torch.cat([x.mean().view(1), y.mean().view(1)]))", False),
        ("torch.stack([(part - y).mean(1) for part in x]).sum()", True),
        ("torch.stack([part.sum() for part in x]).sum()", True),
        ("x.mean(0)", False),
        ("torch.mean(x, dim=-1)", None),
        ("unknown(x)", None),
        ("unknown", None),
    ],
)
def test_what_grows_with_the_rows(value: str, of_rows: bool | None) -> None:
    facts, loop = in_loop(
        "counted = x.size(0)\nmeans = [x.mean(), F.mse_loss(x, y)]\n"
        f"appended = []\nfor part in x:\n    appended.append(F.mse_loss(part, y))\nuse({value})"
    )
    assert Summand(facts.program, loop).is_of_rows(facts.call("use(").args[0]) is of_rows


def trim(added: str) -> Trim | None:
    facts = training(
        epoch="correct, n = 0, 0", step=f"out = model(x)\n{STEP}{added}\n", end_of_epoch="print(correct / n)"
    )
    loop = facts.script.metrics.shared_loops[0]
    return trim_of(facts.program, loop, ["correct", "n"])


def trimmed(added: str) -> tuple[str, ...] | None:
    """The variables that keep only the rows that count, if there are any."""
    found = trim(added)
    return found.names or None if found is not None else None


def test_names_that_keep_only_the_rows_that_count() -> None:
    names = trimmed("correct += (out.argmax(1) == y).sum().item()\nn += y.size(0)")
    assert names is not None
    assert set(names) == {"out", "y"}


@pytest.mark.parametrize(
    "added",
    [
        "correct += (out.detach().argmax(1) == y).sum().item()",
        "correct += measure(out.detach(), y) * len(y)",
        "correct += measure(torch.sigmoid(out.detach()).cpu().numpy(), y) * len(y)",
    ],
)
def test_an_output_that_is_detached_has_rows(added: str) -> None:
    assert set(trimmed(added) or ()) == {"out", "y"}


def test_a_loss_that_is_detached_has_none() -> None:
    assert trimmed("n += len(y)\ncorrect += measure(loss.detach())") is None


def test_a_mean_is_taken_again_beside_a_metric_of_the_rows() -> None:
    facts = training(
        before="mean_of = nn.MSELoss()",
        epoch="correct, n = 0, 0",
        step=f"out = model(x)\nlost = mean_of(out, y)\n{STEP}"
        "n += lost.item() * len(y)\ncorrect += measure(out.detach(), y) * len(y)\n",
        end_of_epoch="print(correct, n)",
    )
    found = trim_of(facts.program, facts.script.metrics.shared_loops[0], ["correct", "n"])
    assert found is not None
    assert (found.mean is not None, found.holds_means) == (True, False)


@pytest.mark.parametrize(
    "added", ["sums[k] += value * len(x)", "sums[k] = sums.get(k, 0) + value * len(x)", "sums['a'] += len(x)"]
)
def test_what_is_added_in_a_table_is_of_the_rows_that_count(added: str) -> None:
    facts = training(step=f"{STEP}n += len(x)\nfor k, value in scores(x):\n    {added}\n")
    found = trim_of(facts.program, facts.script.metrics.shared_loops[0], ["n", "sums"])
    assert found is not None
    assert [ast.unparse(part) for part in found.parts] == ["x", "x"]


@pytest.mark.parametrize(
    ("added", "holds_means"),
    [("loss.item() * len(x)", True), ("loss.item() * x.size(0)", True), ("len(x)", False), ("(x > 0).sum()", False)],
)
def test_a_mean_of_all_rows_that_a_table_gets_is_told(added: str, holds_means: bool) -> None:
    facts = training(epoch="sums = {'a': 0.0, 'n': 0}", step=f"{STEP}sums['a'] += {added}\nsums['n'] += len(x)\n")
    found = trim_of(facts.program, facts.script.metrics.shared_loops[0], ["sums"])
    assert found is not None
    assert found.holds_means is holds_means


def test_what_is_read_after_that_is_not_trimmed() -> None:
    assert trimmed("correct += (out.argmax(1) == y).sum().item()\nuse(out)") is None


def test_numbers_of_batches_are_not_trimmed() -> None:
    assert trimmed("correct += 1\nn += 1") is None


@pytest.mark.parametrize(
    ("added", "names"),
    [
        ("n += y.size(0)\nfound = out.argmax(1)\ncorrect += (found == y).sum().item()", {"out", "y"}),
        ("n += x.size(0)\nfound = out.topk(1)[1]\ncorrect += (found[:, 0] == y).sum().item()", {"x", "out", "y"}),
        ("n += len(y)\n_, found = torch.max(out, 1)\nhit = found.eq(y)\ncorrect += hit.sum().item()", {"out", "y"}),
        ("n += len(y)\ncorrect += (torch.argsort(out)[:, 0] == y).sum().item()", {"out", "y"}),
    ],
)
def test_what_is_computed_between_the_sums_is_of_the_rows_that_are_left(added: str, names: set[str]) -> None:
    assert set(trimmed(added) or ()) == names


@pytest.mark.parametrize(
    ("added", "parts"),
    [
        ("correct += (out.argmax(1) == y).sum().item()\nn += y.size(0)", ["out.argmax(1) == y", "y"]),
        ("n += len(y)\nif x.any(): correct += torch.sum(out.argmax(1).eq(y)).item()", ["y", "out.argmax(1).eq(y)"]),
        ("n += loss.item() * len(x)", ["x"]),
        ("n += (out.argmax(1) == y).sum() / 2 + x.shape[0]", ["out.argmax(1) == y", "x"]),
    ],
)
def test_parts_are_trimmed_where_other_code_needs_the_whole(added: str, parts: list[str]) -> None:
    found = trim(f"{added}\nuse(out, y, x)")
    assert found is not None
    assert [ast.unparse(part) for part in found.parts] == parts


@pytest.mark.parametrize(
    "added",
    [
        "n += (out.argmax(0) == y).sum()",  # along the rows
        "n += measure(out, y)",
        "n += (out.argmax(1) == y)[:2].sum()",
        "n += measure(out).eq(y).sum()",
        "n += (out.argmax(1) == y).float().mean()",
        "n += (out.argmax(1) == y).sum() / len(y)",
    ],
)
def test_parts_that_may_be_of_other_rows_stay(added: str) -> None:
    assert trim(f"{added}\nuse(out, y, x)") is None


@pytest.mark.parametrize(
    "between",
    [
        "found = out.argmax(1)\nuse(found)",  # it would be of fewer rows
        "found = out.t().argmax(0)",  # the rows are not the first dimension
        "if x: found = out.argmax(1)",
        "found = out.argmax(1)\nif x: found = y",
        "found = out.argmax(1)[:2]",
        "k = 2\nfound = out[k]",
        "noise = 2 * out\nfound = noise - out",
    ],
)
def test_what_is_not_clearly_of_the_rows_is_not_trimmed(between: str) -> None:
    assert trimmed(f"n += len(y)\n{between}\ncorrect += (found == y).sum().item()") is None


OWN_LOSSES = """\
total_of = nn.MSELoss(reduction='sum')
def apart(out, y):
    far = nn.functional.mse_loss(out, y, reduction="sum")
    spread = -0.5 * torch.sum(1 + out - out.exp())
    return far + 2 * spread
def noise(out):
    return torch.randn_like(out).sum()
"""


@pytest.mark.parametrize(
    ("lost", "added", "taken"),
    [
        ("nn.functional.mse_loss(out, y, reduction='sum')", "correct += lost.item()", "lost"),
        ("total_of(out, y)", "correct += lost.item()", "lost"),
        ("total_of(out, y)", "correct += lost.item()\nn += len(y)", "lost"),
        ("total_of(out, y)", "correct = correct + lost.detach()", "lost"),
        ("total_of(out, y)", "correct += lost.item()\nuse(lost)", None),
        ("total_of(out, y)", "correct += lost.item() / 2\nn += len(y)", None),
        ("apart(out, y)", "correct += lost.item()", "lost"),
        ("apart(out, y) + noise(out)", "correct += lost.item()", None),
    ],
)
def test_a_sum_over_rows_is_taken_again(lost: str, added: str, taken: str | None) -> None:
    facts = training(
        before=OWN_LOSSES,
        epoch="correct, n = 0, 0",
        step=f"out = model(x)\nlost = {lost}\n{STEP}{added}\n",
        end_of_epoch="print(correct / 5, n)",
    )
    found = trim_of(facts.program, facts.script.metrics.shared_loops[0], ["correct", "n"])
    again = found.mean if found is not None else None
    assert (None if again is None else again.name) == taken


@pytest.mark.parametrize(
    ("lost", "added", "taken"),
    [
        ("mean_of(out, y)", "correct += lost.item()", ["lost"]),
        ("nn.functional.mse_loss(out, y)", "correct = correct + float(lost)", ["lost"]),
        ("mean_of(out, y)", "correct += lost.item()\nn += len(y)", ["lost"]),
        ("mean_of(out, y)", "correct += lost.item()\nn += 1", None),  # divided by the batches
        ("mean_of(out, y)", "n += len(y)\ncorrect += lost.item()", []),  # `y` has fewer rows by then
        ("mean_of(model(x), y)", "correct += lost.item()", None),
        ("mean_of(out, y)", "out = out + 1\ncorrect += lost.item()", None),
    ],
)
def test_the_mean_of_a_batch_is_taken_again_where_it_is_added(lost: str, added: str, taken: list[str] | None) -> None:
    facts = training(
        before="mean_of = nn.MSELoss()",
        epoch="correct, n = 0, 0",
        step=f"out = model(x)\nlost = {lost}\n{STEP}{added}\n",
        end_of_epoch="print(correct, n)",
    )
    found = trim_of(facts.program, facts.script.metrics.shared_loops[0], ["correct", "n"])
    assert (None if found is None else [name.id for name, _ in found.batch_means]) == taken
    assert found is None or found.holds_means is (taken == [])


@pytest.mark.parametrize("lost", ["total_of(out, y)", "apart(out, y)", "((out - y) ** 2).sum()"])
def test_a_sum_over_rows_that_is_shown_too_is_taken_again_where_it_is_added(lost: str) -> None:
    facts = training(
        before=OWN_LOSSES,
        epoch="correct, n = 0, 0",
        step=f"out = model(x)\nlost = {lost}\n{STEP}correct += lost.item()\nprint(lost)\n",
        end_of_epoch="print(correct / 5)",
    )
    found = trim_of(facts.program, facts.script.metrics.shared_loops[0], ["correct"])
    assert found is not None
    assert [name.id for name, _ in found.batch_means] == ["lost"]


@pytest.mark.parametrize(
    ("counting", "is_trimmed"),
    [
        ("for i in range(len(out)):\n    if out[i] > y[i]:\n        correct += 1", False),
        ("for i in range(y.size(0)):\n    if out[i] > y[i]:\n        correct += 1", False),
        ("for i in range(8):\n    if out[i] > y[i]:\n        correct += 1", False),
        ("for a, b in zip(out, y):\n    if a > b:\n        correct += 1", False),
        ("for i, a in enumerate(out):\n    correct = correct + 1 if a > 0 else correct\n    correct += 1", False),
        ("i = 0\nwhile i < len(out):\n    correct += 1\n    i += 1", False),
        ("for k in range(3):\n    correct += 1", True),
        ("correct += (out > y).sum().item()", True),
    ],
)
@pytest.mark.parametrize("total", ["n += len(x)", "size = len(x)\nn += len(x)"])
def test_no_sum_is_trimmed_beside_one_that_counts_row_by_row(counting: str, total: str, *, is_trimmed: bool) -> None:
    step = f"out = model(x)\n{STEP}{total}\n{counting}\n"
    facts = training(epoch="correct, n = 0, 0", step=step, end_of_epoch="print(correct / n)")
    found = trim_of(facts.program, facts.script.metrics.shared_loops[0], ["correct", "n"])
    assert (found is not None) is is_trimmed


def test_a_list_that_is_too_deep_to_be_looked_at_is_no_list_of_means() -> None:
    facts, loop = in_loop("use(sum([x.mean()]))")
    summed = facts.call("use(").args[0]
    assert Summand(facts.program, loop).is_of_rows(summed, 0) is True
    assert Summand(facts.program, loop).is_of_rows(summed, 1) is False


@pytest.mark.parametrize(
    ("again", "of_rows"),
    [
        ("loss = loss.item()", False),
        ("loss = loss.detach().cpu().item()", False),
        ("loss = loss * len(x)", None),
        ("loss = F.mse_loss(x, y, reduction='sum').item()", None),
    ],
)
def test_a_variable_that_only_changes_its_type_is_what_it_was(again: str, of_rows: bool | None) -> None:
    facts, loop = in_loop(f"loss = F.mse_loss(x, y)\n{again}\nuse(loss)")
    assert Summand(facts.program, loop).is_of_rows(facts.call("use(").args[0]) is of_rows


@pytest.mark.parametrize(
    ("made", "added", "parts"),
    [
        ("(out > y).sum()", "correct += hits.item()", ["out > y"]),
        ("torch.sum(out > y)", "correct += hits.item()\nn += len(y)", ["out > y"]),
        ("out.argmax(1).eq(y).sum().item()", "correct = correct + hits\nn += 1", ["out.argmax(1).eq(y)"]),
        ("(out > y).sum()", "correct += hits.item()\nuse(hits)", []),
        ("out[order].sum()", "correct += hits.item()", []),
        ("apart(out, y)", "correct += hits.item()", []),
    ],
)
def test_what_is_summed_for_sums_alone_is_trimmed_where_it_is_made(made: str, added: str, parts: list[str]) -> None:
    facts = training(
        before=OWN_LOSSES,
        epoch="correct, n = 0, 0",
        step=f"out = model(x)\nhits = {made}\n{STEP}{added}\n",
        end_of_epoch="print(correct / 5, n)",
    )
    found = trim_of(facts.program, facts.script.metrics.shared_loops[0], ["correct", "n"])
    assert [ast.unparse(part) for part in (found.parts if found is not None else ())] == parts


RETURNED = """
def numbers(x):
    lost = model(x).mean()
    return {"loss": lost.item(), "out": model(x)}
class Net(nn.Module):
    def forward(self, x):
        found = model(x)
        return found, found.mean(0).max()
net = Net()
"""


@pytest.mark.parametrize(
    ("made", "added", "names"),
    [
        ("got = numbers(x)", "got['loss']", None),
        ("got = {'loss': model(x).mean().item()}", "got['loss'] * 2", None),
        ("got = {}\ngot['loss'] = model(x).mean().item()\ngot['out'] = model(x)", "got['loss']", None),
        ("found, top = net(x)", "top.item()", None),
        ("got = net(x)", "float(got[1])", None),
        ("got = numbers(x)", "(got['out'] > 0).sum().item()", ("got",)),
        ("got = {}\ngot['a'] = x.mean().item()\ngot['loss'] = model(x)", "(got['loss'] > 0).sum().item()", ("got",)),
        ("got = numbers(x)\ngot['loss'] = model(x)", "(got['loss'] > 0).sum().item()", ("got",)),
        ("found, top = net(x)", "(found > 0).sum().item()", ("found",)),
    ],
)
def test_a_number_that_is_taken_out_of_what_is_returned_has_no_rows(
    made: str, added: str, names: tuple[str, ...] | None
) -> None:
    facts = training(
        before=RETURNED,
        epoch="correct, n = 0, 0",
        step=f"{STEP}{made}\ncorrect += {added}\nn += 1\n",
        end_of_epoch="print(correct / n)",
    )
    found = trim_of(facts.program, facts.script.metrics.shared_loops[0], ["correct", "n"])
    assert (found.names if found is not None else None) == names
