"""Each module of data gives rows; and what some of them say."""

from __future__ import annotations

from types import ModuleType

import pytest

from accelify.codemod.libraries import table
from accelify.codemod.libraries.row import Effect, Role, row_of
from accelify.codemod.libraries.tables import (
    arrays,
    collectives,
    datasets,
    files,
    logs_and_plots,
    python,
    tensors,
    torch_functions,
    torch_modules,
    training,
)

MODULES = {
    "numpy.mean": arrays,
    "torch.distributed.all_reduce": collectives,
    "torch.utils.data.DataLoader": datasets,
    "torch.save": files,
    "matplotlib.pyplot.plot": logs_and_plots,
    "print": python,
    "gym.make": datasets,
    "torch.cat": torch_functions,
    "torch.nn.Linear": torch_modules,
    "torch.optim.SGD": training,
}


@pytest.mark.parametrize("module", [*MODULES.values(), tensors], ids=lambda module: module.__name__.rpartition(".")[2])
def test_its_rows_are_in_the_table(module: ModuleType) -> None:
    names = (module.__name__, module.__name__.rpartition(".")[2])
    own = [facts for _, facts, source in table.entries() if source in names]
    assert own
    for facts in set(own):
        row_of(facts)


@pytest.mark.parametrize("name", MODULES)
def test_a_name_of_each(name: str) -> None:
    assert table.function(name) is not None


def test_what_some_do() -> None:
    def effects(name: str) -> frozenset[Effect]:
        row = table.function(name)
        assert row is not None
        return row.effects

    assert effects("torch.save") == {Effect.WRITES_FILES}
    assert effects("matplotlib.pyplot.plot") == {Effect.PLOTS}
    assert effects("torch.cat") == frozenset()
    assert effects("numpy.mean") == frozenset()
    row = table.function("torch.optim.SGD")
    assert row is not None
    assert row.role is Role.OPTIMIZER
