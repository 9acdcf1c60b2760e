"""The table of Accelerate's names is true of both libraries: theirs, where it is installed, and ours."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import accelify.runtime
from accelify.codemod.libraries.accelerate import PLACES, READ_ONLY, VERSION, Status, counterparts
from accelify.runtime import Accelerator, Environment

# Classes whose members have rows -> an object, for the attributes that only objects have.
MEMBERS = {
    "accelerate.Accelerator": lambda: theirs().Accelerator(cpu=True),
    "accelerate.state.PartialState": lambda: theirs().state.PartialState(cpu=True),
    "accelerate.state.AcceleratorState": lambda: (theirs().Accelerator(cpu=True), theirs().state.AcceleratorState())[1],
    "accelerate.state.GradientState": lambda: None,
}


def theirs() -> Any:
    module = pytest.importorskip("accelerate")
    if not module.__version__.startswith(VERSION):
        pytest.skip(f"the table is that of {VERSION}")
    return module


@cache
def rows() -> dict[str, Any]:
    return {each.name: each for each in counterparts()}


def resolve(name: str) -> Any:
    """The object of a qualified name, by import and attributes; AttributeError where there is none."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def public(module: Any) -> Iterator[str]:
    """The functions, classes and constants that a module of Accelerate's offers."""
    is_submodule = module.__name__ not in ("accelerate", "accelerate.utils")
    for name, value in vars(module).items():
        home = getattr(value, "__module__", None) or ""
        if name.startswith(("_", "TYPE_")) or inspect.ismodule(value):
            continue
        is_own = home == module.__name__ if is_submodule else home.startswith("accelerate")
        if is_own if callable(value) else name.isupper():
            yield name


def test_every_name_of_accelerate_has_a_row() -> None:
    theirs()
    for place in PLACES:
        missing = [name for name in public(importlib.import_module(place)) if f"{place}.{name}" not in rows()]
        assert missing == [], place


def test_every_row_is_a_name_of_accelerate() -> None:
    theirs()
    for name in rows():
        place = name.rpartition(".")[0]
        if place in PLACES and not name.endswith(")"):
            assert hasattr(importlib.import_module(place), name.rpartition(".")[2]), name


@pytest.mark.parametrize("owner", MEMBERS)
def test_every_member_has_a_row(owner: str) -> None:
    theirs()
    members = {name for name in [*dir(resolve(owner)), *vars(MEMBERS[owner]() or object)] if not name.startswith("_")}
    known = {name.rpartition(".")[2] for name in rows() if name.rpartition(".")[0] == owner and name[-1] != ")"}
    assert members - known == set()
    if owner != "accelerate.state.GradientState":  # whose attributes come with its first object
        assert known - members == set()


def test_what_is_not_absent_is_here() -> None:
    accelerator = Accelerator(cpu=True, environment=Environment())
    objects = {
        "accelify.runtime.Accelerator": accelerator,
        "accelify.runtime.state.AcceleratorState": accelerator.state,
        "accelify.runtime.state.GradientState": accelerator.gradient_state,
    }
    for row in rows().values():
        if row.becomes is None or row.becomes.endswith((")", "Optimizer.step_was_skipped")):
            continue
        owner, _, name = row.becomes.rpartition(".")
        assert hasattr(objects.get(owner) or resolve(owner), name), row.becomes


def test_what_is_read_only_cannot_be_set() -> None:
    accelerator = Accelerator(cpu=True, environment=Environment())
    objects = {"accelerate.Accelerator": accelerator}
    for owner, names in READ_ONLY.items():
        for name in names.split():
            with pytest.raises(AttributeError):
                setattr(objects.get(owner, accelerator.state), name, None)


def test_what_is_absent_is_not_here() -> None:
    for row in rows().values():
        place, _, name = row.name.rpartition(".")
        if row.status is Status.ABSENT and place in PLACES:
            assert not hasattr(resolve(f"accelify.runtime.{PLACES[place]}".rstrip(".")), name), name


def test_parameters_are_those_of_accelerate_in_its_order() -> None:
    """Unless a row says otherwise."""
    theirs()
    problems: list[str] = []
    for row in rows().values():
        if row.becomes is None or row.becomes.endswith(")"):
            continue
        try:
            a, b = resolve(row.name), resolve(row.becomes)
        except AttributeError:
            continue
        if not callable(a) or (inspect.isclass(a) and issubclass(a, str)):
            continue
        problems += mismatches(row, a, b)
    assert problems == []


def mismatches(row: Any, a: Any, b: Any) -> Iterator[str]:
    """The parameters of Accelerate's callable that ours does not take, or not in their place."""
    positional = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    try:
        wanted, given = inspect.signature(a).parameters, inspect.signature(b).parameters
    except ValueError:  # an enumeration's
        return
    takes_all = any(p.kind is p.VAR_KEYWORD for p in given.values())
    ours = [name for name, p in given.items() if p.kind in positional]
    for at, (name, parameter) in enumerate(wanted.items()):
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        known = rows().get(f"{row.name}({name})")
        if known is not None and known.status is Status.ABSENT:
            continue
        if name not in given and not takes_all:
            yield f"{row.name}({name})"
        elif (
            known is None and parameter.kind in positional and row.status is Status.SAME and ours[at : at + 1] != [name]
        ):
            yield f"{row.name}({name}) by position"


def test_modules_stand_for_those_of_accelerate() -> None:
    assert accelify.runtime.utils.set_seed is accelify.runtime.set_seed
    assert accelify.runtime.logging.get_logger is accelify.runtime.get_logger
    assert accelify.runtime.launchers.notebook_launcher is accelify.runtime.notebook_launcher
