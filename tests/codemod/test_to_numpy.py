"""What NumPy reads of the device's tensors is brought to the CPU."""

from __future__ import annotations

from textwrap import dedent

import pytest

from accelify.codemod.rules import to_numpy
from tests.codemod.pairs import KEPT, changed, migrated, run, script

NUMPY = "import numpy as np"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y.numpy()", "y.cpu().numpy()"),
        ("(x + 1).data.numpy()", "(x + 1).data.cpu().numpy()"),
        ("np.array(y)", "np.array(y.cpu())"),
        ("torch.FloatTensor(x.float())", "torch.FloatTensor(x.float().cpu())"),
        ("torch.max(model(x), 1)[1].data.numpy()", "torch.max(model(x), 1)[1].data.cpu().numpy()"),
        ("np.array(y - x)", "np.array((y - x).cpu())"),
    ],
)
def test_a_batch_that_numpy_reads_is_brought_to_the_cpu(old: str, new: str) -> None:
    changed(f"-print({old})", f"+print({new})", imports=NUMPY, batch=f"print({old})")


@pytest.mark.parametrize(
    "kept",
    ["y.cpu().numpy()", "torch.zeros(1).numpy()", "y.to('cpu').numpy()", "y.tolist()", "np.array([1])", "z.numpy()"],
)
def test_what_is_on_the_cpu_already_is_left(kept: str) -> None:
    changed(imports=NUMPY, before="z = torch.ones(1)", batch=f"print({kept})")


@pytest.mark.parametrize(
    "made", ["y = torch.Tensor(y)", "numbers = y\ny = torch.FloatTensor(numbers)", "y = torch.as_tensor(np.array(y))"]
)
def test_what_is_only_a_tensor_once_it_is_made_one_is_left(made: str) -> None:
    collated = "DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)"
    text = script(imports=NUMPY, before="def collate(rows): return tuple(zip(*rows))", batch=made)
    text = text.replace(collated, "DataLoader(Rows(), batch_size=2, collate_fn=collate)")
    assert ".cpu()" not in migrated(text)


OF_NUMBERS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.randn(4), i % 3

def made(numbers): return torch.LongTensor(numbers).cuda()

loader = DataLoader(Rows(){size})
model = nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for {batch} in loader:
    {taken}
    loss = nn.functional.cross_entropy(model(x.cuda()), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("batch", "taken", "read"),
    [
        ("x, y", "y = torch.LongTensor(y).cuda()", "torch.LongTensor(y)"),
        ("x, y", "y = made(y)", "torch.LongTensor(numbers)"),
        ("both", "x, n = both; y = torch.LongTensor(n).cuda()", "torch.LongTensor(n)"),
        ("both", "x = both[0]; y = torch.LongTensor(both[1]).cuda()", "torch.LongTensor(both[1])"),
    ],
)
def test_numbers_that_a_script_with_a_gpu_makes_a_tensor_stay_where_they_are(batch: str, taken: str, read: str) -> None:
    after = migrated(OF_NUMBERS.format(size=", batch_size=8", batch=batch, taken=taken))
    assert read in after
    assert KEPT in after


@pytest.mark.parametrize("size", ["", ", 1", ", batch_size=None", ", batch_size=8, collate_fn=lambda rows: rows"])
def test_what_else_a_type_of_tensors_takes_is_left(size: str) -> None:
    text = OF_NUMBERS.format(size=size, batch="x, y", taken="y = torch.LongTensor(y).cuda()")
    assert "torch.LongTensor(y)" in migrated(text)


@pytest.mark.parametrize(
    "kept", ["torch.FloatTensor(x.shape[0], 1)", "torch.Tensor(x.size(0), x.data.shape[1])", "np.array(y.shape)"]
)
def test_the_size_of_a_batch_is_no_tensor(kept: str) -> None:
    changed(imports=NUMPY, batch=f"print({kept})")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seen.extend(y)", "seen.extend(y.cpu())"),
        ("for row in y: seen.append(row)", "for row in y: seen.append(row.cpu())"),
    ],
)
def test_what_becomes_an_array_in_a_list_is_brought_as_it_is_put_there(old: str, new: str) -> None:
    end = "print(np.array(seen).mean())"
    changed(f"-{old}", f"+{new}", imports=NUMPY, before="seen = []", batch=old, end=end)
    changed(imports=NUMPY, before="seen = []", batch=f"{old}; seen = seen[:9]")


