"""Which classes do what a dictionary of attributes does, and what is known of what is in them?"""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.dataflow.attribute_dicts import is_attribute_dict
from tests.codemod.facts import values
from tests.codemod.pairs import migrated

READ = "\n    def __getattr__(self, key):\n        return self[key]"
SET = "\n    def __setattr__(self, key, value):\n        self[key] = value"
TRIED = """
    def __getattr__(self, key):
        try:
            return self[key]
        except KeyError as error:
            raise AttributeError(key) from error"""
ITSELF = """
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self"""


@pytest.mark.parametrize(
    ("body", "is_it"),
    [
        (READ + SET, True),
        ('\n    """A box."""' + TRIED + SET, True),
        ("\n    __getattr__ = dict.get\n    __setattr__ = dict.__setitem__\n    __delattr__ = dict.__delitem__", True),
        (ITSELF, True),
        (READ, False),
        (SET, False),
        ("\n    pass", False),
        (READ + SET + "\n    def run(self):\n        return 3", False),
        (READ + SET + "\n    def __setitem__(self, key, value):\n        print(key)", False),
        (READ.replace("self[key]", "3") + SET, False),
        (ITSELF + "\n        self.started = True", False),
    ],
)
def test_a_class_that_is_a_dictionary_of_attributes(body: str, is_it: bool) -> None:
    (node,) = ast.parse(f"class Box(dict):{body}").body
    assert isinstance(node, ast.ClassDef)
    assert is_attribute_dict(node) == is_it


def test_what_two_of_them_hold_is_kept_apart() -> None:
    text = (
        f"from torch import nn\nclass Box(dict):{READ}{SET}\na, b = Box(net=nn.Linear(4, 1)), Box(net=3)\na.net\nb.net"
    )
    assert values(text, "b.net") == {"3"}


NETS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Box(dict):{body}

nets = Box(first=nn.Linear(4, 1), second=nn.Linear(4, 1))
steps = Box()
for name in nets.keys():
    steps[name] = torch.optim.SGD(nets[name].parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2):
    loss = nn.functional.mse_loss(nets.first(x) + nets.second(x), y)
    loss.backward()
    steps.first.step()
    steps.second.step()
"""


@pytest.mark.parametrize("body", [READ + SET, ITSELF])
def test_what_is_in_one_is_prepared(body: str) -> None:
    after = migrated(NETS.format(body=body))
    assert "first=accelerator.prepare(nn.Linear(4, 1))" in after
    assert "steps[name] = accelerator.prepare(torch.optim.SGD(" in after
    assert "prepare(nets)" not in after
