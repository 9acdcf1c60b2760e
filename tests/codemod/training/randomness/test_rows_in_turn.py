"""Facts about rows that each round takes in their turn, in an order that is drawn before the loop, or never."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.training.randomness.rows_in_turn import RowsInTurn
from tests.codemod.facts import Facts
from tests.codemod.pairs import run

HEAD = """\
import numpy as np
import torch
rows = torch.load("rows.pt")
{before}
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{behind}
"""
LOOP = """\
at = 0
for step in range(90):
    {take}
    at += 8
    if at + 8 > len(rows):
        at = 0
        {anew}
    loss = (model(x + 0.1 * torch.randn(8, 1)) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
UNTIL = "takes the same rows here until they are drawn anew"
NEVER = "every process has the same rows here"
ANEW = "rows = rows[torch.randperm(len(rows))]"
PICK = """\
def pick(n):
    places = [np.random.randint(90) for _ in range(n)]
    return torch.as_tensor(rows[np.asarray(places)])
"""
MEMORY = """\
class Memory:
    def place(self):
        return np.random.randint(90)
    def sample(self, n):
        places = np.asarray([self.place() for _ in range(n)])
        return [torch.as_tensor(each) for each in (rows[places], rows[places])]
"""
CASES = {
    ("rows = rows[torch.randperm(len(rows))]", "", "x = rows[at : at + 8]", ANEW): UNTIL,
    ("np.random.shuffle(rows)", "", "x = rows[at : at + 8]", ANEW): UNTIL,
    ("order = torch.randperm(len(rows))", "", "x = rows[order[at : at + 8]]", "order = torch.randperm(90)"): UNTIL,
    ("", "", "x = rows[at : at + 8, :1]", ""): NEVER,
    ("order = torch.randperm(len(rows))", "", "x = rows[order[at : at + 8]]", ""): NEVER,
    ("", "np.random.shuffle(rows)", "x = rows[at : at + 8]", ANEW): "",
    ("", "order = torch.randperm(len(rows))", "x = rows[order[at : at + 8]]", ""): "",
    ("", "", "x = rows[torch.randint(90, (8,))]", ""): "",
    ("", "", "drawn = torch.rand(90, 1); x = drawn[at : at + 8]", ""): "",
    (PICK, "", "drawn = pick(90); x = drawn[at : at + 8]", ""): "",
    (MEMORY, "", "drawn, others = Memory().sample(90); x = drawn[at : at + 8]", ""): "",
    ("def kept(n):\n    return rows[:n]", "", "taken = kept(90); x = taken[at : at + 8]", ""): NEVER,
}


@pytest.mark.parametrize("case", CASES)
def test_rows_that_all_processes_take_at_the_same_time_are_noted(case: tuple[str, str, str, str]) -> None:
    before, behind, take, anew = case
    result = run((HEAD + LOOP).format(before=before, behind=behind, take=take, anew=anew or "pass"))
    assert result.after != result.before
    notes = " ".join(note.message for note in result.notes)
    for text in (UNTIL, NEVER):
        assert (text in notes) == (text == CASES[case])


def test_what_draws_the_order_is_found_with_the_rows() -> None:
    order = "order = torch.randperm(len(rows))"
    facts = Facts((HEAD + LOOP).format(before=order, behind="", take="x = rows[order[at : at + 8]]", anew=order))
    (found,) = RowsInTurn(facts.program, facts.training).find()
    assert ast.unparse(found.rows) == "order[at:at + 8]"
    assert [ast.unparse(facts.program.statement(c)) for c in (*found.before, *found.at_times)] == [order, order]