@pytest.mark.parametrize("size", ["rows = x.shape[0]", "rows = x.view(-1, 4).size(0)", "rows, _ = x.size()"])
def test_a_name_of_its_size_is_none_either(size: str) -> None:
    changed(imports=NUMPY, batch=f"{size}; print(torch.FloatTensor(rows, 1))")


MOVED_BY_ONE_HELPER = """\
import numpy as np
import torch
from torch.autograd import Variable

def to_gpu(x):
    return x.cuda()

def loss_of(model, x):
    print({read})
    return model(x).pow(2).mean()

rows = torch.randn(64, 4)
model = to_gpu(torch.nn.Linear(4, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss_of(model, Variable(to_gpu(rows[torch.randperm(64)[:8]]))).backward()
    optimizer.step()
for x in torch.utils.data.DataLoader(rows, batch_size=8):
    model(Variable(to_gpu(x)))
"""


@pytest.mark.parametrize(
    ("read", "kept"),
    [
        ("torch.Tensor(x.size())", True),
        ("np.array(x.size())", True),
        ("np.array(x.numel())", True),
        ("torch.FloatTensor(x.shape)", True),
        ("np.array(x)", True),
    ],
)
def test_nor_is_the_size_of_what_may_be_a_model(read: str, kept: bool) -> None:
    """One helper moves the model and the batches, so that each may be the other as far as anyone can see."""
    assert (f"print({read})" in migrated(MOVED_BY_ONE_HELPER.format(read=read))) is kept


def test_nor_is_the_array_that_it_became() -> None:
    end = "print(np.array(kept.copy()))"
    changed(
        f"-kept = y.numpy(); {end}", f"+kept = y.cpu().numpy(); {end}", imports=NUMPY, batch=f"kept = y.numpy(); {end}"
    )


PACK = "from torch.nn.utils.rnn import pack_padded_sequence as pack\nfrom torch.nn.utils import rnn"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pack(x, y.long())", "pack(x, y.long().cpu())"),
        ("pack(x, batch_first=True, lengths=y)", "pack(x, batch_first=True, lengths=y.cpu())"),
        ("rnn.pack_padded_sequence(x, y.view(-1), True)", "rnn.pack_padded_sequence(x, y.view(-1).cpu(), True)"),
    ],
)
def test_lengths_are_read_on_the_cpu_and_the_rows_beside_them_are_not(old: str, new: str) -> None:
    changed(f"-print({old})", f"+print({new})", imports=PACK, batch=f"print({old})")


@pytest.mark.parametrize("kept", ["pack(x, y.cpu())", "pack(x, y.tolist())", "pack(x, [4, 4])", "pack(x, rows)"])
def test_lengths_that_are_on_the_cpu_are_left(kept: str) -> None:
    changed(imports=PACK, before="rows = torch.ones(2)", batch=f"print({kept})")


def test_a_batch_that_an_array_takes_the_name_of_was_one_before() -> None:
    changed("-y = y.data.numpy()", "+y = y.data.cpu().numpy()", imports=NUMPY, batch="y = y.data.numpy()")


def test_losses_and_guesses_are_followed_to_the_model_that_made_them() -> None:
    text = migrated("""\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        def train(model, loader, optimizer, criterion):
            for x, y in loader:
                out = model(x)
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                kept = out.cpu().detach()
                right = torch.max(out, 1)[1].data.numpy() == y.data.numpy()
                print(loss.data.numpy(), right, kept.numpy())

        loader = DataLoader(TensorDataset(torch.randn(16, 4), torch.randint(0, 2, (16,))), batch_size=2)
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, loader, optimizer, nn.CrossEntropyLoss())
        """)
    assert "right = torch.max(out, 1)[1].data.cpu().numpy() == y.data.cpu().numpy()\n" in text
    assert "print(loss.data.cpu().numpy(), right, kept.numpy())\n" in text


