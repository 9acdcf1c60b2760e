"""What is prepared, and under which name: models, optimizers and loaders that came there by a roundabout way."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options, rewrite_together
from tests import scripts
from tests.codemod.pairs import left_alone, run, script

STEP = """\
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

"""


def prepared(text: str) -> list[str]:
    """The statements that prepare something, each on one line."""
    after = run(HEAD + dedent(text)).after.decode()
    lines = " ".join(line.strip() for line in after.splitlines()).replace("( ", "(").replace(" )", ")")
    return [part.split(")")[0] for part in lines.split("accelerator.prepare(")[1:]]


# Models that an optimizer gets.


def test_parts_of_a_wrapped_model_are_the_model() -> None:
    result = run(
        HEAD
        + dedent("""\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(4, 1)

            def forward(self, x):
                return self.head(x)

        loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
        model = Net()
        if torch.cuda.device_count() > 1:
            model = nn.DataParallel(model)
            learned = list(model.module.head.parameters())
        else:
            learned = list(model.head.parameters())
        optimizer = torch.optim.SGD(learned, lr=0.1)
        for x, y in loader:
        """)
        + STEP.replace("        ", "    ")
    )
    after = result.after.decode()
    assert "\nloader, model, optimizer = accelerator.prepare(loader, model, optimizer)\n" in after
    assert ".module" not in after


def test_models_and_optimizers_kept_in_dicts_are_prepared_under_their_own_names() -> None:
    found = prepared("""\
        def train(loader, nets, optimizers):
            first, second = nets["first"], nets["second"]
            one, two = optimizers["one"], optimizers["two"]
            for x, y in loader:
                loss = (first(x) - y).pow(2).mean()
                one.zero_grad()
                loss.backward()
                one.step()
                loss = (second(x) - y).pow(2).mean()
                two.zero_grad()
                loss.backward()
                two.step()

        def main():
            loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
            a, b = nn.Linear(4, 1), nn.Linear(4, 1)
            one = torch.optim.SGD(a.parameters(), lr=0.1)
            two = torch.optim.SGD(b.parameters(), lr=0.1)
            nets = {"first": a, "second": b}
            optimizers = {"one": one, "two": two}
            train(loader, nets, optimizers)

        main()
        """)
    assert found == ["loader, a, b, one, two"]


def test_models_that_a_comprehension_names_are_prepared_in_their_list() -> None:
    found = prepared("""\
        import itertools
        loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
        model = nn.Linear(4, 1)
        heads = [nn.Linear(1, 1), nn.Linear(1, 1)]
        weights = itertools.chain(model.parameters(), *[head.parameters() for head in heads])
        optimizer = torch.optim.SGD(weights, lr=0.1)
        for x, y in loader:
            loss = (heads[1](heads[0](model(x))) - y).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """)
    assert found == ["nn.Linear(1, 1", "nn.Linear(1, 1", "loader, model, optimizer"]


def test_each_branch_that_makes_the_optimizer_prepares_the_model() -> None:
    found = prepared("""\
        class Solver:
            def __init__(self, kind):
                self.loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
                self.model = nn.Linear(4, 1)
                self.choose(kind)

            def choose(self, kind):
                if kind == "sgd":
                    self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
                if kind == "adam":
                    self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)

            def train(self):
                for x, y in self.loader:
                    loss = (self.model(x) - y).pow(2).mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
        """)
    assert found == ["self.loader", "self.model, self.optimizer", "self.model, self.optimizer"]


def test_a_long_row_of_conditions_above_an_optimizer_is_looked_through_once() -> None:
    rows = "\n".join(f"if step == {n}:\n    print({n})" for n in range(60))
    text = f"""\
step = 1
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1)
{rows}
if step > 2:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert prepared(text) == ["loader, model, optimizer"]


def test_optimizers_from_a_closure_bring_their_models() -> None:
    found = prepared("""\
        class Trainer:
            def __init__(self, loader):
                self.loader = loader
                self.model = nn.Linear(4, 1)
                self.critic = nn.Linear(1, 1)

            def train(self):
                def optimizers(lr):
                    return torch.optim.SGD(self.model.parameters(), lr), torch.optim.SGD(self.critic.parameters(), lr)

                one, two = optimizers(0.1)
                batches = iter(self.loader)
                for step in range(10):
                    x, y = next(batches)
                    loss = (self.critic(self.model(x)) - y).pow(2).mean()
                    one.zero_grad()
                    two.zero_grad()
                    loss.backward()
                    one.step()
                    two.step()
        """)
    assert found == ["self.loader", "self.model, self.critic, one, two"]


