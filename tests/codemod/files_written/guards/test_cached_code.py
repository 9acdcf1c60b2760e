"""Facts about the code that one process runs before the others."""

from __future__ import annotations

import ast

from accelify.codemod.files_written.guards.cached_code import CachedCode
from tests.codemod.training_scripts import training


def test_only_what_makes_a_missing_file_is_run_first() -> None:
    end = (
        "if not os.path.exists('a.json'):\n    json.dump(1, open('a.json', 'w'))\n"
        "else:\n    r = json.load(open('a.json'))\n"
        "json.dump(2, open('b.json', 'w'))\n"
    )
    cached = training(imports="import json, os\n", end=end).script.written.guarding.cached
    assert isinstance(cached, CachedCode)
    dumps = [c for c in cached.program.calls if ast.unparse(c.func) == "json.dump"]
    assert [cached.holds(c) for c in dumps] == [True, False]