@pytest.mark.parametrize("lengths", ["list(n)", "n.tolist()"])
def test_numbers_in_a_list_may_come_from_anywhere(lengths: str) -> None:
    text = f"""\
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 4, batch_first=True)
    def forward(self, x, n):
        n, order = n.sort(descending=True)
        return self.rnn(pack_padded_sequence(x[order], {lengths}, batch_first=True))[1]
loader = DataLoader(torch.load("rows.pt"), batch_size=4)
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, n in loader:
    loss = model(x.cuda(), n.cuda()).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert not any("if it is a tensor" in n.message for n in run(text).notes)


COUNTING = """
    import elsewhere, sklearn.metrics
    import matplotlib.pyplot as plt
    import numpy as np

    def plot(m):
        plt.imshow(m)
        print(m.max(), m.shape[0])
"""


@pytest.mark.parametrize(
    ("shown", "then"),
    [
        ("sklearn.metrics.confusion_matrix(y.argmax(1).cpu(), 2)", "m.max()"),
        ("elsewhere.table(y)", "m.max()"),
        ("elsewhere.table(y)", "m.detach()"),
    ],
)
def test_what_unknown_code_returns_may_be_an_array(shown: str, then: str) -> None:
    """An array has no `cpu()`."""
    text = script(imports=COUNTING, batch=f"m = {shown}\nplot({shown})\nprint(np.array(m), {then})")
    text = "".join(line for line in text.splitlines(True) if "cuda" not in line and "device" not in line)
    after = migrated(text)
    assert "plt.imshow(m)" in after
    assert "np.array(m)" in after


ARRAYS = """\
import elsewhere
import numpy as np
import matplotlib.pyplot as plt
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix
figure, axes = plt.subplots(1, 2)
def show(ax, image):
    ax.imshow(image)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("axes[0].scatter(x[:, 0], x[:, 1], c=y)", "axes[0].scatter(x[:, 0].cpu(), x[:, 1].cpu(), c=y.cpu())"),
        ("for ax, row in zip(axes.flat, x): ax.plot(row)", "for ax, row in zip(axes.flat, x): ax.plot(row.cpu())"),
        ("print(PCA(2).fit_transform(x))", "print(PCA(2).fit_transform(x.cpu()))"),
        (
            "print(np.transpose(x), np.concatenate([x, y]))",
            "print(np.transpose(x.cpu()), np.concatenate([x.cpu(), y.cpu()]))",
        ),
        ("plt.imshow(np.squeeze(x))", "plt.imshow(np.squeeze(x).cpu())"),
        ("table = np.zeros((2, 4)); table[0:2] = x", "table = np.zeros((2, 4)); table[0:2] = x.cpu()"),
    ],
)
def test_libraries_of_arrays_read_on_the_cpu_whatever_the_function_is(old: str, new: str) -> None:
    changed(f"-{old}", f"+{new}", imports=ARRAYS, batch=old)


def test_an_argument_is_brought_where_the_function_reads_it() -> None:
    changed("-ax.imshow(image)", "+ax.imshow(image.cpu())", imports=ARRAYS, batch="show(axes[0], x)")


@pytest.mark.parametrize(
    "guess",
    ["model(x).argmax(1)", "torch.argmax(model(x), 1)", "model(x).max(1)[1]", "model(x)[:, 0]", "model(x)"],
)
def test_what_a_model_gives_is_brought_like_the_batch_beside_it(guess: str) -> None:
    old, new = f"print(confusion_matrix(y, {guess}))", f"print(confusion_matrix(y.cpu(), {guess}.cpu()))"
    changed(f"-{old}", f"+{new}", imports=ARRAYS, batch=old)