GIVEN = """\
    class Trainer:
        def __init__(self, model, optimizer, loader):
            self.model = model
            self.optimizer = optimizer
            self.loader = loader

        def epoch(self):
            self.model.train()
            for x, y in self.loader:
                loss = (self.model(x) - y).pow(2).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
    """


def test_a_trainer_that_is_given_everything_prepares_everything() -> None:
    assert prepared(GIVEN) == ["self.loader, self.model, self.optimizer"]


def test_a_base_class_prepares_what_its_own_callers_give_it_too() -> None:
    child = """\

    class Quick(Trainer):
        def __init__(self, model, optimizer, loader):
            super().__init__(model, optimizer, loader)
    """
    assert prepared(dedent(GIVEN) + dedent(child)) == ["self.loader, self.model, self.optimizer"]


def test_a_base_class_prepares_what_methods_that_override_it_are_given() -> None:
    text = """\
        class Agent:
            def __init__(self):
                self.model = nn.Linear(4, 1)
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

            def learn(self, loader):
                for x, y in loader:
                    loss = (self.model(x) - y).pow(2).mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()


        class Careful(Agent):
            def learn(self, loader):
                print(len(loader))
                super().learn(loader)
        """
    assert prepared(text) == ["self.model, self.optimizer", "loader", "loader"]


def test_a_loader_that_a_helper_prepares_is_not_prepared_again() -> None:
    found = run(
        HEAD
        + dedent("""\
        def batches_of(data):
            return DataLoader(data, batch_size=2)

        def train(model, data):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            held = {k: iter(batches_of(data)) for k in range(2)}
            left = 1
            for step in range(10):
                left -= 1
                if left == 0:
                    batches = iter(batches_of(data))
                    left = len(batches)
                x, y = next(batches)
                x, _ = next(held[step % 2])
                loss = (model(x) - y).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        train(nn.Linear(4, 1), TensorDataset(torch.randn(8, 4), torch.randn(8, 1)))
        """)
    ).after.decode()
    assert "return accelerator.prepare(DataLoader(data, batch_size=2))" in found
    assert "batches = iter(batches_of(data, accelerator))" in found


def test_a_function_that_takes_one_step_for_unknown_callers_is_declined() -> None:
    left_alone(
        """\
        def episode(model, optimizer, x, y):
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss
        """,
        "nothing here calls `episode`, which takes a single step",
    )


BESIDE = (
    HEAD
    + """\
{step}
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()

{train}
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1))):
        optimizer.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        optimizer.step()
{end}
"""
)


@pytest.mark.parametrize(
    ("train", "end"),
    [("def train():", "train()"), ("def train():", "print(1)"), ("if __name__ == '__main__':", "print(1)")],
)
def test_a_step_that_nothing_calls_is_left_alone_beside_training(train: str, end: str) -> None:
    after = run(BESIDE.format(step="def one_step(model, optimizer, x):", train=train, end=end)).after.decode()
    assert "model(x).mean().backward()" in after
    assert "accelerator.backward((model(x) - y).pow(2).mean())" in after


@pytest.mark.parametrize(
    ("step", "end"),
    [
        ("def one_step(model, optimizer, x):", "print(one_step)"),
        ("@torch.enable_grad()\ndef one_step(model, optimizer, x):", "print(1)"),
    ],
)
def test_a_step_that_others_may_call_is_not(step: str, end: str) -> None:
    left_alone(BESIDE.format(step=step, train="def train():", end=f"train()\n{end}"), "nothing here calls `one_step`")


# Loaders.


def test_a_loader_taken_out_of_a_tuple_is_prepared_under_its_own_name() -> None:
    found = prepared("""\
        class Trainer:
            def __init__(self, loaders):
                self.train_loader = loaders[0]
                self.valid_loader = loaders[1]
                self.model = nn.Linear(4, 1)
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

            def train(self):
                for x, y in self.train_loader:
                    loss = (self.model(x) - y).pow(2).mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
        """)
    assert found == ["self.train_loader, self.model, self.optimizer"]


