"""Facts about the code that one process runs before the others."""

from __future__ import annotations

import ast

import pytest

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


@pytest.mark.parametrize(
    ("block", "is_held"),
    [
        ("accelerator.main_process_first()", True),
        ("Accelerator.current().local_main_process_first()", True),
        ("runtime.PartialState().main_process_first()", True),
        ("accelerator.autocast()", False),
        ("other.main_process_first()", False),
    ],
)
def test_what_a_script_has_one_process_run_first(block: str, is_held: bool) -> None:
    imports = "import json\nimport accelify.runtime as runtime\nfrom accelify.runtime import Accelerator\n"
    before = "accelerator = Accelerator()\ndef keep():\n    json.dump(1, open('a.json', 'w'))\n"
    cached = training(imports=imports, before=f"{before}with {block}:\n    keep()\n").script.written.guarding.cached
    dump = next(c for c in cached.program.calls if ast.unparse(c.func) == "json.dump")
    assert cached.holds(dump) is is_held


KEPT = """\
def keep(folder):
    if not os.path.exists(folder):
        os.makedirs(folder)
    if not os.path.exists(folder + '/a.json'):
        json.dump(1, open(folder + '/a.json', 'w'))
    return json.load(open(folder + '/a.json'))
"""


@pytest.mark.parametrize(
    ("call", "is_first"),
    [("kept = keep('out')", True), ("try:\n    kept = keep('out')\nexcept OSError:\n    kept = None", False)],
)
def test_no_process_can_go_first_everywhere(call: str, is_first: bool) -> None:
    cached = training(imports="import json, os\n", before=f"{KEPT}{call}\n").script.written.guarding.cached
    made = [c for c in cached.program.calls if ast.unparse(c.func) in ("os.makedirs", "json.dump")]
    assert [(cached.holds(c), cached.goes_first(c)) for c in made] == [(True, is_first)] * 2
