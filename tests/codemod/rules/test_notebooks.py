"""The note on a notebook names the cells that a function for several processes must hold, and what it cannot hold."""

from __future__ import annotations

import pytest

from accelify.codemod.options import Options
from accelify.codemod.rewrite import rewrite_source
from tests.codemod.notebooks import IMPORTS, OPTIMIZER, SETUP, TRAINING, content, sources, written

FIT = "def fit(model):\n" + "\n".join(f"    {line}" for line in f"{OPTIMIZER}\n{TRAINING[7:]}".splitlines())


def note(*cells: str) -> str:
    result = rewrite_source("book.ipynb", written(content(*cells)), Options())
    return next(n.message for n in result.notes if n.rule == "notebooks")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ((IMPORTS, SETUP, FIT, "fit(model)", "print(model.weight)"), "cells 1 to 5"),
        ((IMPORTS[19:], SETUP, OPTIMIZER, TRAINING, "print('done')"), "cells 1 to 4"),
        (("import os", IMPORTS, SETUP, OPTIMIZER, TRAINING), "cells 2 to 5"),
        (("X = 1", IMPORTS, SETUP, OPTIMIZER, TRAINING, "X = 2 * X"), "cells 2 to 5"),
        (("X = 1", IMPORTS, SETUP, OPTIMIZER, TRAINING, "X = 2 * len(data)"), "cells 1 to 6"),
        (("def shown():\n    print(model)", IMPORTS, SETUP, OPTIMIZER, TRAINING), "cells 1 to 5"),
        ((IMPORTS, SETUP, OPTIMIZER, TRAINING, "!echo {len(data)}"), "cells 1 to 4"),
    ],
)
def test_all_that_uses_the_variables_goes_into_the_function(cells: tuple[str, ...], expected: str) -> None:
    assert f"move the code of the {expected} into a function `train`" in note(*cells)


def test_what_a_function_cannot_hold_is_named() -> None:
    start = "from math import *\ndef train():\n    global best\n    best = 2\nbest = 1"
    said = note(IMPORTS, f"{SETUP}\n{start}", OPTIMIZER, TRAINING)
    assert "a function `train_all`, without magics and `!` commands, the `import *` of cell 2 (it stays above)" in said
    assert "with `nonlocal` for `best` where there is `global`" in said


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