@pytest.mark.parametrize("is_counted", [True, False])
def test_batches_of_a_class_of_ones_own_are_dealt_out_unless_it_can_be_prepared(is_counted: bool) -> None:
    length = "def __len__(self):\n        return 4\n" if is_counted else ""
    text = f"""\
class Pairs:
    def __iter__(self):
        self.left = 4
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return torch.randn(2, 4), torch.randn(2, 1)

    {length}
pairs = Pairs()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in pairs:
{STEP}"""
    after = run(HEAD + text).after.decode()
    assert ("for x, y in accelerator.shard(pairs):" in after) is not is_counted
    assert ("pairs, model, optimizer = accelerator.prepare(pairs, model, optimizer)" in after) is is_counted


# Files of the project's own.


def test_a_file_does_not_import_itself(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    build = """\
    from model import Net

    def get_model(device):
        model = Net().to(device)
        return model, model.optim()
    """
    net = """\
    import torch
    from torch import nn

    class Net(nn.Linear):
        def __init__(self):
            super().__init__(4, 1)

        def optim(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)
    """
    main = HEAD + dedent("""\
    from utils.model import get_model

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    model, optimizer = get_model(device)
    model = nn.DataParallel(model)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.module.state_dict(), "model.pt")
    """)
    files = {"main.py": main, "model/__init__.py": dedent(net), "utils/model.py": dedent(build)}
    scripts.write(tmp_path, {name: text.encode() for name, text in files.items()})
    with scripts.inside(tmp_path):
        found = {r.path: r for r in rewrite_together(("main.py",), Options())}
    assert found["main.py"].status is Status.MIGRATED
    assert b".module" not in found["main.py"].after


# Losses.


@pytest.mark.parametrize(
    ("loss", "is_sum"),
    [
        ("torch.sum(torch.stack([part.mean() for part in parts]))", False),
        ("torch.stack(parts).sum()", False),
        ("(model(x).mean(0) * (torch.ones(1) / 4)).sum()", False),
        ("(model(x).mean(0) * model(x)).sum()", True),
        ("parts[0].sum()", True),
    ],
)
def test_a_sum_over_losses_is_no_sum_over_the_batch(loss: str, is_sum: bool) -> None:
    result = run(script(batch="parts = [model(x) - y, model(-x) - y]", backward=f"loss = {loss}\nloss.backward()"))
    assert sum("loss in" in n.message and "is a sum over the batch" in n.message for n in result.notes) == is_sum
    assert not any(n.message.startswith("this loss") for n in result.notes)  # one note says both


@pytest.mark.parametrize("wrap", ["model = nn.DataParallel(model)", "pass"])
@pytest.mark.parametrize("divided", ["/ size", ".div(size)", "/ len(x)"])
def test_a_sum_that_the_size_of_a_divided_batch_divides(wrap: str, divided: str) -> None:
    backward = f"loss = (model(x) - y).pow(2).sum() {divided}\nloss.backward()"
    text = script(before="size = 2", model=wrap, backward=backward).replace("batch_size=2)", "batch_size=size)")
    notes = [n for n in run(text).notes if "this loss is a sum over the batch" in n.message]
    assert bool(notes) is ("DataParallel" in wrap and "size" in divided)
    assert all("1/N of the gradient" in n.message for n in notes)


# Wrappers.


def test_what_is_loaded_into_a_model_that_was_wrapped_before_is_reported() -> None:
    wrap, load = "model = nn.DataParallel(model)", "model.load_state_dict(torch.load('model.pt'))"
    told = [
        any("`module.`" in n.message for n in run(script(prepared=text)).notes) for text in (wrap, f"{wrap}\n{load}")
    ]
    assert told == [False, True]


def test_a_module_that_nothing_is_known_of_is_what_was_wrapped() -> None:
    build = "import json\nmodel = json.loads('{}')"
    after = run(script(model=build, prepared="model = nn.DataParallel(model)\nprint(model.module.kind)")).after.decode()
    assert "print(model.kind)" in after


# Containers that are filled later.

FILLED = """\
    loaders = {}
    loaders["train"] = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    loaders["test"] = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def check(loaders):
        batches = iter(loaders["test"])
        for k in range(len(loaders["test"])):
            x, y = next(batches)
            print(model(x).sum())

    for step in range(10):
        if step % 4 == 0:
            check(loaders)
            source = iter(loaders["train"])
        x, y = next(source)
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """


def test_a_loader_is_prepared_where_it_is_put_into_its_dict() -> None:
    after = run(HEAD + dedent(FILLED)).after.decode()
    line = next(k for k, text in enumerate(after.split("\n")) if text.startswith('loaders["train"] = DataLoader'))
    assert after.split("\n")[line + 1] == 'loaders["train"] = accelerator.prepare(loaders["train"])'


AT_KEY = """\
    val, train = (TensorDataset(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(2))
    data = {"train": train, "val": val}
    loaders = MADE
    model = nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loaders["train"]:
        loss = (model(x) - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    """
TOGETHER = 'loaders["train"], model, opt = accelerator.prepare(loaders["train"], model, opt)'
ALONE = 'loaders["train"] = accelerator.prepare(loaders["train"])'


@pytest.mark.parametrize(
    ("made", "later"),
    [
        ('{n: DataLoader(data[n]) for n in ["val"]}\nloaders["train"] = DataLoader(train, shuffle=True)', ""),
        ('{n: DataLoader(data[n]) for n in data}\nloaders["train"] = DataLoader(train, shuffle=True)', ""),
        ('dict(val=DataLoader(val))\nloaders["train"] = DataLoader(train)', ""),
        ('{}\nloaders["train"] = DataLoader(val)\nloaders["val"] = 1\nloaders["train"] = DataLoader(train)', ""),
        ('{"train": DataLoader(val)}\nloaders["train"] = DataLoader(train)', ""),
        ('{"val": DataLoader(val)}\nloaders.update(train=DataLoader(train))', ""),
        ('{"val": DataLoader(val)}\nloaders.update({"train": DataLoader(train)})', ""),
        ('{"train": DataLoader(train)}', 'loaders["train"] = DataLoader(val)\nprint(len(loaders["train"]))'),
        ('{"train": DataLoader(train)}', 'loaders["train"] = None'),
    ],
)
def test_a_loader_is_prepared_where_it_is_put_last_before_the_training(made: str, later: str) -> None:
    after = run(HEAD + dedent(AT_KEY).replace("MADE", made) + later).after.decode()
    assert [line for line in after.split("\n") if "accelerator.prepare(" in line] == [TOGETHER]


@pytest.mark.parametrize(
    "made",
    [
        '{"train": DataLoader(train)}\nloaders["val"] = DataLoader(val)',
        '{n: DataLoader(data[n]) for n in data}\nloaders["val"] = DataLoader(val)',
    ],
)
def test_a_loader_that_nothing_replaces_is_prepared_where_its_dict_is_made(made: str) -> None:
    after = run(HEAD + dedent(AT_KEY).replace("MADE", made)).after.decode()
    assert f"loaders = {made}".replace("\n", f"\n{ALONE}\n") in after
    assert after.count("accelerator.prepare(") == 2


def test_a_loader_that_an_option_replaces_is_prepared_as_well() -> None:
    made = '{"train": DataLoader(train)}\nif len(train) > 1:\n    loaders["train"] = DataLoader(val)\n'
    after = run(HEAD + dedent(AT_KEY).replace("MADE", made)).after.decode()
    assert f"loaders = {made}    {ALONE}\n".replace("\nif", f"\n{ALONE}\nif") in after


def test_an_evaluation_that_a_training_loop_calls_keeps_its_loader() -> None:
    assert prepared(FILLED) == ['loaders["train"]', "model, optimizer"]


def test_an_optimizer_out_of_a_checkpoint_is_prepared_under_its_own_name() -> None:
    found = prepared("""\
        class Trainer:
            def __init__(self, model, loader):
                self.loader = loader
                kept = torch.load("kept.pt")
                self.optimizer = kept["optimizer"]
                self.model = model

            def train(self):
                self.model.train()
                for x, y in self.loader:
                    loss = (self.model(x) - y).pow(2).mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
        """)
    assert found[0].split(", ")[-1] == "self.optimizer"
    assert not any("kept" in each for each in found)


def test_a_model_whose_weights_are_sorted_for_the_optimizer_is_prepared() -> None:
    found = prepared("""\
        def sort(model):
            return [w for w in model.parameters() if w.dim() > 1], [w for w in model.parameters() if w.dim() < 2]

        loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
        model = nn.Linear(4, 1)
        decayed, others = sort(model)
        optimizer = torch.optim.SGD([{"params": decayed}, {"params": others, "weight_decay": 0}], lr=0.1)
        for x, y in loader:
            loss = (model(x) - y).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """)
    assert found == ["loader, model, optimizer"]


@pytest.mark.parametrize(
    ("second", "is_another"),
    [("nn.Linear(4, 1).to(device)", True), ("model", False), ("nn.Sequential(model, nn.Linear(1, 1))", False)],
)
def test_another_model_under_the_same_name_is_prepared_again(second: str, is_another: bool) -> None:
    """As in a notebook of several sections: the first model's optimizer is used before the second's is made."""
    found = prepared(f"""\
        device = torch.device("cuda")
        loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)

        def train():
            for x, y in loader:
                loss = (model(x.to(device)) - y.to(device)).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        model = nn.Linear(4, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train()
        model = {second}
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        train()
        """)
    assert found == ["loader", "model, optimizer", "model, optimizer" if is_another else "optimizer"]


def test_what_only_told_the_wrapper_of_its_devices_goes() -> None:
    wrap = "model = nn.DataParallel(model, device_ids=[int(g) for g in gpus])"
    text = f"gpus = '0,1'.split(',')\nif len(gpus) > 1:\n    {wrap}"
    after = run(script(prepared=text)).after.decode()
    assert "gpus" not in after


def test_groups_of_parameters_by_name_bring_their_model() -> None:
    result = run(
        dedent("""\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader
        net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        loader = DataLoader(torch.randn(8, 4), batch_size=2)
        groups = []
        for name, value in dict(net.named_parameters()).items():
            groups += [{"params": [value], "weight_decay": 0 if "bias" in name else 0.1}]
        optimizer = torch.optim.SGD(groups, lr=0.1)
        for x in loader:
            optimizer.zero_grad()
            net(x).mean().backward()
            optimizer.step()
        """)
    )
    assert "loader, net, optimizer = accelerator.prepare(loader, net, optimizer)" in result.after.decode()


def test_a_model_that_is_asked_for_its_optimizer_is_prepared_with_it() -> None:
    names = prepared("""\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(4, 1), nn.BatchNorm1d(1))

            def forward(self, x):
                return self.body(x)

            def make_optimizer(self, lr):
                named = {n: p for n, p in self.named_parameters()}
                named = {n: p for n, p in named.items() if p.requires_grad}
                matrices = [p for n, p in named.items() if p.dim() > 1]
                others = [p for n, p in named.items() if p.dim() <= 1]
                groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others}]
                return torch.optim.AdamW(groups, lr=lr)

        loader = DataLoader(torch.randn(8, 4), batch_size=2)
        net = Net()
        optimizer = net.make_optimizer(0.1)
        for x in loader:
            optimizer.zero_grad()
            net(x).mean().backward()
            optimizer.step()
    """)
    assert names == ["loader, net, optimizer"]


# Where a statement goes.

TRIED = """\
inf = float("inf")
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)

def run():
    try:
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        {end}
    except RuntimeError as error:
        {handler}
        if "out of memory" in str(error):
            {leaving}
        else:
            raise

run()
"""


@pytest.mark.parametrize("handler", ["pass", "model = None"])
@pytest.mark.parametrize("leaving", ["return inf", "raise SystemExit"])
@pytest.mark.parametrize("end", ["return loss", "pass"])
def test_not_after_a_try_in_which_it_trains(handler: str, leaving: str, end: str) -> None:
    after = run(HEAD + TRIED.format(handler=handler, leaving=leaving, end=end)).after.decode()
    place = after.index("model, optimizer = accelerator.prepare(model, optimizer)")
    assert after.index("optimizer = torch.optim.SGD") < place < after.index("for x, y in loader")


def test_after_a_try_that_binds_it_either_way() -> None:
    text = """\
        try:
            model = nn.Linear(4, 1)
        except ImportError:
            model = nn.Linear(4, 1, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    assert prepared(text) == ["loader, model, optimizer"]


def test_after_branches_of_which_one_leaves() -> None:
    text = """\
        import sys
        def main(kind):
            model = nn.Linear(4, 1)
            if kind == "sgd":
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            elif kind == "adam":
                optimizer = torch.optim.Adam(model.parameters())
            else:
                sys.exit("no such optimizer")
            loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        main("sgd")
    """
    assert prepared(text) == ["loader, model, optimizer"]


@pytest.mark.parametrize(
    ("made", "taken"),
    [
        ('{k: {"loader": DataLoader(data, batch_size=2), "size": 8} for k in ("train", "val")}', '["train"]["loader"]'),
        ('{"train": {"loader": DataLoader(data, batch_size=2)}, "val": {}}', '["train"]["loader"]'),
        ("{k: [DataLoader(data, batch_size=2), 8] for k in ('train', 'val')}", '["train"][0]'),
    ],
)
def test_a_loader_in_a_container_of_containers_is_prepared_where_it_is_made(made: str, taken: str) -> None:
    text = run(
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        f"data = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))\nloaders = {made}\nmodel = nn.Linear(4, 1)\n"
        f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor x, y in loaders{taken}:\n"
        "    loss = nn.functional.mse_loss(model(x), y)\n    optimizer.zero_grad()\n    loss.backward()\n"
        "    optimizer.step()\n"
    ).after.decode()
    assert "accelerator.prepare(DataLoader(data, batch_size=2))" in text
    assert "model, optimizer = accelerator.prepare(model, optimizer)" in text


# A state that holds model and optimizer, and steps that are made for training or for evaluation.

STEPS = """\
def make_step({parameters}):
    def step(state, batch):
        model = state["model"]
        if {asked}:
            optimizer = state["optimizer"]
            loss = model(batch).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        else:
            with torch.no_grad():
                loss = model(batch).pow(2).mean()
        return loss

    return step

def fit(rows):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = {state}
    step = make_step({training})
    for batch in DataLoader(rows, batch_size=8):
        step(state, batch)

def evaluate(rows):
    model = nn.Linear(4, 1)
    state = dict(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    step = make_step({evaluating})
    losses = []
    for batch in DataLoader(rows, batch_size=8):
        losses.append(step(state, batch).item())
    print(sum(losses) / len(losses))

fit(torch.randn(64, 4))
evaluate(torch.randn(64, 4))
"""


@pytest.mark.parametrize(
    "state", ["dict(model=model, optimizer=optimizer, step=0)", '{"model": model, "optimizer": optimizer}']
)
@pytest.mark.parametrize(
    ("parameters", "asked", "training", "evaluating"),
    [
        ("train", "train", "train=True", "train=False"),
        ("mode, scale=1.0", "mode == 'train'", "'train'", "'test'"),
        ("evaluation=False", "not evaluation", "", "evaluation=True"),
    ],
)
def test_a_step_that_its_maker_has_evaluate_trains_nothing(
    state: str, parameters: str, asked: str, training: str, evaluating: str
) -> None:
    text = STEPS.format(state=state, parameters=parameters, asked=asked, training=training, evaluating=evaluating)
    after = run(HEAD + text).after.decode()
    assert after.count(".prepare(") - after.count("accelerator.prepare(DataLoader(rows, batch_size=8))") == 1
    assert "    model, optimizer = accelerator.prepare(model, optimizer)\n    state = " in after
    scored = after.partition("def evaluate")[2]
    assert "losses.append(step(state, batch).item())\n    print(sum(losses) / len(losses))" in scored
    assert "prepare" not in scored
    assert "shard" not in scored


# Models and optimizers in records, and in what a function returns at once.

RECORDS = {
    "a namedtuple": (
        'State = collections.namedtuple("State", "model optimizer")',
        "State(model, torch.optim.SGD(model.parameters(), lr=0.1))",
        "state.model, state.optimizer",
    ),
    "a namespace": (
        "import types",
        "types.SimpleNamespace(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))",
        "state.model, state.optimizer",
    ),
    "a data class": (
        "@dataclasses.dataclass\nclass State:\n    model: nn.Module\n    optimizer: torch.optim.Optimizer",
        "State(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))",
        "state.model, state.optimizer",
    ),
    "attributes by name": (
        "class State:\n    def __init__(self, **parts):\n        for name, part in parts.items():\n"
        "            setattr(self, name, part)",
        "State(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))",
        "state.model, state.optimizer",
    ),
    "a dictionary": (
        "",
        '{"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}',
        'state["model"], state["optimizer"]',
    ),
}


@pytest.mark.parametrize("record", RECORDS)
def test_the_model_is_prepared_before_what_is_made_of_it_is_returned(record: str) -> None:
    before, made, parts = RECORDS[record]
    text = f"""\
import collections, dataclasses
{before}

def build():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    return {made}

state = build()
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
for x, y in loader:
    loss = nn.functional.mse_loss(MODEL(x), y)
    OPTIMIZER.zero_grad()
    loss.backward()
    OPTIMIZER.step()
"""
    model, optimizer = parts.split(", ")
    after = run(HEAD + text.replace("MODEL", model).replace("OPTIMIZER", optimizer)).after.decode()
    assert "    model = accelerator.prepare(model)\n    return " in after
    assert "accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.1))" in after
    assert after.count(".prepare(") == 3


@pytest.mark.parametrize("made", ['torch.load("net.pt")', "functools.partial(nn.Linear, 4)(1)"])
def test_a_model_of_unknown_class_is_prepared_beside_the_optimizer_of_its_parameters(made: str) -> None:
    text = f"""\
import functools

def train(model, parameters, loader):
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for x, y in loader:
{STEP}

def main():
    model = {made}
    parameters = list(model.parameters())
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    train(model, parameters, loader)

main()
"""
    assert prepared(text) == ["model, optimizer", "loader"]


# Optimizers whose models have no name beside them.

APART = """\
nets = {"g": nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)), "d": nn.Linear(4, 1)}
nets = {name: net.train() for name, net in nets.items()}
optimizers = {name: torch.optim.Adam(net.parameters()) for name, net in nets.items()}
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8)

