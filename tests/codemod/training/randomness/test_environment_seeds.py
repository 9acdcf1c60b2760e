"""Facts about what seeds the environments that training asks."""

from __future__ import annotations

import pytest

from accelify.codemod.training.loops.nesting import Nesting
from accelify.codemod.training.randomness.environment_seeds import EnvironmentSeeds
from accelify.codemod.training.randomness.workers import run_beside
from tests.codemod.facts import Facts, texts
from tests.codemod.pairs import run

SCRIPT = """\
import argparse
import gym
import torch
from torch import nn
from torch.distributions import Categorical
args = argparse.ArgumentParser().parse_args()
env, test_env = gym.make('CartPole-v1'), gym.make('CartPole-v1')
policy = nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters())
def evaluate(policy):
    state, done = test_env.reset(seed=7), False
    while not done:
        state, reward, done, _ = test_env.step(policy(state).argmax().item())
    return reward
{before}
for episode in range(9):
    {inside}
    state, done = env.reset(), False
    while not done:
        action = Categorical(logits=policy(state)).sample()
        state, reward, done, _ = env.step(action.item())
    loss = -policy(state).sum() * reward
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(evaluate(policy))
"""


def script(before: str = "pass", inside: str = "pass") -> str:
    return SCRIPT.format(before=before, inside=inside)


@pytest.mark.parametrize(
    ("before", "inside", "found"),
    [
        ("env.reset(seed=args.seed)", "pass", [("args.seed", False)]),
        ("env.seed(args.seed)", "pass", [("args.seed", False)]),
        ("env.action_space.seed(3)", "pass", [("3", False)]),
        ("env.seed(seed=5)", "pass", [("5", False)]),
        ("env.seed(None)", "env.reset(seed=None)", []),
        ("pass", "env.reset(seed=args.seed + episode)", [("args.seed + episode", True)]),
        ("for i in range(3):\n    env.seed(i)", "pass", [("i", True)]),
        ("test_env.seed(3)", "pass", []),
        ("def make(seed):\n    def build():\n        e = gym.make('x'); e.seed(seed)\n        return e\n"
         "    return build\nenv = gym.vector.SyncVectorEnv([make(i) for i in range(3)])", "pass", [("seed", True)]),
    ],
)  # fmt: skip
def test_what_seeds_environments(before: str, inside: str, found: list[tuple[str, bool]]) -> None:
    facts = Facts(script(before, inside))
    nesting = Nesting(facts.program, facts.roles, facts.tracer)
    beside = run_beside(facts.program, facts.training.frames)
    seeds = EnvironmentSeeds(facts.program, facts.roles, nesting, facts.training, beside).find()
    assert [(*texts([s.node]), s.is_again) for s in seeds] == found


def test_each_process_sees_episodes_of_its_own() -> None:
    after = run(script("env.seed(args.seed)", "env.reset(seed=args.seed + episode)")).after.decode()
    assert "env.seed(args.seed + accelerator.process_index)" in after
    seed = "(args.seed + episode) * accelerator.num_processes + accelerator.process_index"
    assert f"env.reset(seed={seed})" in after
    assert "test_env.reset(seed=7)" in after


@pytest.mark.parametrize(
    "made", ["gym.vector.SyncVectorEnv([make] * 4)", "gym.make_vec('a', 4)", "gym.vector.make('a')"]
)
@pytest.mark.parametrize(
    ("seeded", "after"),
    [
        ("env.reset(seed=args.seed)", "args.seed + accelerator.process_index * env.num_envs"),
        ("env.seed(3)", "3 + accelerator.process_index * env.num_envs"),
        (
            "for k in range(2): env.seed(k)",
            "k * accelerator.num_processes + accelerator.process_index",
        ),
    ],
)
def test_environments_in_one_take_as_many_seeds(made: str, seeded: str, after: str) -> None:
    assert (
        after in run(script(f"env = {made}\n{seeded}").replace("import gym", "import gymnasium as gym")).after.decode()
    )


IN_WORKERS = """\
import gym
import torch
from functools import partial
from torch import nn
from vec_env import SubprocVecEnv
{made}
class Agent:
    def __init__(self):
        self.policy = nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.policy.parameters())
    def act(self, state):
        choice = torch.distributions.Categorical(logits=self.policy(state))
        action = choice.sample()
        return action, choice.log_prob(action)
if __name__ == "__main__":
    env = SubprocVecEnv([{maker} for i in range(4)])
    agent = Agent()
    state = env.reset()
    for step in range(100):
        action, log_prob = agent.act(state)
        state, reward, _, _ = env.step(action)
        loss = -(log_prob * reward).mean()
        agent.optimizer.zero_grad()
        loss.backward()
        agent.optimizer.step()
"""
BUILT = """\
def make_env(seed, rank):
    def build():
        env = gym.make('CartPole-v1')
        env.seed(seed + rank)
        return env
    return build
"""
MADE = """\
def make_env(seed):
    env = gym.make('CartPole-v1')
    env.reset(seed=seed)
    return env
"""


