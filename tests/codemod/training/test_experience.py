"""Facts about what environments told one process, and what was made of it."""

from __future__ import annotations

import pytest

from accelify.codemod.training.experience import Experience
from tests.codemod.facts import Facts

BEFORE = """\
import gym
env = gym.make("x")
obs = env.reset()
step = env.step(1)
memory, other = [], []
memory.append(obs)
other.append(3)
class Agent:
    def keep(self, reward):
        self.reward = reward
        self.lr = 0.1
    def last(self):
        return self.reward
agent = Agent()
agent.keep(step[1])
def double(x):
    return x * 2
"""


def holds(expression: str, before: str = BEFORE) -> bool:
    facts = Facts(f"{before}use({expression})\n")
    return Experience(facts.program, facts.tracer).holds(facts.call("use(").args[0])


@pytest.mark.parametrize(
    "expression",
    ["obs", "env.step(3)", "step[0]", "memory", "memory[0]", "agent.reward", "agent.last()", "double(obs)", "f(obs)"],
)
def test_what_was_told(expression: str) -> None:
    assert holds(expression)


@pytest.mark.parametrize("expression", ["3", "other", "agent.lr", "len(memory)", "obs.shape", "unknown"])
def test_what_was_not(expression: str) -> None:
    assert not holds(expression)


def test_without_an_environment() -> None:
    assert not holds("memory", "memory = []\nmemory.append(load())\n")


@pytest.mark.parametrize(
    "call",
    [
        "print(obs)",
        'print(f"score {step[0]:.2f}")',
        "print('mean', sum(memory) / len(memory))",
        "import logging\nlogging.getLogger().info('%f', agent.reward)",
    ],
)
def test_where_it_is_shown(call: str) -> None:
    facts = Facts(f"{BEFORE}{call}\n")
    shown = Experience(facts.program, facts.tracer).shown
    assert [each.lineno for each in shown] == [len(f"{BEFORE}{call}".splitlines())]


@pytest.mark.parametrize("call", ["print(other)", "print(len(memory))", "double(obs)", "env.step(obs)"])
def test_where_it_is_not_shown(call: str) -> None:
    facts = Facts(f"{BEFORE}{call}\n")
    assert Experience(facts.program, facts.tracer).shown == ()


STATE = """\
import gym
import numpy as np
env = gym.make("x")
class State:
    def __init__(self):
        self.n, self.mean, self.S, self.std, self.lr = 0, 0.0, 0.0, 1.0, 1.0
    def push(self, x):
        self.n += 1
        old = self.mean
        self.mean = old + (x - old) / self.n
        self.S = self.S + (x - old) * (x - self.mean)
        self.std = np.sqrt(self.S / self.n)
    @property
    def var(self):
        return self.S / self.n
    @property
    def deviation(self):
        return np.sqrt(self.var)
    def reset(self):
        self.last = env.reset()
state = State()
class Filter:
    def __init__(self):
        self.state = State()
    def __call__(self, x):
        self.state.push(x)
        return {returned}
normalize = Filter()
obs = normalize(env.reset())
obs, reward, done, info = env.step(1)
obs = normalize(obs)
"""


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ("(x - self.state.mean) / (self.state.std + 1e-8)", True),
        ("np.clip((x - self.state.mean) / np.sqrt(self.state.var + 1e-8), -5, 5)", True),
        ("x / (self.state.std + 1e-8)", True),
        ("x / (self.state.deviation + 1e-8)", True),
        ("(x - x.mean()) / (x.std() + 1e-8)", False),
        ("x / (self.state.n + 1)", False),
        ("x / (self.state.lr + 1)", False),
        ("3 / (self.state.std + 1e-8)", False),
    ],
)
def test_running_statistics_that_normalize(returned: str, found: bool) -> None:
    facts = Facts(STATE.replace("{returned}", returned))
    assert bool(list(Experience(facts.program, facts.tracer).normalized())) is found


@pytest.mark.parametrize(("wrapper", "found"), [("NormalizeObservation", 1), ("TimeLimit", 0)])
def test_wrappers_that_normalize(wrapper: str, found: int) -> None:
    facts = Facts(f"import gym\nenv = gym.wrappers.{wrapper}(gym.make('x'))\nobs = env.reset()\n")
    assert len(list(Experience(facts.program, facts.tracer).normalized())) == found


BESIDE = """\
import multiprocessing
import gymnasium as gym
def work(remote):
    env = gym.make("x")
    while True:
        remote.send({sent})
class Own(multiprocessing.Process):
    def run(self):
        self.remote.send({own})
mine, theirs = multiprocessing.Pipe()
multiprocessing.Process(target=work, args=(theirs,)).start()
rows = []
rows.append(mine.recv())
"""


@pytest.mark.parametrize(
    ("sent", "own", "is_it"),
    [
        ("env.step(remote.recv())", "1", True),
        ("1", "env.reset()", True),
        ("read(remote.recv())", "1", False),  # what all processes read alike
    ],
)
def test_what_processes_beside_the_script_were_told(sent: str, own: str, is_it: bool) -> None:
    before = BESIDE.format(sent=sent, own=own)
    assert (holds("rows", before), holds("mine", before)) == (is_it, False)
