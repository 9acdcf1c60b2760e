"""One server for all tests, so that torch is imported once; scripts are pairs of an original and a migrated text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from accelify.verify.experiment import Request
from accelify.verify.forking import Server
from accelify.verify.prove import prove
from accelify.verify.runs import Limits, Order, Runner
from accelify.verify.trace import Run
from accelify.verify.verdict import Row, Status, Verdict

# Bounds for a machine that does much else beside. Units: seconds.
LIMITS = Limits(steps=None, seconds=120.0, silence=60.0)

Prove = Callable[..., Verdict]


class RememberingRunner(Runner):
    """Makes no run of one file twice: many tests compare one original with scripts that are broken in one line."""

    _made: ClassVar[dict[object, Run]] = {}

    def run(self, order: Order, limits: Limits) -> Run:
        if order.until is not None or self._folder in order.project.root.parents:
            return super().run(order, limits)  # of files that another run left, in a folder that is gone afterwards
        script = dict(order.changed).get(order.project.script)
        text = (order.project.root / order.project.script).read_bytes() if script is None else script
        key = replace(order, project=None, changed=()), order.project.script, text, limits  # type: ignore[arg-type]
        if key in self._made:
            return self._made[key]
        run = super().run(order, limits)
        if not run.hang and run.error is None:
            self._made[key] = run
        return run


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def proving(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prove:
    """Verify an original, against a migrated text if there is one, else against what the codemod makes of it."""

    monkeypatch.setattr("accelify.verify.prove.Runner", RememberingRunner)

    def proven(original: str, migrated: str | None = None, limits: Limits = LIMITS, **more: object) -> Verdict:
        (tmp_path / "train.py").write_text(original)
        new = None
        if migrated is not None:
            new = tmp_path / "train_many.py"
            new.write_text(migrated)
        more = {"on_gpus": False, "launched": False, **more}
        request = Request(tmp_path / "train.py", against=new, limits=limits, folder=tmp_path, **more)  # type: ignore[arg-type]
        verdict = prove(request, lambda words: None, server)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"] + ["train_many.py"] * (new is not None)
        return verdict

    return proven


def row(verdict: Verdict, name: str, processes: int = 2) -> Row:
    return next(row for row in verdict.rows if (row.name, row.processes) == (name, processes))


def differing(verdict: Verdict) -> list[tuple[str, int]]:
    assert verdict.error is None, verdict.error
    found = [(row.name, row.processes) for row in verdict.rows if row.status is Status.DIFFERS]
    return list(dict.fromkeys(found))
