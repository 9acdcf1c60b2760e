"""Agents that hold their own networks, helpers that train only if they are told to, and what they draw and read."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from accelify.codemod.result import Status
from accelify.codemod.rewrite import Options, rewrite_together
from tests import scripts
from tests.codemod.pairs import run

AGENT = """\
import random
import torch
from torch import nn

class Agent:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.target = nn.Linear(4, 1)
        self.target.load_state_dict(self.net.state_dict())
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def update(self, x):
        self.optimizer.zero_grad()
        (self.net(x) - self.target(x)).pow(2).mean().backward()
        self.optimizer.step()

"""


def after(text: str) -> str:
    result = run(dedent(text))
    assert result.status is Status.MIGRATED, result.notes
    return result.after.decode()


def test_a_loop_over_agents_shards_no_data() -> None:
    text = after(
        AGENT + "agents = [Agent() for _ in range(2)]\nfor agent in agents:\n    agent.update(torch.randn(2, 4))\n"
    )
    assert "shard" not in text


def test_a_counter_that_chooses_the_agent_shards_no_data() -> None:
    text = after(
        AGENT
        + """\
class Team:
    def __init__(self, n):
        self.agents = [Agent() for _ in range(n)]

    def update(self, x, i):
        self.agents[i].update(x)

team = Team(2)
for episode in range(3):
    for i in range(2):
        team.update(torch.tensor(random.sample(range(9), 4)).float(), i)
"""
    )
    assert "shard" not in text


def test_random_numbers_part_after_the_last_of_several_agents_is_built() -> None:
    text = after(
        AGENT + "agents = [Agent() for _ in range(2)]\nfor _ in range(9):\n    agents[0].update(torch.randn(2, 4))\n"
    )
    assert "for _ in range(2)]\naccelerator.seed_by_rank()\n" in text
    assert text.count("seed_by_rank") == 1


def test_random_numbers_part_in_each_of_two_agents_of_which_one_is_built() -> None:
    other = AGENT[AGENT.index("class") :].replace("Agent", "Other")
    text = after(
        AGENT
        + other
        + "import sys\nagent = Other() if sys.argv[1:] else Agent()\n"
        + "for _ in range(9):\n    agent.update(torch.randn(2, 4))\n"
    )
    assert text.count("seed_by_rank") == 2


MEMORY = """\
class Memory:
    def __init__(self, seed):
        random.seed(seed)

"""
UPDATES = "for _ in range(9):\n    agent.update(torch.randn(2, 4))\n"


@pytest.mark.parametrize(
    "seeding", ["memory = Memory(3)", "np.random.seed(3)", "for seed in (torch.manual_seed, random.seed):\n    seed(3)"]
)
def test_random_numbers_part_after_the_last_seed_before_the_training(seeding: str) -> None:
    text = after(f"import numpy as np\n{AGENT}{MEMORY}agent = Agent()\n{seeding}\n{UPDATES}")
    assert f"{seeding}\naccelerator.seed_by_rank()\n" in text
    assert text.count("seed_by_rank") == 1


def test_the_function_that_seeds_after_the_agent_is_made_passes_the_accelerator() -> None:
    main = f"def main():\n    agent = Agent()\n    memory = Memory(3)\n    {UPDATES}main()\n".replace(
        "\n    agent.up", "\n        agent.up"
    )
    text = after(AGENT + MEMORY + main)
    assert "    agent = Agent(accelerator)\n    memory = Memory(3)\n    accelerator.seed_by_rank()\n" in text
    assert text.count("seed_by_rank") == 1


def test_a_seed_where_the_accelerator_cannot_be_passed_to() -> None:
    main = f"def main(agent):\n    random.seed(3)\n    {UPDATES}".replace("\n    agent.up", "\n        agent.up")
    guarded = "if __name__ == '__main__':\n    import library\n    library.start(main, Agent())\n    main(Agent())\n"
    text = after(f"{AGENT}{main}{guarded}")
    assert "    random.seed(3)\n    Accelerator.current().seed_by_rank()\n" in text
    assert "library.start(main, Agent(accelerator))" in text


def test_a_base_class_gets_the_accelerator_from_whoever_builds_one_of_its_children(tmp_path: Path) -> None:
    base = """\
        import torch
        from torch.utils.tensorboard import SummaryWriter
        from steps import update

        class Base:
            def __init__(self, cuda=True):
                self.device = torch.device("cuda" if cuda and torch.cuda.is_available() else "cpu")
                self.writer = SummaryWriter()

            def learn(self):
                x = torch.randn(2, 4, device=self.device)
                loss = self.net(x).mean()
                update(self.optimizer, loss)
                self.writer.add_scalar("loss", loss.item())

            def __del__(self):
                self.writer.close()
        """
    child = """\
        import torch
        from base import Base

        class {name}(Base):
            def __init__(self, cuda=True):
                super().__init__(cuda)
                self.net = torch.nn.Linear(4, 1).to(self.device)
                self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        """
    steps = """\
        def update(optimizer, loss):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    main = """\
        import sys
        from one import One
        from two import Two

        def main():
            Agent = One if sys.argv[1:] else Two
            agent = Agent(cuda=True)
            for _ in range(9):
                agent.learn()

        main()
        """
    files = {
        "base.py": base,
        "one.py": child.format(name="One"),
        "two.py": child.format(name="Two"),
        "steps.py": steps,
        "main.py": main,
    }
    scripts.write(tmp_path, {name: dedent(text).encode() for name, text in files.items()})
    with scripts.inside(tmp_path):
        found = {r.path: r for r in rewrite_together(("main.py",), Options())}
    assert {p: r.status for p, r in found.items()} == dict.fromkeys(files, Status.MIGRATED), found
    assert b"agent = Agent(accelerator=accelerator)" in found["main.py"].after
    assert b"def __init__(self, accelerator=None):" in found["base.py"].after
    assert b"if self.accelerator.is_main_process:\n            self.writer.close()" in found["base.py"].after
    for name in ("one.py", "two.py"):
        assert b"super().__init__(accelerator)" in found[name].after
        assert b" accelerator.seed_by_rank()" in found[name].after


