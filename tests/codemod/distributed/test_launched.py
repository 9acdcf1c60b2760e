"""Facts about a script that starts its processes itself, as the rules for it read them."""

from __future__ import annotations

import ast

from accelify.codemod.distributed.launched import Launched, LauncherEdits
from tests.codemod.distributed.scripts import distributed, edits, launching
from tests.codemod.distributed.test_launching import SPAWN
from tests.codemod.facts import Facts


def launched(facts: Facts) -> Launched:
    return Launched(facts.program, facts.tracer, launching(facts), edits(facts))


def test_what_a_file_calls_the_library() -> None:
    facts = distributed(SPAWN)
    assert launched(facts).group(facts["main(options)"]) == "dist"
    other = Facts("import torch.distributed\nfrom torch import distributed as d\nf()\n")
    assert launched(other).group(other["f()"]) == "d"
    plain = Facts("import torch.distributed\nf()\n")
    assert launched(plain).group(plain["f()"]) == "torch.distributed"


def test_what_is_started() -> None:
    facts = distributed(SPAWN)
    found = launched(facts)
    (spawn,) = found.launching.spawns
    assert ast.unparse(found.started(spawn)) == "worker"
    assert list(found.ranks_and_sizes(spawn)) == [("gpu", "get_rank"), ("size", "get_world_size")]


def test_the_function_by_its_keyword() -> None:
    facts = distributed("def w(i): pass\nmp.spawn(fn=w, nprocs=2)\n")
    (spawn,) = launched(facts).launching.spawns
    assert ast.unparse(launched(facts).started(spawn)) == "w"


def test_parameters_that_only_what_goes_has_read() -> None:
    facts = distributed(SPAWN)
    found = launched(facts)
    (spawn,) = found.launching.spawns
    assert list(found.unread(spawn)) == []  # `use` still reads them
    other = distributed(SPAWN.replace("    use(gpu, size, args)\n", ""))
    gone = launched(other)
    assert list(gone.unread(gone.launching.spawns[0])) == ["size"]


def test_what_is_noted_goes() -> None:
    found, statement = LauncherEdits(), ast.parse("f(x)").body[0]
    found.remove(statement)
    assert found.removed == [statement]
    assert set(ast.walk(statement)) <= found.gone
    found.refuse(statement, "odd")
    assert found.foreign == [(statement, "odd")]
