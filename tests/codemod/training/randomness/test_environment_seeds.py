"""Facts about what seeds the environments that training asks."""

from __future__ import annotations

import pytest

from accelify.codemod.training.loops import Loops
from accelify.codemod.training.randomness.environment_seeds import EnvironmentSeeds
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
    loops = Loops(facts.program, facts.roles, facts.tracer)
    seeds = EnvironmentSeeds(facts.program, facts.roles, loops, facts.training).find()
    assert [(*texts([s.node]), s.is_again) for s in seeds] == found


def test_each_process_sees_episodes_of_its_own() -> None:
    after = run(script("env.seed(args.seed)", "env.reset(seed=args.seed + episode)")).after.decode()
    assert "env.seed(args.seed + accelerator.process_index)" in after
    seed = "(args.seed + episode) * accelerator.num_processes + accelerator.process_index"
    assert f"env.reset(seed={seed})" in after
    assert "test_env.reset(seed=7)" in after