HELPER = """\
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
    test_loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)

    def compute(x, {parameter}):
        loss = model(x).mean()
        {condition}
            {then}
        {end}
        return loss.item()

    for epoch in range(2):
        for (x,) in train_loader:
            compute(x, {train})
        shown = 0.0
        for i, (x,) in enumerate(test_loader):
            shown += (compute(x{test}) - shown) / (i + 1)
        print(shown)
    """


def _helper(**slots: str) -> str:
    text = dedent(HELPER).format(**{"end": "", "then": "loss.backward(); optimizer.step()", **slots})
    return after("\n".join(line for line in text.split("\n") if line.strip()))


def test_a_helper_that_trains_only_if_told_to_makes_no_training_loop_of_an_evaluation() -> None:
    for slots in (
        {"parameter": "train=False", "condition": "if train:", "train": "True", "test": ""},
        {"parameter": "optimizer=None", "condition": "if optimizer is not None:", "train": "optimizer", "test": ""},
        {"parameter": "phase", "condition": 'if phase == "train":', "train": '"train"', "test": ', "val"'},
        {
            "parameter": "train",
            "condition": "if not train:",
            "then": "return loss.item()",
            "end": "loss.backward(); optimizer.step()",
            "train": "True",
            "test": ", False",
        },
    ):
        text = _helper(**slots)
        assert "train_loader, model, optimizer = accelerator.prepare(train_loader, model, optimizer)" in text, text
        assert "reduce" not in text


def test_a_running_mean_is_not_added_up_over_the_processes() -> None:
    text = after("""\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        mean = 0.0
        for i, (x,) in enumerate(loader):
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
            mean += (loss.item() - mean) / (i + 1)
        print(mean)
        """)
    assert 'mean = accelerator.reduce(mean, "mean")' in text


def test_loaders_behind_an_object_of_the_project_are_prepared_where_they_are_made() -> None:
    text = after("""\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        class Turns:
            def __init__(self, one, other):
                self.one, self.other = self.forever(one), self.forever(other)
                self.step = 0
            def __next__(self):
                self.step += 1
                return next(self.one) if self.step % 2 else next(self.other)
            @staticmethod
            def forever(loader):
                while True:
                    for batch in loader:
                        yield batch
        one = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        other = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        turns = Turns(one, other)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(8):
            (x,) = next(turns)
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        """)
    assert "one, other = accelerator.prepare(one, other)\nturns = Turns(one, other)\n" in text


def test_an_optimizer_that_a_function_hands_back_is_prepared_once() -> None:
    text = after("""\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        def adjust(optimizer, epoch):
            for group in optimizer.param_groups:
                group["lr"] = 0.1 / (epoch + 1)
            return optimizer
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        for epoch in range(2):
            optimizer = adjust(optimizer, epoch)
            for (x,) in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        """)
    assert text.count("prepare(") == 1


def test_an_option_under_which_the_model_is_moved_still_keeps_the_script_on_the_cpu() -> None:
    text = after("""\
        import argparse
        import torch
        from torch import nn
        parser = argparse.ArgumentParser()
        parser.add_argument("--cuda", action="store_true")
        args = parser.parse_args()
        model = nn.Linear(4, 1)
        if args.cuda:
            model.cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(8):
            x = torch.randn(2, 4)
            if args.cuda:
                x = x.cuda()
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        """)
    assert "accelerator = Accelerator(cpu=not args.cuda)\n" in text


