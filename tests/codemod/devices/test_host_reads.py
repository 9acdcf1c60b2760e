"""What is read in the CPU's memory only."""

from __future__ import annotations

import pytest

from accelify.codemod.devices.host_reads import HostReads
from tests.codemod.facts import Facts, texts

IMPORTS = """\
import json
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from sklearn.decomposition import PCA
from torch.nn.utils.rnn import pack_padded_sequence
x = y = torch.zeros(1)
figure, axes = plt.subplots(2, 4)
ax = figure.add_subplot(111)
"""


def read(code: str, call: str) -> list[str]:
    facts = Facts(f"{IMPORTS}{code}\n{call}\n")
    return texts(HostReads(facts.program).of(facts.call(call)))


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("x.numpy()", ["x"]),
        ("np.array(x)", ["x"]),
        ("np.argmax(x, axis=1)", ["x", "1"]),
        ("plt.scatter(x, y, c=y)", ["x", "y", "y"]),
        ("torch.FloatTensor(x)", ["x"]),
        ("pack_padded_sequence(x, y)", ["y"]),
        ("torch.cat(x)", []),
        ("json.dumps(x)", []),
        ("np.shape(x)", []),
        ("np.squeeze(x)", []),
        ("np.random.shuffle(x)", []),
        ("np.add(1, 2, out=x)", ["1", "2"]),
    ],
)
def test_functions_of_libraries_of_arrays(call: str, found: list[str]) -> None:
    assert read("", call) == found


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("", "axes[0, 1].imshow(x)"),
        ("", "axes.flat[0].imshow(x)"),
        ("", "ax.hist(x)"),
        ("", "ax.twinx().plot(x)"),
        ("", "plt.gca().plot(x)"),
        ("for k, a in enumerate(axes.ravel()):", " a.imshow(x)"),
        ("def show(a, image):\n    a.imshow(image)", "a.imshow(image)"),
        ("", "PCA(2).fit_transform(x)"),
        ("table = pd.read_csv('t.csv').dropna()", "table.insert(x)"),
    ],
)
def test_methods_of_what_such_libraries_make(code: str, call: str) -> None:
    more = "\nshow(ax, x)" if "def" in code else ""
    facts = Facts(f"{IMPORTS}{code}\n{call}{more}\n" if not more else f"{IMPORTS}{code}{more}\n")
    assert texts(HostReads(facts.program).of(facts.call(call.strip()))) == ["image" if more else "x"]


@pytest.mark.parametrize(
    ("code", "call"),
    [("rows = []", "rows.append(x)"), ("rows = np.ones(3).tolist()", "rows.append(x)"), ("", "x.add(y)")],
)
def test_methods_of_other_objects(code: str, call: str) -> None:
    assert read(code, call) == []


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("assert isinstance(x.data, torch.LongTensor)", ["x.data"]),
        ("if isinstance(y, (torch.FloatTensor, list)): pass", ["y"]),
        ("if x.type() == 'torch.FloatTensor': pass", ["x"]),
        ("assert y.type() != 'torch.LongTensor'", ["y"]),
        ("assert isinstance(x, torch.Tensor)", []),
        ("assert isinstance(x, torch.cuda.LongTensor)", []),
        ("assert x.type() == y.type() and type(x) == 'torch.FloatTensor'", []),
        ("class Rows:\n def __getitem__(self, k): return isinstance(k, torch.LongTensor)\nRows()[x]", []),
    ],
)
def test_tensors_whose_memory_is_asked_for(code: str, asked: list[str]) -> None:
    assert texts(HostReads(Facts(f"{IMPORTS}{code}\n").program).asked) == asked
