"""Models that are prepared for their running statistics alone."""

from __future__ import annotations

import pytest

from accelify.codemod.preparing.objects.bindings import Bindings
from accelify.codemod.preparing.objects.found import Found
from accelify.codemod.preparing.objects.running_statistics import RunningStatistics
from tests.codemod.facts import Facts
from tests.codemod.pairs import migrated
from tests.codemod.preparing.objects.texts import HEAD
from tests.codemod.training_scripts import script, training

FROZEN = """\
def evaluated(net):
    return net.eval()
encoder = nn.Sequential(nn.Linear(4, 4), nn.{layer}(4))
for weight in encoder.parameters():
    weight.requires_grad = False
"""


@pytest.mark.parametrize(
    ("layer", "modes", "is_prepared"),
    [
        ("BatchNorm1d", ("encoder.train()", "encoder.eval()"), True),
        ("BatchNorm1d", ("encoder.train(True)", "encoder.train(False)\nencoder.eval()"), True),
        ("BatchNorm1d", ("encoder.eval()", "encoder.eval()"), False),
        ("BatchNorm1d", ("encoder.train()", "torch.save(encoder.state_dict(), 'encoder.pth')"), True),
        ("BatchNorm1d", ("encoder.train()", "print(encoder)"), False),
        ("LayerNorm", ("encoder.train()", "encoder.eval()"), False),
        ("BatchNorm1d", ("pass", "encoder.eval()"), True),
        ("BatchNorm1d", ("pass", "shown = evaluated(encoder)"), True),
        ("BatchNorm1d", ("pass", "torch.save(encoder.state_dict(), 'encoder.pth')"), True),
        ("BatchNorm1d", ("evaluated(encoder)", "torch.save(encoder.state_dict(), 'encoder.pth')"), False),
        ("BatchNorm1d", ("pass", "print(encoder)"), False),
        ("LayerNorm", ("pass", "encoder.eval()"), False),
    ],
)
def test_a_frozen_model_whose_statistics_change_is_prepared(
    layer: str, modes: tuple[str, str], is_prepared: bool
) -> None:
    step = (
        "loss = nn.functional.mse_loss(model(encoder(x)), y)\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()"
    )
    facts = training(before=FROZEN.format(layer=layer), epoch=modes[0], step=step, end=f"{modes[1]}\nencoder(rows)")
    assert ("encoder" in [i.text for i in facts.script.preparation.items]) is is_prepared


TEACHER = """\
def build():
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
def shown(net):
    net.eval()
    print(net(data[0][0][None]))
{made}
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for epoch in range(2):
    student.train(); {mode}
    for x, y in DataLoader(data, batch_size=2):
        loss = nn.functional.mse_loss(student(x), teacher(x).detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    shown(teacher); shown(student)
"""


@pytest.mark.parametrize(
    "made",
    [
        "student, teacher = build(), build()",
        "student = build()\nteacher = build()\nteacher.load_state_dict(student.state_dict())",
        "from copy import deepcopy\nstudent = build()\nteacher = deepcopy(student)",
    ],
)
def test_a_teacher_made_as_its_student_is_prepared_where_its_statistics_change(made: str) -> None:
    after = migrated(HEAD + TEACHER.format(made=made, mode="teacher.train()"))
    (prepared,) = [line for line in after.splitlines() if ".prepare(student" in line or ".prepare(teacher" in line]
    assert sorted(prepared.split(" = ")[0].split(", ")) == ["optimizer", "student", "teacher"]
    after = migrated(HEAD + TEACHER.format(made=made, mode="teacher.eval()"))
    assert "student, optimizer = accelerator.prepare(student, optimizer)" in after


def test_another_name_of_a_prepared_model_is_not_prepared() -> None:
    after = migrated(HEAD + TEACHER.format(made="student = build()\nteacher = student", mode="teacher.train()"))
    assert "student, optimizer = accelerator.prepare(student, optimizer)" in after


AVERAGED = """\
from torch.optim.swa_utils import AveragedModel, update_bn
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
average = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=2)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    average.update_parameters(model)
{call}
"""


@pytest.mark.parametrize(
    ("call", "is_prepared"),
    [
        ("update_bn(loader, average)", True),
        ("torch.optim.swa_utils.update_bn(model=average, loader=loader, device='cpu')", True),
        ("net = average\nupdate_bn(loader, net)", True),
        ("update_bn(DataLoader(data), average)", False),
        ("average.eval()", False),
    ],
)
def test_an_average_whose_statistics_come_from_a_prepared_loader_is_prepared(call: str, is_prepared: bool) -> None:
    found = Facts(HEAD + AVERAGED.format(call=call)).script.preparation.items
    assert ("average" in [item.text for item in found]) is is_prepared


def test_no_model_is_prepared_for_statistics_that_it_does_not_keep() -> None:
    facts, found = Facts(script()), Found(set())
    code = facts.program, facts.roles, facts.tracer
    RunningStatistics(*code, facts.training, Bindings(*code), found).add_switching()
    assert not found.items


HEADS = """\
encoder = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
heads = [nn.Sequential(nn.BatchNorm1d(4)), nn.Sequential(nn.BatchNorm1d(4))]
"""
JOINT = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()"


@pytest.mark.parametrize(
    "runs",
    [
        "outputs = [model(head(x)) for head in heads]",
        "outputs = list(model(head(x)) for head in heads)",
        "outputs = list(map(lambda head: model(head(x)), heads))",
        "outputs = [*{i: model(head(x)) for i, head in enumerate(heads)}.values()]",
    ],
)
def test_a_name_within_an_expression_is_no_model_to_prepare(runs: str) -> None:
    step = f"{runs}\nloss = sum(nn.functional.mse_loss(o, y) for o in outputs)\n{JOINT}"
    facts = training(before=HEADS, step=step, end="for head in heads:\n    head.eval()\n    print(head(rows))")
    assert "head" not in [i.text for i in facts.script.preparation.items]


def test_a_name_of_its_own_that_runs_in_a_comprehension_is_prepared() -> None:
    step = f"outputs = [model(encoder(x)) for _ in range(2)]\nloss = nn.functional.mse_loss(outputs[0], y)\n{JOINT}"
    facts = training(before=HEADS, step=step, end="encoder.eval()\nprint(encoder(rows))")
    assert "encoder" in [i.text for i in facts.script.preparation.items]