def test_a_choice_between_models_on_the_gpu_is_no_choice_of_the_device() -> None:
    text = after("""\
        import argparse
        import torch
        from torch import nn
        parser = argparse.ArgumentParser()
        parser.add_argument("--kind", default="plain")
        args = parser.parse_args()
        if args.kind == "plain":
            model = nn.Linear(4, 1).cuda()
        elif args.kind == "deep":
            model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(8):
            x = torch.randn(2, 4).cuda()
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        """)
    assert "accelerator = Accelerator()\n" in text


def test_processes_wait_for_a_checkpoint_that_a_helper_writes_and_another_reads(tmp_path: Path) -> None:
    storage = """\
        import torch

        def load(path, model):
            model.load_state_dict(torch.load(path))

        def save(model):
            torch.save(model.state_dict(), "best.pt")
        """
    main = """\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        import storage
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        for (x,) in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        storage.save(model)
        storage.load("best.pt", model)
        """
    scripts.write(tmp_path, {"storage.py": dedent(storage).encode(), "main.py": dedent(main).encode()})
    with scripts.inside(tmp_path):
        found = {r.path: r for r in rewrite_together(("main.py",), Options())}
    assert b'accelerator.wait_for_everyone()\nstorage.load("best.pt", model)\n' in found["main.py"].after


def test_a_loop_that_trains_or_evaluates_is_dealt_out_where_it_trains() -> None:
    text = after("""\
        import torch
        from torch import nn
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def run_epoch(data, optimizer=None):
            losses = []
            for i in range(0, len(data), 2):
                loss = model(data[i : i + 2]).mean()
                losses.append(loss.item())
                if optimizer is not None:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            assert optimizer is not None or len(losses) == len(data) // 2
            return sum(losses) / len(losses)

        for epoch in range(2):
            print(run_epoch(torch.ones(8, 4), optimizer), run_epoch(torch.ones(4, 4)))
        """)
    shared = "accelerator.shard(range(0, len(data), 2)) if optimizer is not None else range(0, len(data), 2)"
    assert f"for i in {shared}:" in text


def test_batches_of_a_generator_are_dealt_out_rather_than_parts_of_each() -> None:
    text = after("""\
        import torch
        from torch import nn

        def batches(data):
            for i in range(0, len(data), 4):
                yield data[i : i + 4]

        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in batches(torch.ones(16, 4)):
            for j in range(2):
                part = batch[2 * j : 2 * j + 2]
                optimizer.zero_grad()
                model(part).mean().backward()
                optimizer.step()
        """)
    assert "for batch in accelerator.shard(batches(torch.ones(16, 4))):\n    for j in range(2):\n" in text


def test_iterations_per_epoch_are_no_epochs() -> None:
    text = after("""\
        import torch
        from torch import nn
        data = torch.ones(16, 4)
        iters_per_epoch = 4
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(2):
            for i in range(iters_per_epoch):
                optimizer.zero_grad()
                model(data[i * 4 : i * 4 + 4]).mean().backward()
                optimizer.step()
        """)
    assert "for i in accelerator.shard(range(iters_per_epoch)):" in text
    assert "for epoch in range(2):" in text


def test_neither_times_nor_sums_beside_a_list_are_added_up_over_the_processes() -> None:
    result = run(
        dedent("""\
        import time
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        losses, rows, seconds, best = [], 0, 0.0, None
        for (x,) in loader:
            begin = time.time()
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item() * len(x))
            rows += len(x)
            if best is None or loss.item() < best:
                best = loss.item()
            if best < -9:
                raise SystemExit
            seconds += time.time() - begin
        mean, took = sum(losses) / rows, seconds
        print(mean, took)
        """)
    )
    assert result.status is Status.MIGRATED
    assert b"reduce" not in result.after
    said = {n.message.partition(":")[0] for n in result.notes}
    assert "`losses` covers this process's shard only" in said
    assert "this is decided from one process's own data" in said


def test_a_device_whose_number_is_read_out_of_its_name_keeps_it() -> None:
    result = run(
        dedent("""\
        DEVICE = "cuda:0"
        import argparse
        import torch
        from torch import nn
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default=DEVICE)
        args = parser.parse_args()
        print(int(args.device[5]))
        model = nn.Linear(4, 1).to(args.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 4, device=args.device)).mean().backward()
            optimizer.step()
        """)
    )
    assert b'DEVICE = "cuda:0"\n' in result.after or result.status is Status.DECLINED


