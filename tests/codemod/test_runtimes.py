"""`--runtime accelerate`: what becomes of a script where `prepare` gives back a wrapper, and what is declined."""

from __future__ import annotations

from textwrap import dedent

import pytest

from accelify.codemod.options import ACCELERATE
from accelify.codemod.result import FileResult, Status
from accelify.codemod.rewrite import Options
from tests.codemod.pairs import run, script

HEAD = """\
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)

    def loss(self, x, y):
        return ((self.layer(x) - y) ** 2).mean()

def loader():
    return DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
"""


def to_accelerate(text: str, keep_global_batch: bool = False) -> FileResult:
    return run(text, Options(runtime=ACCELERATE, keep_global_batch=keep_global_batch))


def migrated(text: str) -> str:
    result = to_accelerate(HEAD + dedent(text))
    assert result.status is Status.MIGRATED, result.notes
    return result.after.decode()


def declined(text: str, reason: str, line: str) -> None:
    whole = HEAD + dedent(text)
    result = to_accelerate(whole)
    assert result.status is Status.DECLINED, result.after.decode()
    lines = [whole.splitlines()[note.line - 1].strip() for note in result.notes if reason in note.message]
    assert line in lines, result.notes


def test_the_import_is_accelerates() -> None:
    after = to_accelerate(script()).after.decode()
    assert "from accelerate import Accelerator\n" in after
    assert "accelify" not in after
    assert "loader, model, optimizer = accelerator.prepare(loader, model, optimizer)" in after


def test_a_shared_batch_is_said_its_way() -> None:
    after = to_accelerate(script(), keep_global_batch=True).after.decode()
    assert "from accelerate import Accelerator, DataLoaderConfiguration\n" in after
    assert "Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))" in after


LOOP = """
data = loader()
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    loss = {loss}
    loss.backward()
    optimizer.step()
{end}
"""
PLAIN = "nn.functional.mse_loss(model(x), y)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.save(model.state_dict(), 'm')", "accelerator.save(accelerator.unwrap_model(model).state_dict(), 'm')"),
        ("model.layer.bias", "accelerator.unwrap_model(model).layer.bias"),
        ("model.steps = 3", "accelerator.unwrap_model(model).steps = 3"),
        ("print(model)", "print(accelerator.unwrap_model(model))"),
        ("isinstance(model, Net)", "isinstance(accelerator.unwrap_model(model), Net)"),
        ("model.eval()", "model.eval()"),
        ("model(torch.ones(1, 4))", "model(torch.ones(1, 4))"),
    ],
)
def test_the_model_itself_is_reached_inside_its_wrapper(before: str, after: str) -> None:
    assert migrated(LOOP.format(loss=PLAIN, end=before)).rstrip().splitlines()[-1] == after


def test_what_comes_before_prepare_stays() -> None:
    after = migrated(LOOP.format(loss=PLAIN, end="").replace("optimizer =", "model.load_state_dict({})\noptimizer ="))
    assert "\nmodel.load_state_dict({})\n" in after


def test_a_term_beside_the_forward_pass_may_come_from_a_method() -> None:
    after = migrated(LOOP.format(loss=f"{PLAIN} + model.loss(x, y)", end=""))
    assert "+ accelerator.unwrap_model(model).loss(x, y)" in after


def test_a_trainer_prepares_the_model_under_the_name_that_it_keeps() -> None:
    after = migrated("""
        class Trainer:
            def __init__(self, model):
                self.model = model
                self.optimizer = optim.SGD(model.parameters(), lr=0.1)

            def fit(self, data):
                for x, y in data:
                    loss = nn.functional.mse_loss(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()

        trainer = Trainer(Net())
        trainer.fit(loader())
    """)
    assert "self.model, self.optimizer = " in after


def test_training_past_the_wrapper_is_declined() -> None:
    declined(LOOP.format(loss="model.loss(x, y)", end=""), "without the wrapper", "loss = model.loss(x, y)")
    declined(LOOP.format(loss="model.layer(x).mean()", end=""), "without the wrapper", "loss = model.layer(x).mean()")


def test_an_earlier_name_of_the_model_is_declined() -> None:
    text = LOOP.format(loss="net(x).mean()", end="").replace("optimizer = ", "net = model\noptimizer = ", 1)
    declined(text, "before it was prepared", "loss = net(x).mean()")


def test_a_second_backward_pass_through_one_forward_pass_is_declined() -> None:
    twice = "model(x).mean()\n    other = (loss * 2).sum()\n    loss.backward(retain_graph=True)\n    loss = other"
    declined(LOOP.format(loss=twice, end=""), "second backward pass", "loss.backward()")


def test_two_forward_and_backward_passes_are_not() -> None:
    twice = f"{PLAIN}\n    loss.backward()\n    loss = model(x).mean()"
    assert migrated(LOOP.format(loss=twice, end="")).count("accelerator.backward(loss)") == 2


def test_parameters_of_no_model_are_declined() -> None:
    text = LOOP.format(loss=f"{PLAIN} * scale", end="").replace("model.parameters()", "[*model.parameters(), scale]")
    declined(
        "scale = torch.ones(1, requires_grad=True)\n" + text,
        "belongs to prepared models",
        "optimizer = optim.SGD([*model.parameters(), scale], lr=0.1)",
    )


def test_a_loader_that_is_not_torchs_is_declined() -> None:
    own = "class Loader(DataLoader):\n    pass\n" + LOOP.format(loss=PLAIN, end="")
    declined(own.replace("data = loader()", "data = Loader([1, 2])"), "not a plain", "data = Loader([1, 2])")


def test_what_a_prepared_loader_hides_is_declined() -> None:
    declined(LOOP.format(loss=PLAIN, end="print(data.batch_size)"), "`data.batch_size`", "print(data.batch_size)")


def test_what_only_our_runtime_has_is_declined() -> None:
    text = LOOP.format(loss="model(x[i : i + 2]).mean()", end="").replace("data = loader()", "x = torch.ones(8, 4)")
    line = "for i in range(0, len(x), 2):"
    declined(text.replace("for x, y in data:", line), "shards loaders only", line)
    drawn = LOOP.format(loss="model(torch.randn(4, 4)).mean()", end="").replace("for x, y in data:", "while True:")
    declined(drawn, "drawn at random", "loss.backward()")


def test_options_of_save_are_declined() -> None:
    line = "torch.save(model.state_dict(), 'm', pickle_protocol=4)"
    declined(LOOP.format(loss=PLAIN, end=line), "options of `torch.save`", line)


def test_numbers_are_not_reduced_by_a_call_that_takes_tensors_only() -> None:
    after = migrated(
        LOOP.format(loss=f"{PLAIN}\n    total += loss.item()", end="print(total)").replace("for", "total = 0\nfor")
    )
    assert ".reduce(" not in after
