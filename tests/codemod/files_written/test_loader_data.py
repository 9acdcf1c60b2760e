"""Facts about the data that loaders are made with: by code that is not known, and item by item."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.files_written.loader_data import LoaderData
from tests.codemod.facts import Facts
from tests.codemod.pairs import run
from tests.codemod.training_scripts import script, training

GRAPHS = """
class Graphs(InMemoryDataset):
    def __init__(self, root):
        super().__init__(root)
        self.data, self.slices = torch.load(self.processed_paths[0])
    def process(self):
        torch.save(self.collate([]), self.processed_paths[0])
"""


def rewritten(**slots: str) -> str:
    return run(script(**slots)).after.decode()


def made(facts: Facts) -> list[str]:
    calls = LoaderData(facts.program, facts.roles).calls
    return [ast.unparse(c) for c in sorted(calls, key=facts.program.position)]


@pytest.mark.parametrize(
    ("before", "calls"),
    [
        ("rows = fancy.Data('d')", ["fancy.Data('d')"]),
        ("rows = fancy.data.load(root)", ["fancy.data.load(root)"]),
        ("train, rows = fancy.load()", ["fancy.load()"]),
        ("rows, rest = torch.utils.data.random_split(fancy.Data('d'), [4, 2])", ["fancy.Data('d')"]),
        (
            "module = fancy.Module('d')\nmodule.prepare()\nrows = module.train",
            ["fancy.Module('d')", "module.prepare()"],
        ),
        ("class Own(fancy.Data): pass\nrows = Own('d')", ["Own('d')"]),
        ("rows = torch.utils.data.TensorDataset(fancy.load('x'))", []),  # values, not a data set
        ("rows = fancy.rows(torch.ones(4, 1))", []),
        ("rows = torch.load('x')\nother = fancy.Data('d')", []),
        ("class Own(torch.utils.data.Dataset): pass\nrows = Own('d')", []),
        ("rows = [fancy.graph(path) for path in paths]", []),  # items, not data sets
        ("def kept(path):\n    return fancy.Graph(path)\nrows = [kept('a'), kept('b')]", []),
        ("rows = []\nfor path in paths:\n    rows.append(fancy.Graph(path))", []),
        ("rows = torch.utils.data.ConcatDataset([fancy.Data('a'), own])", ["fancy.Data('a')"]),
        ("parts = [fancy.Data('a'), fancy.Data('b')]\nrows = parts[0]", ["fancy.Data('a')"]),
        ("parts = {'train': fancy.Data('a')}\nrows = parts['train']", ["fancy.Data('a')"]),
    ],
)
def test_data_sets_of_code_that_is_not_known(before: str, calls: list[str]) -> None:
    assert made(training(imports="import fancy", before=before)) == calls


FACTORY = """\
import fancy, nets
class Base({base}):
    pass
class Net(Base):
    pass
class Rows(fancy.Rows):
    pass
KINDS = {{"net": Net, "loader": DataLoader, "adam": torch.optim.Adam}}
def get(name, *args):
    return {make}
rows = Rows("d")
more = get("loader", rows)
net = Net()
net.train()
other = get("adam", net, net.parameters())
kept = DataLoader(rows)
"""


@pytest.mark.parametrize(
    ("make", "base"),
    [
        ("KINDS[name](*args)", "nets.Base"),
        ("KINDS[name](*args)", "nn.Module, nets.Mixin"),
        ("DataLoader(*args) if name == 'loader' else KINDS[name](*args)", "nn.Module, nets.Mixin"),
    ],
)
def test_what_makes_loaders_and_models_alike_takes_models_for_no_data(make: str, base: str) -> None:
    before = FACTORY.format(make=make, base=base)
    assert made(training(before=before)) == ["Rows('d')"]


def test_what_a_library_runs_is_left_to_the_process_that_is_first() -> None:
    graphs = f"{GRAPHS}\nrows = Graphs('d')"
    after = rewritten(imports="from torch_geometric.data import InMemoryDataset", before=graphs)
    assert "with accelerator.main_process_first():\n    rows = Graphs('d')" in after
    assert "        torch.save(self.collate([]), self.processed_paths[0])" in after
    assert "wait_for_everyone" not in after


ITEMS = """
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        {path}
        if not os.path.exists(path):
            {write}
        return np.load(path)
rows = Rows()
"""


@pytest.mark.parametrize(
    ("path", "write"),
    [
        ("path = f'{i}.npy'", "np.save(path, np.ones(1))"),
        ("path = os.path.join('d', '%d.npy' % i)", "np.ones(1).tofile(path)"),
        ("path = self.names[i]", "torch.save(torch.ones(1), path)"),
    ],
)
def test_each_process_writes_the_files_of_its_items(path: str, write: str) -> None:
    before = ITEMS.format(path=path, write=write)
    after = rewritten(imports="import os\nimport numpy as np", before=before)
    assert f"        if not os.path.exists(path):\n            {write}\n" in after


@pytest.mark.parametrize(
    ("path", "write", "is_noted"),
    [
        ("path = 'scale.npy'", "np.save(path, np.ones(i))", True),
        ("path = os.path.join(self.root, 'scale.npy')", "np.save(path, np.ones(i))", True),
        ("path = f'{self.root}/scale.npy'", "np.ones(i).tofile(path)", True),
        ("path = f'{self.root}/{i}.npy'", "np.save(path, np.ones(1))", False),
        ("path = self.names[i]", "np.ones(i).tofile(path)", False),
        ("file = open(f'{i}.txt', 'w'); path = 1", "file.write('1')", False),
    ],
)
def test_one_file_of_all_items_is_written_by_every_process(path: str, write: str, is_noted: bool) -> None:
    before = ITEMS.format(path=path, write=write).replace("if not os.path.exists(path):", "if i:")
    result = run(script(imports="import os\nimport numpy as np", before=before))
    assert any("every process writes this" in n.message for n in result.notes if n.rule == "writes") is is_noted
    assert before in result.after.decode()
