"""The note on a notebook names the cells that a function for several processes must hold, and what it cannot hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.options import Options
from accelify.codemod.rewrite import rewrite_source, rewrite_together
from tests.codemod.notebooks import IMPORTS, OPTIMIZER, SETUP, TRAINING, content, sources, written

FIT = "def fit(model):\n" + "\n".join(f"    {line}" for line in f"{OPTIMIZER}\n{TRAINING[7:]}".splitlines())


def note(*cells: str) -> str:
    result = rewrite_source("book.ipynb", written(content(*cells)), Options())
    (said,) = [n.message for n in result.notes if "otebook runs in one process" in n.message]
    return said


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ((IMPORTS, SETUP, FIT, "fit(model)", "print(model.weight)"), "cells 1 to 5"),
        ((IMPORTS[19:], SETUP, OPTIMIZER, TRAINING, "print('done')"), "cells 1 to 4"),
        (("import os", IMPORTS, SETUP, OPTIMIZER, TRAINING), "cells 2 to 5"),
        (("X = 1", IMPORTS, SETUP, OPTIMIZER, TRAINING, "X = 2 * X"), "cells 2 to 5"),
        (("X = 1", IMPORTS, SETUP, OPTIMIZER, TRAINING, "X = 2 * len(data)"), "cells 1 to 6"),
        (("def shown():\n    print(model)", IMPORTS, SETUP, OPTIMIZER, TRAINING), "cells 1 to 5"),
        (("seen = []", IMPORTS, SETUP, OPTIMIZER, TRAINING + "\nseen.append(1)", "print(seen)"), "cells 1 to 6"),
        ((IMPORTS, SETUP, OPTIMIZER, TRAINING, "!echo {len(data)}"), "cells 1 to 4"),
    ],
)
def test_all_that_uses_the_variables_goes_into_the_function(cells: tuple[str, ...], expected: str) -> None:
    assert f"move the code of the {expected} into a function `train`" in note(*cells)


DRAWN = "import matplotlib.pyplot as plt\ndef draw(values):\n    plt.plot(values)\n    plt.show()"


@pytest.mark.parametrize(
    ("cells", "is_said"),
    [
        ((DRAWN, SETUP, OPTIMIZER, TRAINING, "draw(model.weight.detach())"), True),
        ((DRAWN, SETUP, OPTIMIZER, TRAINING + "\ndraw([1])"), True),
        ((DRAWN, SETUP, FIT + "\n    draw([1])", "fit(nn.Linear(4, 1))"), True),
        ((SETUP, OPTIMIZER, TRAINING), False),
    ],
)
def test_figures_are_spoken_of_where_the_function_draws_some(cells: tuple[str, ...], is_said: bool) -> None:
    assert ("Figures do not appear" in note(IMPORTS, *cells)) is is_said


def test_what_a_function_cannot_hold_is_named() -> None:
    start = "from math import *\ndef train():\n    global best\n    best = 2\nbest = 1"
    said = note(IMPORTS, f"{SETUP}\n{start}", OPTIMIZER, TRAINING)
    assert "a function `train_all`, without magics and `!` commands, the `import *` of cell 2 (it stays above)" in said
    assert "with `nonlocal` for `best` where there is `global`" in said
    assert "nonlocal" not in note(IMPORTS, f"{SETUP}\n{start.removesuffix('best = 1')}", OPTIMIZER, TRAINING)
    future = "from __future__ import annotations\n"
    said = note(future + IMPORTS, f"{future}{SETUP}", OPTIMIZER, TRAINING)
    assert "the `from __future__ import` of cell 1 (it stays above), the `from __future__ import` of cell 2" in said
    assert "__future__" not in note(f"{future}import os", IMPORTS, SETUP, OPTIMIZER, TRAINING)


WHOLE = """\
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("head", "call", "launched"),
    [
        ("fit(model, epochs=2, rate=0.1)", "fit(model, rate=0.5)", "fit, args=(model, 2, 0.5)"),
        ("fit(model, epochs=2, rate=0.1)", "fit(nn.Linear(4, 1), 3)", "fit, args=(nn.Linear(4, 1), 3)"),
        ("fit(model)", "fit(model=model)", "fit, args=(model,)"),
        ("fit(model, epochs=2)", "pass", "fit, args=(model,)"),  # as its parameters are called
        ("fit(model, epochs=2)", "fit(*given)", "fit, args=(model,)"),
        ("fit(epochs=2)", "fit()", "fit"),
    ],
)
def test_a_function_is_launched_with_its_arguments(head: str, call: str, launched: str) -> None:
    function = f"def {head}:\n{WHOLE if 'model' in head else f'    model = nn.Linear(4, 1){chr(10)}{WHOLE}'}"
    assert f"start it with `notebook_launcher({launched})`" in note(IMPORTS, "model = nn.Linear(4, 1)", function, call)