def step(g, d, optimizer, x):
    loss = d(g(x[:, :2])).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

for (x,) in loader:
    CALL
"""


@pytest.mark.parametrize(
    "call",
    [
        'step(nets["g"], nets["d"], optimizers["g"], x)',
        'step(**nets, optimizer=optimizers["g"], x=x)',
        'step(*nets.values(), optimizers["g"], x)',
    ],
)
def test_models_in_a_dictionary_are_prepared_beside_an_optimizer_that_a_function_is_given(call: str) -> None:
    after = run(HEAD + APART.replace("CALL", call)).after.decode()
    assert after.count("accelerator.prepare(nn.") == 2


ELSEWHERE = """\
def build():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
    return dict(zip(["model", "optimizer", "loader"], [model, torch.optim.SGD(model.parameters(), lr=0.1), loader]))

def train(model, optimizer, loader):
    {mode}
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

train(**build())
"""


@pytest.mark.parametrize("mode", ["model.train()", "pass"])
def test_the_model_beside_an_optimizer_made_elsewhere_is_known_by_its_use(mode: str) -> None:
    assert "model, optimizer" in prepared(ELSEWHERE.format(mode=mode))[0]


NAMED_ALONE = """def train(net, other, optimizer, other_optimizer, loader, criterion):
    for x, y in loader:
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {then}
"""
HELD = """class Solver:
    def __init__(self, loader, net, optimizer, criterion):
        self.loader, self.net, self.criterion = loader, net, criterion
        self.optimizer = optimizer
    def step(self, batch):
        x, y = batch
        logits = self.net(x)
        return self.criterion(logits, y), logits
    def train(self):
        for batch in self.loader:
            self.loss, logits = self.step(batch)
            self.net.zero_grad()
            self.loss.backward()
            self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "together"),
    [
        (NAMED_ALONE.format(loss="nn.functional.mse_loss(net(x)[0].view(-1), y)", then=""), "net, optimizer"),
        (NAMED_ALONE.format(loss="criterion(net(x.float()), y)", then=""), "net, optimizer"),
        (NAMED_ALONE.format(loss="net.distance(x, y).mean()", then=""), "net, optimizer"),
        (NAMED_ALONE.format(loss="net(other(x))", then="other_optimizer.step()"), "net, other, optimizer"),
        (HELD, "self.loader, self.net, self.optimizer"),
        ("from parts import build\nnet, optimizer, loader = build()\nfor x, y in loader:\n    optimizer.zero_grad()\n"
         "    loss = (net(x) - y).mean()\n    loss.backward()\n    optimizer.step()\n", "net, optimizer"),
    ],
)  # fmt: skip
def test_the_model_of_an_unknown_optimizer_is_what_the_loss_comes_from(text: str, together: str) -> None:
    assert together in prepared(text)[0]