@pytest.mark.parametrize(
    ("old", "new", "end"),
    [
        ("seen.append(loss.detach())", "seen.append(loss.detach().cpu())", "plt.plot(seen)"),
        ("seen.append(y)", "seen.append(y.cpu())", "print(np.concatenate(seen).mean(), torch.cat(seen).sum())"),
        ("seen += list(y)", "seen += list(y.cpu())", "axes[0].hist(seen)"),
        ("seen.append([y.sum(), 1])", "seen.append([y.sum().cpu(), 1])", "print(np.array(seen))"),
    ],
)
def test_what_is_put_into_a_list_is_brought_for_all_that_read_it(old: str, new: str, end: str) -> None:
    changed(f"-{old}", f"+{new}", imports=ARRAYS, before="seen = []", batch=old, end=end)


@pytest.mark.parametrize(
    "kept",
    [
        "print(np.shape(x), np.ndim(y))",
        "axes[0].set_title(y[0])",
        "plt.title(y)",
        "print(np.mean([t.item() for t in y]))",
        "print(np.array([len(x), x.shape[0], float(y[0])]))",
        "axes[0].plot(x.cpu(), y.tolist())",
        "print(x * np.sqrt(2))",
        "axes[0].text(0, 0, 'loss %.3f' % y.mean())",
        "axes[0].text(0, 0, 'loss {:.3f}'.format(y.mean()))",
        "text = 'y: %s'; plt.annotate(text % y, (0, 0))",
    ],
)
def test_what_needs_no_tensor_on_the_cpu_is_left(kept: str) -> None:
    changed(imports=ARRAYS, batch=kept)


def test_an_item_by_another_name_is_no_tensor() -> None:
    batch = "names = batch['name']; plt.imshow(batch['image']); axes[0].annotate(batch['name'][0], (0, 0))"
    text = script(imports=ARRAYS, batch=batch).replace(
        "for x, y in loader:", "for batch in loader:\n        x = batch['image'].view(-1, 4); y = batch['y'].float()"
    )
    collated = "DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)"
    after = migrated(text.replace(collated, "DataLoader(Rows(), batch_size=2)"))
    assert "plt.imshow(batch['image']); axes[0].annotate(batch['name'][0], (0, 0))" in after


