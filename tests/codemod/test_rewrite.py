"""What the rewriter takes for a script that trains."""

from __future__ import annotations

import pytest

from accelify.codemod.result import Status
from tests.codemod.pairs import run


@pytest.mark.parametrize(("library", "status"), [("mxnet", Status.UNCHANGED), ("torch", Status.MIGRATED)])
def test_a_loss_of_another_library_is_left_alone(library: str, status: Status) -> None:
    """Its `backward` is not torch's, and no model of its own can be prepared."""
    text = (
        f"import {library}\nfrom {library} import nn\nfrom rows import loader\nmodel = nn.Linear(1, 1)\n"
        f"optimizer = {library}.optim.SGD(model.parameters(), lr=0.1)\nfor x in loader:\n    optimizer.zero_grad()\n"
        "    loss = model(x).sum()\n    loss.backward()\n    optimizer.step()\n"
    )
    assert run(text).status is status