@pytest.mark.parametrize("loss", ["net(other(x)).mean()", "y.mean()", "nn.functional.l1_loss(net(x), other(y))"])
def test_an_optimizer_made_elsewhere_is_not_prepared_without_its_model(loss: str) -> None:
    left_alone(HEAD + NAMED_ALONE.format(loss=loss, then=""), "cannot tell which model and which optimizer")


def test_what_gives_a_target_without_gradients_is_not_the_model_of_an_unknown_optimizer() -> None:
    text = NAMED_ALONE.format(loss="nn.functional.l1_loss(net(x), y)", then="")
    text = text.replace("        loss =", "        with torch.no_grad():\n            y = other(x)\n        loss =")
    assert prepared(text) == ["loader, net, optimizer"]


@pytest.mark.parametrize("kept", ["for name, part in zip(names, parts):", "for part, name in [*zip(parts, names)]:"])
def test_the_model_of_an_optimizer_in_an_unknown_attribute_is_prepared_where_that_is_made(kept: str) -> None:
    after = run(
        HEAD
        + f"""\
class State:
    def __init__(self, names, *parts):
        {kept}
            setattr(self, name, part)

def build():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    return State(["model", "optimizer"], model, torch.optim.SGD(model.parameters(), lr=0.1))

state = build()
for x, y in DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2):
    loss = nn.functional.mse_loss(state.model(x), y)
    state.optimizer.zero_grad()
    loss.backward()
    state.optimizer.step()
"""
    ).after.decode()
    assert "    model = accelerator.prepare(model)\n    return State(" in after