def test_a_call_that_may_build_either_of_two_classes_is_given_the_accelerator_once() -> None:
    text = after("""\
        import sys
        import torch
        from torch import nn

        class Runner:
            def __init__(self, model, optimizer=None):
                self.model = model
                self.optimizer = optimizer

            def train(self, data):
                for x in data:
                    self.optimizer.zero_grad()
                    self.model(x).mean().backward()
                    self.optimizer.step()

        class Plain(Runner):
            pass

        class Wordy(Runner):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                print("begins")

        def main():
            kind = Plain if sys.argv[1:] else Wordy
            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            kind(model, optimizer=optimizer).train([torch.ones(2, 4)])

        main()
        """)
    assert "kind(accelerator, model, optimizer=optimizer)" in text


def test_a_wrapper_of_the_project_that_only_hands_on_attributes_goes() -> None:
    text = after("""\
        import argparse
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        class Parallel(nn.DataParallel):
            def __getattr__(self, name):
                try:
                    return super().__getattr__(name)
                except AttributeError:
                    return getattr(self.module, name)
        parser = argparse.ArgumentParser()
        parser.add_argument("--cuda", action="store_true")
        args = parser.parse_args()
        model = nn.Linear(4, 1)
        if args.cuda:
            model = Parallel(model)
            print("on the GPU")
            model.cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader([{"x": torch.randn(4)}] * 8, batch_size=2)
        for batch in loader:
            if args.cuda:
                for key in list(batch.keys()):
                    batch[key] = batch[key].cuda()
            optimizer.zero_grad()
            model(batch["x"]).mean().backward()
            optimizer.step()
        """)
    settings = "split_batches=True, cpu=not args.cuda, device_placement=False"
    assert f"accelerator = Accelerator({settings})\n" in text
    assert "Parallel(model)" not in text
    assert "batch[key] = batch[key].to(accelerator.device)\n" in text


def test_a_loader_that_is_none_at_first_is_prepared_where_it_is_made() -> None:
    text = after("""\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        class Trainer:
            def __init__(self):
                self.loader = None
                self.model = nn.Linear(4, 1)
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            def load(self):
                self.loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
            def train(self):
                for (x,) in self.loader:
                    self.optimizer.zero_grad()
                    self.model(x).mean().backward()
                    self.optimizer.step()
        trainer = Trainer()
        trainer.load()
        trainer.train()
        """)
    assert text.count("self.loader = self.accelerator.prepare(self.loader)") == 1
    assert "self.loader = None\n        self.model" in text


def test_a_meter_of_a_training_loop_is_reported() -> None:
    result = run(
        dedent("""\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset
        class Meter:
            def __init__(self):
                self.sum = self.count = 0
            def update(self, value, n=1):
                self.sum += value * n
                self.count += n
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
        losses = Meter()
        for (x,) in loader:
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
            losses.update(loss.item(), len(x))
        print(losses.sum / losses.count)
        """)
    )
    assert result.status is Status.MIGRATED
    reduced = b"reduce" in result.after
    assert reduced or any(n.message.startswith("`losses` covers this process's shard") for n in result.notes)


def test_a_wrapper_that_is_given_its_model_by_name_goes() -> None:
    text = after("""\
        import torch
        from torch import nn
        model = nn.Linear(4, 1)
        if torch.cuda.device_count() > 1:
            model = nn.DataParallel(module=model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(2, 4)).mean().backward()
            optimizer.step()
        """)
    assert "DataParallel" not in text
    assert "model, optimizer = accelerator.prepare(model, optimizer)" in text


ROLLOUT = """\
import gym
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

env = gym.make("CartPole-v1")
policy = nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters())
expert = torch.load("expert.pt")

def learn(x):
    optimizer.zero_grad()
    policy(x).mean().backward()
    optimizer.step()

for update in range(2):
    states, state = [], env.reset()
    for _ in range(8):
        states.append(state)
        state, _, _, _ = env.step(policy(torch.as_tensor(state)).argmax().item())
    kept = torch.tensor(np.array(states))
    LEARN
"""
LOOPS = {
    "for start in range(0, 8, 2):\n        learn({}[start : start + 2])": "accelerator.shard(",
    "for (x,) in DataLoader(TensorDataset({}), batch_size=2):\n        learn(x)": "accelerator.prepare(DataLoader(",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_what_a_process_saw_itself_is_not_dealt_out(loop: str) -> None:
    own = after(ROLLOUT.replace("LEARN", loop.format("kept")))
    assert LOOPS[loop] not in own
    assert "accelerator.seed_by_rank()" in own
    assert LOOPS[loop] in after(ROLLOUT.replace("LEARN", loop.format("expert")))


def test_the_size_of_what_an_environment_tells_is_no_experience() -> None:
    loop = [*LOOPS][1].format("expert[:, : len(env.reset())]")
    assert "accelerator.prepare(DataLoader(" in after(ROLLOUT.replace("LEARN", loop))
