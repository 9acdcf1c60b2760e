"""Facts about options that are written out among the others, and so must stay text."""

from __future__ import annotations

import pytest

from accelify.codemod.devices.device_options import is_dumped_text
from accelify.codemod.semantics.scopes import assignment
from tests.codemod.facts import Facts


@pytest.mark.parametrize(
    ("text", "dumped"),
    [
        ("args.device = 'cuda:0'\njson.dump(vars(args), file)\n", True),
        ("args.device = 'cuda:0'\njson.dump(args.__dict__, file)\n", True),
        ("args.device = 'cuda:0'\njson.dump(vars(other), file)\n", False),
        ("args.device = torch.device('cuda')\njson.dump(vars(args), file)\n", False),
        ("args.device = 'cuda:0'\nprint(args.device)\n", False),
    ],
)
def test_options_that_are_written_out(text: str, dumped: bool) -> None:
    facts = Facts(f"import json, torch\n{text}")
    assigned = assignment(facts.statement("args.device = "))
    assert assigned is not None
    assert is_dumped_text(facts.program, ["main.py"], assigned) is dumped