WITH_OPTIMIZER = """\
class Net(nn.Linear):
    @property
    def trainer(self):
        {get}

def fit(model, optimizer):
    for x, y in loader:
{step}
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
first = Net(4, 1)
own = torch.optim.SGD(first.parameters(), lr=0.1)
fit(first, own)
second = Net(4, 1)
{call}
"""


@pytest.mark.parametrize(
    ("get", "call", "found"),
    [
        ("return torch.optim.SGD(self.parameters(), lr=0.1)", "fit(second, second.trainer)", "second.trainer"),
        (
            "return torch.optim.SGD(self.parameters(), lr=0.1)",
            "fit(second, optimizer=second.trainer)",
            "second.trainer",
        ),
        (
            "return make(self)\ndef make(m):\n    return torch.optim.SGD(m.parameters(), lr=0.1)\n",
            "fit(second, second.trainer)",
            "second.trainer",
        ),
        (
            "return torch.optim.SGD(self.parameters(), lr=0.1)",
            "mine = second.trainer\nfit(second, mine)",
            "second, mine",
        ),
    ],
)
def test_an_optimizer_that_is_a_property(get: str, call: str, found: str) -> None:
    found_all = prepared(WITH_OPTIMIZER.format(get=get, step=STEP, call=call))
    assert found in found_all
    assert found_all[0] == "loader, first, own"
    assert any(each.startswith("second") and not each.startswith("second.") for each in found_all)