SHARING = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2):
    {first}
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {last}
"""


@pytest.mark.parametrize(
    "changing",
    [
        {"last": "weight = model.weight.data.numpy(); np.clip(weight, -1, 1, out=weight)"},
        {"last": "model.bias.detach().cpu().numpy()[:] = 0"},
        {"last": "for p in model.parameters(): p.data.numpy().T[0] /= 2"},
        {"last": "weight = np.asarray(model.weight.data); weight[0] = 1"},
        {"first": "rows = x.numpy(); rows -= rows.mean()"},
    ],
)
def test_a_script_that_changes_a_tensor_through_numpy_stays_on_the_cpu(changing: dict[str, str]) -> None:
    result = run(SHARING.format(**{"first": "", "last": "", **changing}))
    assert "Accelerator(cpu=True)" in result.after.decode()
    assert ".cpu()" not in result.after.decode().replace("detach().cpu()", "")
    notes = [n.message for n in result.notes if n.rule == to_numpy.NAME]
    assert len(notes) == 1
    assert "so the script keeps training on the CPU" in notes[0]


@pytest.mark.parametrize(
    "changing",
    [
        {"last": "rows = x.numpy(); rows -= rows.mean()"},
        {"last": "weight = model.weight.data.numpy().copy(); weight[0] = 1"},
        {"last": "weight = model.weight.data.numpy(); weight = weight / 2"},
        {"first": "out = model(x).detach().numpy(); out[out > 1] = 1"},
    ],
)
def test_an_array_that_no_tensor_is_needed_with_is_its_own(changing: dict[str, str]) -> None:
    result = run(SHARING.format(**{"first": "", "last": "", **changing}))
    assert "Accelerator()" in result.after.decode()
    assert not [n for n in result.notes if n.rule == to_numpy.NAME]


HELPER = """\
    import numpy as np
    class Audio:
        def wave(self, phase):
            phase = phase.T
            return self.inverse(phase)
        def inverse(self, phase):
            return np.exp(1j * phase)
    def first(y, backend):
        if backend == "tf":
            return np.where(y == 1)
        return np.asarray(y.detach())
    """


def test_a_member_that_arrays_have_too_shows_no_tensor_where_numpy_reads() -> None:
    end = "def test(loader):\n    for part in loader:\n        print(Audio().wave(part[0][1]))\ntest({})\ntest(loader)"
    text = script(imports=dedent(HELPER), end=end.format("DataLoader(vendor.Rows(), collate_fn=vendor.rows)"))
    after = run(text).after.decode()
    assert "np.exp(1j * phase)" in after
    assert "Accelerator(mixed_devices=True)" in after


@pytest.mark.parametrize(
    "line",
    [
        "rows = [r.detach().cpu().numpy() if hasattr(r, 'numpy') else np.array([r]) for r in rows]",
        "rows = np.array(rows) if not torch.is_tensor(rows) else rows.cpu().numpy()",
        "rows = rows.cpu().numpy() if isinstance(rows, torch.Tensor) else np.asarray(rows)",
        "rows = np.asarray(rows) if isinstance(rows, (list, np.ndarray)) else rows.cpu().numpy()",
    ],
)
def test_what_a_condition_says_is_no_tensor_is_left(line: str) -> None:
    shown = f"def shown(rows):\n    {line}\n    return rows\nprint(shown(model(torch.ones(1, 4).to(device))))"
    text = script(imports=NUMPY, model="model.to(device)", batch="x, y = x.to(device), y.to(device)", end=shown)
    after = run(text + "print(shown([0.5, 1]))\n").after.decode()
    assert line in after
    assert "Accelerator()" in after


def test_what_another_condition_says_is_brought_to_the_cpu() -> None:
    old = "rows = np.array(rows) if {} else rows.item()"
    for test in ("torch.is_tensor(rows)", "hasattr(rows, 'numpy')", "epoch"):
        shown = f"def shown(rows):\n    {old.format(test)}\n    return rows\nprint(shown(x.mean()))"
        line = old.format(test)
        changed(f"-{line}", f"+{line}".replace("(rows) if", "(rows.cpu()) if"), imports=NUMPY, batch=shown)


@pytest.mark.parametrize(
    "lines",
    [
        "if isinstance(rows, torch.Tensor):\n        rows = rows.cpu()\n    return np.asarray(rows)",
        "try:\n        return rows.cpu().numpy()\n    except AttributeError:\n        return np.array(rows)",
        "if type(rows) is torch.Tensor:\n        return rows.cpu().numpy()\n    return np.array(rows)",
        "if rows.__class__.__name__ == 'Tensor':\n        return rows.tolist()\n    return np.array(rows)",
    ],
)
def test_what_a_function_asks_what_it_is_is_left(lines: str) -> None:
    shown = f"def shown(rows):\n    {lines}\nprint(shown(model(torch.ones(1, 4).to(device))))"
    text = script(imports=NUMPY, model="model.to(device)", batch="x, y = x.to(device), y.to(device)", end=shown)
    for end in ("", "numbers = y.tolist()\nprint(shown(numbers))\n"):
        after = run(text + end).after.decode()
        assert lines in after
        assert "Accelerator()" in after


@pytest.mark.parametrize(
    ("test", "call", "is_read"),
    [
        ("backend == 'tf'", "pick(y, backend='pt')", False),
        ("backend == 'tf'", "pick(y)", True),
        ("backend == 'tf'", "pick(y, name)", True),
        ("backend != 'pt'", "pick(y, 'pt')", False),
        ("not torch.is_tensor(z) and backend == 'tf'", "pick(y, 'pt')", False),
        ("backend == 'tf'", "print(y)", True),  # nothing in the program calls it
    ],
)
def test_what_no_call_gets_to_is_left(test: str, call: str, is_read: bool) -> None:
    pick = f"def pick(z, backend='tf'):\n    if {test}:\n        return np.where(z == 1)[0]\n    return z.tolist()"
    text = script(imports=NUMPY, before=f"name = input()\n{pick}", batch=call)
    assert ("np.where((z == 1).cpu())" in migrated(text)) is (is_read and "pick" in call)
