"""What conditions come to in each world, and where code runs."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.semantics.conditions import WORLDS, Conditions, Process, worlds_where
from tests.codemod.semantics.programs import last, marked, program

ONE, MAIN, OTHER = Process.ONE, Process.MAIN, Process.OTHER
IMPORTS = "import argparse, os, sys, torch\nimport torch.distributed as dist\n"


def said(text: str, **where: object) -> bool | None:
    """What the expression that a script ends with comes to in the worlds that are as is said."""
    source = program(IMPORTS + text)
    return Conditions(source).truth_in(last(source), worlds_where(**where))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("True", True),
        ("not 0", True),
        ("None", False),
        ("1 < 2 < 3", True),
        ("1 < 2 > 3", False),
        ("'a' in ('a', 'b')", True),
        ("'c' not in ['a', 'b']", True),
        ("2 ** 3", None),
        ("7 // 2 == 3", True),
        ("6 % 4 == 2 and 3 * 2 == 6", True),
        ("1 / 0 or 1", True),
        ("-1 < 0", True),
        ("[1]", True),
        ("{}", None),
        ("lambda: 0", True),
        ("f'{unknown()}'", None),
        ("unknown()", None),
        ("unknown() and False", False),
        ("unknown() or True", True),
        ("True or unknown()", True),
        ("1 if unknown() else 2", True),
        ("1 if unknown() else 0", None),
        ("bool(3) and int('4') == 4 and len('abc') == 3", True),
    ],
)
def test_constants_and_operators(text: str, answer: bool | None) -> None:
    assert said(text) is answer


@pytest.mark.parametrize(
    ("text", "one", "main", "other"),
    [
        ("dist.get_rank() == 0", True, True, False),
        ("dist.get_rank() != 0", False, False, True),
        ("dist.get_rank() > 0", False, False, True),
        ("dist.get_rank()", False, False, True),
        ("dist.get_rank() in (-1, 0)", True, True, False),
        ("dist.get_rank() == 3", False, False, None),
        ("dist.get_world_size() > 1", False, True, True),
        ("dist.get_world_size() == 4", False, None, None),
        ("dist.get_world_size() - 1 == dist.get_rank()", True, False, None),
        ("dist.is_available() and dist.is_initialized()", False, True, True),
        ("not dist.is_initialized() or dist.get_rank() == 0", True, True, False),
        ("int(os.environ['RANK']) == 0", True, True, False),
        ("int(os.environ.get('LOCAL_RANK', -1)) == -1", True, False, False),
        ("int(os.getenv('WORLD_SIZE', '1')) > 1", False, True, True),
        ("os.environ.get('RANK') is None", True, False, False),
        ("'RANK' in os.environ", False, True, True),
        ("'WORLD_SIZE' not in os.environ", True, False, False),
        ("'HOME' in os.environ", None, None, None),
        ("os.environ['HOME'] == '/root'", None, None, None),
        ("rank = dist.get_rank() if dist.is_initialized() else 0\nrank == 0", True, True, False),
        ("first = dist.get_rank() == 0\nfirst", True, True, False),
        ("from accelerate import Accelerator\nacc = Accelerator()\nacc.is_main_process", True, True, False),
    ],
)
def test_which_process_this_is(text: str, one: bool | None, main: bool | None, other: bool | None) -> None:
    assert [said(text, process=p) for p in (ONE, MAIN, OTHER)] == [one, main, other]


@pytest.mark.parametrize(
    ("text", "with_gpu", "without"),
    [
        ("torch.cuda.is_available()", True, False),
        ("torch.cuda.device_count() > 0", True, False),
        ("torch.cuda.device_count() > 1", None, False),
        ("device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\ndevice.type == 'cuda'", True, False),
        ("device = 'cuda:0' if torch.cuda.is_available() else 'cpu'\ndevice != 'cpu'", True, False),
        ("torch.device('cuda:1').type == 'cuda'", True, True),
        ("torch.zeros(1).is_cuda", None, False),
        ("def f(x):\n    return not x.is_cuda\nf(torch.zeros(1))", None, True),
    ],
)
def test_whether_there_is_a_gpu(text: str, with_gpu: bool | None, without: bool | None) -> None:
    assert [said(text, has_gpu=True), said(text, has_gpu=False)] == [with_gpu, without]


def test_whether_a_model_trains() -> None:
    for model in ("torch.nn.Linear(1, 1)", "Net()", "unknown()"):
        text = f"class Net(torch.nn.Module): pass\nmodel = {model}\nnot model.training"
        assert [said(text, trains=True), said(text, trains=False)] == [False, True]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("x = True\nx = False\nx", False),
        ("x = True\nif unknown():\n    x = False\nx", None),
        ("x = True\nif False:\n    x = False\nx", True),
        ("if unknown():\n    x = 1\nelse:\n    x = 2\nx", True),
        ("x = None\nfor i in unknown():\n    x = 1\nx is None", None),
        ("x = 0\nwhile unknown():\n    x = x + 1\nx", None),
        ("try:\n    x = 1\nexcept OSError:\n    x = 0\nx", None),
        ("try:\n    x = 1\nexcept OSError:\n    x = 2\nx", True),
        ("try:\n    x = 1\nexcept OSError:\n    raise\nx", True),
        ("x = 0\nwith open('f') as x:\n    pass\nx", None),
        ("x, y = 1, 0\ny", False),
        ("x, y = unknown()\ny", None),
        ("x = y = 1\nx", True),
        ("(x := 0)\nx", False),
        ("for mode in ('train', 'test'):\n    pass\nmode == 'valid'", False),
        ("x = 1\ndel x\nx", True),
        ("x: bool = False\nx", False),
        ("x = 1\nx += 1\nx", None),
        ("x = []\nx.append(1)\nx", None),
        ("x = []\nx is None", False),
        ("import logging\nlogging is None", False),
        ("def f(): pass\nf is None", False),
        ("VERBOSE = False\ndef f():\n    return VERBOSE\nf()", False),
        ("VERBOSE = False\nVERBOSE = True\ndef f():\n    return VERBOSE\nf()", True),
        ("def f():\n    return VERBOSE\nVERBOSE = False\nf()", False),
        ("FLAG = False\ndef g():\n    global FLAG\n    FLAG = True\ng()\nFLAG", None),
    ],
)
def test_variables_have_what_reaches_the_read(text: str, answer: bool | None) -> None:
    assert said(text) is (None if answer is None else answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("def f(): return 0\nf()", False),
        ("def f(): pass\nf() is None", True),
        ("def f(x):\n    if x:\n        return 1\n    return 2\nf(unknown())", True),
        ("def f(x):\n    if x:\n        return 1\nf(unknown()) is None", None),
        ("def f(x):\n    if x: return 'a'\n    else: return 'b'\nf(True) == 'a'", True),
        ("def f(x=False): return x\nf()", False),
        ("def f(x=False): return x\nf(True)\nf(x=True)", True),
        ("def f(*a): return a\nf(1)", None),
        ("def f(x): return not x\ndef g(y): return f(y)\ng(0)", True),
        ("def f(n): return f(n - 1) if n else 0\nf(3) is None", False),
        ("f = lambda x: x > 3\nf(4)", True),
        ("def f():\n    raise ValueError\nf()", None),
        ("def f():\n    yield 1\nf() is None", None),
        ("def f(x):\n    assert x\n    return 1\nf(0)", None),
    ],
)
def test_functions_return(text: str, answer: bool | None) -> None:
    assert said(text) is answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("class C:\n    def __init__(self): self.on = False\nc = C()\nc.on", False),
        ("class C:\n    on = True\nc = C()\nc.on", True),
        ("class C:\n    on = True\nc = C()\nc.on = False\nc.on", False),
        ("class C:\n    on = True\n    def off(self): self.on = False\nc = C()\nc.off()\nc.on", None),
        ("class C:\n    def __init__(self, on): self.on = on\nc = C(True)\nc.on", True),
        ("class A: pass\nclass B(A): pass\nb = B()\nisinstance(b, A)", True),
        ("class A: pass\nclass B: pass\nb = B()\nisinstance(b, (A,))", False),
        ("class A: pass\nisinstance(unknown(), A)", None),
        ("class A: pass\na = A()\na is None", False),
        ("class A:\n    def __len__(self): return 0\na = A()\na", None),
        ("opt = torch.optim.SGD([], 0.1)\nopt is not None", True),
        ("x = torch.zeros(1)\nx is None", False),
        ("x = torch.zeros(1)\nx", None),
        ("x = unknown.zeros(1)\nx is None", None),
        ("args = argparse.ArgumentParser().parse_args()\nargs.cuda", None),
        ("args = argparse.ArgumentParser().parse_args()\nargs.cuda = False\nargs.cuda", False),
        ("args = argparse.ArgumentParser().parse_args()\nif unknown():\n    args.cuda = False\nargs.cuda", None),
        ("args = argparse.ArgumentParser().parse_args()\nuse = not args.no_cuda and False\nuse", False),
    ],
)
def test_attributes_and_classes(text: str, answer: bool | None) -> None:
    assert said(text) is answer


def test_an_option_that_follows_from_the_number_of_processes() -> None:
    text = (
        "args = argparse.ArgumentParser().parse_args()\nargs.distributed = dist.get_world_size() > 1\nargs.distributed"
    )
    assert [said(text, process=p) for p in Process] == [False, True, True]


def test_other_modules_are_followed() -> None:
    source = program("from settings import DEBUG\nDEBUG", settings="DEBUG = False")
    assert Conditions(source).truth_in(last(source), WORLDS) is False


def test_the_main_guard_holds_where_a_file_is_run() -> None:
    text = "from other import x\n__name__ == '__main__'"
    source = program(text, other="x = 1\nif __name__ == '__main__':\n    x = 2")
    conditions = Conditions(source)
    assert conditions.truth_in(last(source), WORLDS) is True
    inner = next(s for s in source.files[1].tree.body if isinstance(s, ast.If))
    assert conditions.truth_in(inner.test, WORLDS) is False


def test_a_parameter_is_what_this_call_gives() -> None:
    source = program("def f(train):\n    if train:  # asked\n        pass\nf(True)\nf(False)\nf(unknown())")
    conditions, asked = Conditions(source), marked(source, "asked")
    assert isinstance(asked, ast.If)
    calls = sorted((c for c in source.calls if c.args), key=lambda c: c.lineno)
    world = next(iter(WORLDS))
    assert [conditions.truth(asked.test, world, (c,)) for c in calls] == [True, False, None]
    assert conditions.truth(asked.test, world) is None


def processes(text: str) -> set[Process]:
    """The processes that may run the statement marked `here`."""
    source = program(IMPORTS + text)
    return {w.process for w in Conditions(source).worlds(marked(source, "here"))}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("pass  # here", {ONE, MAIN, OTHER}),
        ("if dist.get_rank() == 0:\n    pass  # here", {ONE, MAIN}),
        ("if dist.get_rank() == 0:\n    pass\nelse:\n    pass  # here", {OTHER}),
        ("if dist.is_initialized():\n    pass  # here", {MAIN, OTHER}),
        ("if dist.is_initialized() and unknown():\n    pass  # here", {MAIN, OTHER}),
        ("def f():\n    if dist.get_rank() != 0:\n        return\n    pass  # here\nf()", {ONE, MAIN}),
        ("def f():\n    pass  # here\nif dist.get_rank() == 0:\n    f()", {ONE, MAIN}),
        ("def f():\n    pass  # here\nif dist.get_rank() == 0:\n    f()\nelse:\n    f()", {ONE, MAIN, OTHER}),
        ("def f():\n    pass  # here\ndef g():\n    f()\nif dist.get_world_size() == 1:\n    g()", {ONE}),
        ("def f(on):\n    if on:\n        pass  # here\nf(dist.get_rank() == 0)", {ONE, MAIN}),
        ("def f(on):\n    if on:\n        pass  # here\nf(False)", set()),
        ("def f(on=True):\n    if not on: return\n    pass  # here\nf()\nf(False)", {ONE, MAIN, OTHER}),
        ("for i in range(3):\n    if dist.get_rank() > 0: continue\n    pass  # here", {ONE, MAIN}),
        ("if dist.get_rank() > 0: sys.exit()\npass  # here", {ONE, MAIN}),
        ("assert dist.get_rank() == 0\npass  # here", {ONE, MAIN}),
        ("while dist.get_world_size() > 1:\n    pass  # here", {MAIN, OTHER}),
        ("try:\n    if dist.get_rank() > 0: raise ValueError\nfinally:\n    pass  # here", {ONE, MAIN, OTHER}),
        ("def f(n):\n    if n: f(n - 1)\n    pass  # here\nf(2)", {ONE, MAIN, OTHER}),
        ("if __name__ != '__main__':\n    pass  # here", set()),
    ],
)
def test_where_a_statement_runs(text: str, where: set[Process]) -> None:
    assert processes(text) == where


def test_the_branch_that_is_live() -> None:
    source = program(IMPORTS + "if torch.cuda.is_available():  # choice\n    a = 1\nelse:\n    a = 2")
    conditions, choice = Conditions(source), marked(source, "choice")
    assert isinstance(choice, ast.If)
    for world in WORLDS:
        assert conditions.live_branch(choice, world) is (choice.body if world.has_gpu else choice.orelse)


@pytest.mark.parametrize(
    ("test", "call", "truth"),
    [
        ("train", "f(True)", True),
        ("train", "f()", False),
        ("not train", "f(True)", False),
        ("train != 'yes'", "f('yes')", False),
        ("train is None", "f(None)", True),
        ("train is not None", "f(torch.zeros(1))", True),
        ("train", "f(torch.optim.SGD(p))", True),
        ("train", "f(unknown)", None),
        ("train", "f(*rest)", None),
        ("train > 3", "f(4)", True),
        ("other", "f(True)", None),
        ("train and other", "f(True)", None),
    ],
)
def test_what_a_condition_says_for_a_call(test: str, call: str, truth: bool | None) -> None:
    source = program(f"import torch\ndef f(train=False):\n    if {test}:  # here\n        pass\n{call}\n")
    question, called = marked(source, "here"), last(source)
    assert isinstance(question, ast.If)
    assert isinstance(called, ast.Call)
    assert Conditions(source).truth_in(question.test, WORLDS, (called,)) is truth


ASKING = """\
rank = dist.get_rank()
many = dist.get_world_size() > 1
def is_main():
    if not dist.is_initialized():
        return True
    return dist.get_rank() == 0
"""


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("if many:\n    pass  # here", {MAIN, OTHER}),
        ("if many:\n    pass\nelse:\n    pass  # here", {ONE}),
        ("if not is_main():\n    pass  # here", {OTHER}),
        ("if flag:\n    pass  # here", {ONE, MAIN, OTHER}),
        ("def f():\n    pass  # here\nif many:\n    f()", {MAIN, OTHER}),
        ("def f():\n    pass  # here\nif many:\n    f()\nf()", {ONE, MAIN, OTHER}),
        ("def f():\n    if not many:\n        return\n    pass  # here\nf()", {MAIN, OTHER}),
    ],
)
def test_where_questions_about_the_group_lead(text: str, where: set[Process]) -> None:
    assert processes(ASKING + text) == where