STEPPED_MOCK = """\
from unittest import mock
from unittest.mock import MagicMock

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
    def fit(self, loader):
        for x, y in loader:
            loss = nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

def test_fit():
    {made}
    trainer = Trainer(nn.Linear(4, 1), other)
    trainer.fit(DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1))))

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
Trainer(model, optimizer).fit(loader)
"""


@pytest.mark.parametrize(
    ("made", "is_prepared"),
    [
        ("other = MagicMock()", False),
        ("other = mock.Mock()", False),
        ("other = MagicMock(spec=torch.optim.SGD)", False),
        ("other = torch.optim.SGD(model.parameters(), lr=0.1)", True),
    ],
)
def test_a_mock_that_is_stepped_is_no_optimizer(made: str, is_prepared: bool) -> None:
    found = prepared(STEPPED_MOCK.format(made=made))
    assert any("other" in each for each in found) is is_prepared
    assert not any("trainer" in each for each in found)
    assert any("model, optimizer" in each for each in found)


LOADED = """\
import importlib
import torch
from torch import nn
from unknown import Base

class Trainer{base}:
    def __init__(self, model, optimizer, loader):
        self.model, self.optimizer, self.loader = model, optimizer, loader
    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = (self.model(x) - y).pow(2).mean()
            loss.backward()
            self.optimizer.step()
    {more}

stages = importlib.import_module("stages").build()
model, optimizer, loader = stages["model"], stages["optimizer"], stages["loader"]
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = model.to(device)
trainer = Trainer(model, optimizer, loader)
trainer.train()
"""


@pytest.mark.parametrize(
    ("base", "more", "model"),
    [
        ("", "", "model"),
        ("(object)", "def step(self): self.train()", "model"),
        ("", "def __iter__(self): yield from self.loader", "model"),
        ("", "def eval(self): pass", "model"),
        ("(Base)", "", "trainer"),  # which may be a module
    ],
)
def test_a_trainer_in_sight_is_no_model(base: str, more: str, model: str) -> None:
    after = run(LOADED.format(base=base, more=more)).after.decode()
    assert f"{model}, optimizer = accelerator.prepare({model}, optimizer)" in after