@pytest.mark.parametrize(
    ("made", "maker", "seed"),
    [
        (BUILT, "make_env(1, i)", "env.seed((seed + rank) *"),
        (MADE, "partial(make_env, i)", "env.reset(seed=seed *"),
        (MADE, "lambda i=i: make_env(i)", "env.reset(seed=seed *"),
    ],
)
def test_a_worker_process_is_seeded_without_joining_the_others(made: str, maker: str, seed: str) -> None:
    result = run(IN_WORKERS.format(made=made, maker=maker))
    place = "accelify.runtime.Environment.read()"
    assert f"{seed} {place}.num_processes + {place}.process_index" in result.after.decode()
    assert "PartialState" not in result.after.decode()


OWN_VECTOR = """\
import gym, torch
import multiprocessing as mp
from torch import nn
def work(remote, seed):
    env = gym.make('CartPole-v1')
    {seeds}
    state = env.reset()
    while True:
        state, reward, done, _ = env.step(remote.recv())
        remote.send((state, reward))
class Vector:
    def __init__(self, seed):
        self.ends, others = zip(*[mp.Pipe() for _ in range(2)])
        for i, end in enumerate(others):
            mp.Process(target=work, args=(end, seed + i)).start()
    def step(self, actions):
        for end, action in zip(self.ends, actions):
            end.send(action)
        return [end.recv() for end in self.ends]
if __name__ == "__main__":
    envs = Vector(1)
    policy = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(policy.parameters())
    state = torch.zeros(2, 4)
    for step in range(100):
        choice = torch.distributions.Categorical(logits=policy(state))
        states, rewards = zip(*envs.step(choice.sample().tolist()))
        state = torch.tensor(states)
        optimizer.zero_grad()
        loss = -(choice.log_prob(choice.sample()) * torch.tensor(rewards)).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("seeds", ["env.seed({})", "env.reset(seed={})", "env.action_space.seed({})"])
def test_the_workers_of_a_vector_environment_of_the_script_s_own(seeds: str) -> None:
    after = run(OWN_VECTOR.format(seeds=seeds.format("seed"))).after.decode()
    place = "accelify.runtime.Environment.read()"
    assert seeds.format(f"seed * {place}.num_processes + {place}.process_index") in after


def test_a_worker_s_seed_is_not_asked_of_an_accelerator_that_would_stand_alone_there() -> None:
    text = IN_WORKERS.format(made=MADE, maker="partial(make_env, i)")
    text = text.replace('if __name__ == "__main__":', "if True:").replace("Agent()", "Agent()\n    made = make_env")
    after = run(text).after.decode()
    assert "env.reset(seed=seed * accelify.runtime.Environment.read()" in after
    assert "import accelify.runtime\n" in after


@pytest.mark.parametrize(
    ("before", "inside", "complete"),
    [
        ("pass", "pass", False),
        ("env.seed(None)", "pass", False),
        ("env.action_space.seed(3)", "pass", False),
        ("test_env.seed(3)", "pass", False),
        ("envs = [gym.make('a') for _ in range(4)]\nenv.seed(3)", "envs[0].step(1)", False),
        ("env.seed(3)", "pass", True),
        ("pass", "env.reset(seed=args.seed + episode)", True),
        ("class Own:\n    def reset(self): return torch.rand(4)\n"
         "    def step(self, action): return self.reset(), 1, 1, 0\n"
         "env = Own()", "pass", True),
    ],
)  # fmt: skip
def test_whether_all_environments_are_seeded(before: str, inside: str, complete: bool) -> None:
    facts = Facts(script(before, inside))
    nesting = Nesting(facts.program, facts.roles, facts.tracer)
    assert EnvironmentSeeds(facts.program, facts.roles, nesting, facts.training, []).are_complete is complete


_BY_MOVES = """\
import gym
import torch
from torch import nn
from torch.distributions import Categorical
{made}
policy = nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters())
moves = 0
while moves < 300:
    state, done, chances = {env}.reset(), False, []
    while not done:
        choice = Categorical(logits=policy(torch.tensor(state)))
        action = choice.sample()
        chances.append(choice.log_prob(action))
        state, reward, done, _ = {env}.step(action.item())
        moves += 1
    loss = -torch.stack(chances).mean() * len(chances)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    optimizer.param_groups[0]["lr"] = (300 - moves) / 300 * 1e-3
"""


@pytest.mark.parametrize(
    ("made", "env", "apart"),
    [
        ("env = gym.make('CartPole-v0')", "env", True),
        ("envs = [gym.make('CartPole-v0') for _ in range(2)]", "envs[0]", True),
        ("class Player:\n    def __init__(self): self.env = gym.make('CartPole-v0')\nplayer = Player()",
         "player.env", True),
        ("env = gym.make('CartPole-v0')\nenv.seed(3)", "env", False),
    ],
)  # fmt: skip
def test_a_rate_that_follows_the_moves_of_own_episodes(made: str, env: str, apart: bool) -> None:
    result = run(_BY_MOVES.format(made=made, env=env))
    said = {(note.rule, note.message.split(":")[0].split(",")[0]) for note in result.notes}
    assert (("data", "every process has the same data here") in said) is not apart
    assert (("data", "each process draws its own data") in said) is apart
    assert (("decisions", "this is decided from one process's own data") in said) is apart
    assert (("schedules", "each process sets this learning rate from its own data") in said) is apart
    assert ("accelerator.seed_by_rank()" in result.after.decode()) is apart