GIVEN = f"def fit(model):\n{WHOLE}"
SHOWN = "print(model.weight)"
OF_ITS_OWN = f"def fit():\n    model = nn.Linear(4, 1)\n{WHOLE}"
LOSSES = "        losses.append(loss.item())\n"
TRAINER = "class Trainer:\n    def __init__(self, model):\n        self.model = model\n    def fit(self):\n"
TRAINER += "".join(f"    {line}\n" for line in WHOLE.replace("model", "self.model").splitlines())
MODEL = "model = nn.Linear(4, 1)"


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        ((IMPORTS, GIVEN, MODEL, "fit(model)", SHOWN, "print(1)"), "the cells 3 to 5 into"),
        ((IMPORTS, MODEL, f"def fit():\n{WHOLE}", "fit()", f"def show():\n    {SHOWN}", "show()"), "the cells 2 to 6"),
        ((IMPORTS, MODEL, TRAINER, "trainer = Trainer(model)", "trainer.fit()", SHOWN), "the cells 2 to 6 into"),
        ((IMPORTS, "losses = []", OF_ITS_OWN + LOSSES, "fit()", "print(losses)"), "the cells 2 to 5 into"),
        ((IMPORTS, OF_ITS_OWN + "    torch.save(model, 'm')", "fit()", MODEL, SHOWN), "with `notebook_launcher(fit)`"),
        ((IMPORTS, GIVEN, MODEL, SHOWN, "fit(model)"), "with `notebook_launcher(fit, args=(model,))`"),
        ((IMPORTS, OF_ITS_OWN + "    return model", "model = fit()", SHOWN), "with `model = notebook_launcher(fit)`"),
    ],
)
def test_cells_that_use_what_a_function_has_trained_go_with_it(cells: tuple[str, ...], advice: str) -> None:
    assert advice in note(*cells)


FETCH = "import urllib.request\nurllib.request.urlretrieve('http://a.b/c', 'c')"


@pytest.mark.parametrize(
    ("cells", "created"),
    [
        ((IMPORTS, FETCH, SETUP, OPTIMIZER, TRAINING), 0),
        ((IMPORTS, "import torch\nprint(torch.__version__)", SETUP, OPTIMIZER, TRAINING), 0),
        (("import os", IMPORTS, "os.environ['CUDA_VISIBLE_DEVICES'] = '1'", FETCH, SETUP, OPTIMIZER, TRAINING), 2),
    ],
)
def test_the_accelerator_is_created_in_a_cell_that_is_not_left_out(cells: tuple[str, ...], created: int) -> None:
    after = sources(rewrite_source("book.ipynb", written(content(*cells)), Options()).after)
    assert ["accelerator = Accelerator()" in cell for cell in after].index(True) == created


@pytest.mark.parametrize("shown", ["plt.show()", "plt.plot([1])\nplt.show(block=True)"])
def test_no_process_waits_for_a_figure_in_the_page(shown: str) -> None:
    cells = (f"{IMPORTS}\nimport matplotlib.pyplot as plt", shown, SETUP, OPTIMIZER, TRAINING)
    result = rewrite_source("book.ipynb", written(content(*cells)), Options())
    assert not any("window" in n.message for n in result.notes)


AGENT = """\
import torch
from torch import nn

class Agent:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def update(self, x):
        loss = self.net(x).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

def run(steps):
    agent = Agent()
    for step in range(steps):
        agent.update(torch.randn(8, 4))

def plotted(values):
    return [value * 2 for value in values]
"""
LOADED = "import torch\nfrom agent import Agent"
STEPS = "for step in range(100):\n    agent.update(torch.randn(8, 4))"
IN_FUNCTION = "def learn():\n    agent = Agent()\n" + "\n".join(f"    {line}" for line in STEPS.splitlines())
HEIR = "class Own(Agent):\n    def act(self, x):\n        return self.net(x)"


def notes_beside_an_agent(tmp_path: Path, *cells: str) -> list[tuple[int | None, str]]:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "book.ipynb").write_bytes(written(content(*cells)))
    found = {Path(r.path).name: r for r in rewrite_together((str(tmp_path / "book.ipynb"),), Options())}
    return [(n.cell, n.message) for n in found["book.ipynb"].notes if n.rule == "notebooks"]


@pytest.mark.parametrize(
    ("cells", "cell", "advice"),
    [
        ((LOADED, f"agent = Agent()\n{STEPS}"), 2, "move the code of cell 2 into a function `train`"),
        ((LOADED, "agent = Agent()", "print(1)", STEPS), 2, "move the code of the cells 2 to 4 into a function"),
        ((LOADED, HEIR, "agent = Own()", STEPS), 3, "move the code of the cells 3 to 4 into a function `train`"),
        (("import agent", "agent.run(10)", "print(1)"), 2, "move the code of cell 2 into a function `train`"),
        ((LOADED, IN_FUNCTION, "learn()"), 2, "start it with `notebook_launcher(learn)`"),
    ],
)
def test_a_notebook_that_calls_what_creates_the_accelerator(
    tmp_path: Path, cells: tuple[str, ...], cell: int, advice: str
) -> None:
    ((at, message),) = notes_beside_an_agent(tmp_path, *cells)
    assert advice in message
    assert at == cell


@pytest.mark.parametrize("cells", [("from agent import plotted", "print(plotted([1]))"), (LOADED, "print(Agent)")])
def test_a_notebook_that_trains_nothing_is_not_launched(tmp_path: Path, cells: tuple[str, ...]) -> None:
    assert not notes_beside_an_agent(tmp_path, *cells)


def test_it_is_said_with_the_note_on_the_data() -> None:
    whole = "x, y = torch.randn(8, 4), torch.randn(8, 1)\nfor epoch in range(3):\n    optimizer.zero_grad()\n"
    whole += "    loss = nn.functional.mse_loss(model(x), y)\n    loss.backward()\n    optimizer.step()"
    model = "model = nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    result = rewrite_source("book.ipynb", written(content(IMPORTS, model, whole)), Options())
    (found,) = result.notes
    assert found.rule == "data"
    assert "A notebook runs in one process" in found.message
