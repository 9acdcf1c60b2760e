"""Training scripts composed of the kinds that strangers write, at random: each is migrated, and prints what it printed.

`make soak` tries many more of them; ACCELIFY_TEST_EXAMPLES says how many.
"""

from __future__ import annotations

import contextlib
import io
import os
from dataclasses import dataclass
from textwrap import dedent, indent

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelify.codemod.result import Status
from tests.codemod.pairs import run

EXAMPLES = int(os.environ.get("ACCELIFY_TEST_EXAMPLES", "20"))

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
features = torch.randn(24, 4)
labels = (features.sum(1) > 0).long()
"""
MODELS = {
    "plain": "model = nn.Linear(4, 2)\n",
    "layers": "model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n",
    "parts": "body = nn.Linear(4, 8)\nhead = nn.Linear(8, 2)\nmodel = nn.Sequential(body, head)\n",
}
DEVICES = {
    "none": ("", "{}", ""),
    "variable": (
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n',
        "{}.to(device)",
        "model = model.to(device)\n",
    ),
    "guard": ("use_cuda = torch.cuda.is_available()\n", "", "if use_cuda:\n    model.cuda()\n"),
    "choice": (
        "use_cuda = torch.cuda.is_available()\n",
        "{0}.cuda() if use_cuda else {0}",
        "model = model.cuda() if use_cuda else model\n",
    ),
}
DATA = {
    "loader": "loader = DataLoader(TensorDataset(features, labels), batch_size=4, shuffle=True)\n",
    "helper": (
        "def batches_of(size):\n"
        "    return DataLoader(TensorDataset(features, labels), batch_size=size)\n\n"
        "loader = batches_of(4)\n"
    ),
    "slices": "",
}
OPTIMIZERS = (
    "torch.optim.SGD(model.parameters(), lr=0.1)",
    "torch.optim.Adam([p for p in model.parameters()], lr=0.01)",
)
SCHEDULERS = ("", "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)\n")


METRICS = {"": "", "sum": "total += loss.item()\n", "count": "total += (scores.argmax(1) == y).sum().item()\n"}


@dataclass(frozen=True)
class Script:
    """What each part of a script is."""

    place: str
    model: str
    device: str
    data: str
    optimizer: str
    scheduler: str
    helper: bool
    clips: bool
    metric: str
    evaluates: bool

    def text(self) -> str:
        """The script."""
        chosen, moved, placed = DEVICES[self.device]
        setup = chosen + MODELS[self.model] + placed + DATA[self.data]
        setup += f"optimizer = {self.optimizer}\n" + self.scheduler
        fit = setup + self._epochs(moved)
        if self.place == "module":
            return HEAD + self._functions() + fit
        if self.place == "main":
            return (
                HEAD
                + self._functions()
                + "def main():\n"
                + indent(fit, "    ")
                + '\nif __name__ == "__main__":\n    main()\n'
            )
        owned = "self.model, self.optimizer = model, optimizer\n"
        return (
            HEAD
            + self._functions()
            + dedent("""\
            class Trainer:
                def __init__(self, model, optimizer):
                    {owned}
                def fit(self, batches):
                    total = 0.0
                    for x, y in batches:
                        self.optimizer.zero_grad()
                        loss = F.cross_entropy(self.model(x), y)
                        loss.backward()
                        self.optimizer.step()
                        total += loss.item()
                    return total
            """).format(owned=owned.strip())
            + setup
            + self._trainer()
        )

    def _trainer(self) -> str:
        batches = "loader" if self.data != "slices" else "[(features, labels)]"
        return f"trainer = Trainer(model, optimizer)\nfor epoch in range(2):\n    print(trainer.fit({batches}))\n"

    def _functions(self) -> str:
        out = ""
        if self.helper:
            out += (
                "def update(loss, optimizer):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n\n"
            )
        if self.evaluates:
            out += (
                "def accuracy(model):\n    model.eval()\n    with torch.no_grad():\n"
                "        return (model(features).argmax(1) == labels).float().mean().item()\n\n"
            )
        return out

    def _epochs(self, moved: str) -> str:
        body = ""
        if self.data == "slices":
            over = "for i in range(0, len(features), 4):\n"
            body += "x, y = features[i:i + 4], labels[i:i + 4]\n"
        else:
            over = "for x, y in loader:\n"
        if self.device == "guard":
            body += "if use_cuda:\n    x, y = x.cuda(), y.cuda()\n"
        elif self.device != "none":
            body += f"x = {moved.format('x')}\ny = {moved.format('y')}\n"
        body += "scores = model(x)\nloss = F.cross_entropy(scores, y)\n"
        if self.helper:
            body += "update(loss, optimizer)\n"
        else:
            body += "optimizer.zero_grad()\nloss.backward()\n"
            body += "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n" if self.clips else ""
            body += "optimizer.step()\n"
        body += {"": "", "sum": "total += loss.item()\n", "count": "total += (scores.argmax(1) == y).sum().item()\n"}[
            self.metric
        ]
        epoch = ("total = 0\n" if self.metric else "") + "model.train()\n" + over + indent(body, "    ")
        epoch += "scheduler.step()\n" if self.scheduler else ""
        epoch += "print(epoch, total)\n" if self.metric else "print(epoch, loss.item())\n"
        epoch += "print(accuracy(model))\n" if self.evaluates else ""
        return "for epoch in range(2):\n" + indent(epoch, "    ")


SCRIPTS = st.builds(
    Script,
    place=st.sampled_from(["module", "main", "method"]),
    model=st.sampled_from(list(MODELS)),
    device=st.sampled_from(list(DEVICES)),
    data=st.sampled_from(list(DATA)),
    optimizer=st.sampled_from(OPTIMIZERS),
    scheduler=st.sampled_from(SCHEDULERS),
    helper=st.booleans(),
    clips=st.booleans(),
    metric=st.sampled_from(list(METRICS)),
    evaluates=st.booleans(),
)


def printed(text: str) -> str:
    """What a script prints, run in this process."""
    torch.manual_seed(1)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
    return out.getvalue()


@given(SCRIPTS)
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES < 100, suppress_health_check=[HealthCheck.too_slow]
)
def test_a_composed_script_is_migrated_and_prints_what_it_printed(script: Script) -> None:
    before = script.text()
    result = run(before)
    assert result.status is Status.MIGRATED, result.notes
    after = result.after.decode()
    assert "accelerator.backward(" in after
    assert printed(after) == printed(before), after
