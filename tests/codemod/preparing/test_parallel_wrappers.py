"""Facts about calls that wrap a model for several GPUs."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.parallel_wrappers import Wrappers, changes_replicas
from tests.codemod.facts import Facts, texts
from tests.codemod.training_scripts import training

PLAIN = "class Mine(nn.DataParallel):\n    def __getattr__(self, name):\n        return getattr(self.module, name)\n"
CALLBACK = """\
class Mine(nn.DataParallel):
    def replicate(self, module, device_ids):
        return super().replicate(module, device_ids)
"""
OTHER = "class Mine(nn.DataParallel):\n    def forward(self, x):\n        return x\n"


def found(facts: Facts) -> list[str]:
    script = facts.script
    wrappers = Wrappers(script.program, script.files, script.run.run, script.preparation.models).find()
    assert list(script.wrappers) == wrappers
    return texts(wrappers)


@pytest.mark.parametrize("call", ["nn.DataParallel(model)", "nn.DataParallel(module=model, device_ids=[0])"])
def test_wrappers_of_the_library(call: str) -> None:
    assert found(training(model=f"model = {call}\n")) == [call]


@pytest.mark.parametrize(
    "before",
    [
        PLAIN,
        CALLBACK,
        CALLBACK.replace("replicate", "scatter").replace("nn.DataParallel", "torch.nn.parallel.DataParallel"),
        CALLBACK.replace("Mine", "Base")
        + "class Mine(Base):\n    def __init__(self, module):\n        super().__init__(module)\n",
    ],
)
def test_plain_wrappers_of_the_project_s_own(before: str) -> None:
    facts = training(before=before, model="model = Mine(model)\n")
    assert found(facts) == ["Mine(model)"]
    assert facts.script.needed_wrappers == ()


REPLICAS = "replicas = super().replicate(module, device_ids)\n"
ENTER = "        for i, replica in enumerate(replicas):\n            enter(replica, i)\n"


@pytest.mark.parametrize(
    ("replicate", "does_more"),
    [
        (f"{REPLICAS}        call_back(replicas)\n        return replicas", True),
        (f"{REPLICAS}{ENTER}        return replicas", True),
        (f"{REPLICAS}        replicas[0] = module\n        return replicas", True),
        (f"{REPLICAS}        print(len(replicas))\n        return replicas", False),
        ("return nn.parallel.replicate(module, device_ids, not torch.is_grad_enabled())", False),
    ],
)
@pytest.mark.parametrize("derived", ["", "class Mine(Base):\n    pass\n"])
def test_wrappers_that_change_the_replicas(replicate: str, does_more: bool, derived: str) -> None:
    cls = CALLBACK.replace("return super().replicate(module, device_ids)", replicate)
    before = (cls.replace("Mine", "Base") if derived else cls) + derived
    facts = training(before=before, model="model = Mine(model)\n")
    (call,) = facts.script.wrappers
    assert changes_replicas(facts.script.program, call) is does_more


@pytest.mark.parametrize(
    "before",
    [
        OTHER,
        OTHER.replace("forward(self, x)", "loss(self, x)"),
        f"{OTHER.replace('Mine', 'Base')}class Mine(Base):\n    pass\n",
    ],
)
def test_wrappers_that_do_more(before: str) -> None:
    facts = training(before=before, model="model = Mine(model)\n")
    assert found(facts) == []
    assert texts(facts.script.needed_wrappers) == ["Mine(model)"]


def test_classes_that_are_no_wrappers() -> None:
    facts = training(before=OTHER.replace("nn.DataParallel", "nn.Module"), model="model = Mine(model)\n")
    assert found(facts) == []
    assert facts.script.needed_wrappers == ()


def test_no_wrapper() -> None:
    assert found(training(model="model = nn.Sequential(model)\n")) == []


SEVERAL = "torch.cuda.device_count() > 1"
WRAP = "model = nn.DataParallel(model)\n"


@pytest.mark.parametrize(
    ("before", "test", "comes_to"),
    [
        ("", SEVERAL, False),
        ("", f"not {SEVERAL}", True),
        ("", f"torch.cuda.is_available() and {SEVERAL}", False),
        ("several = torch.cuda.device_count() >= 2\n", "several", False),
        ("n_gpu = torch.cuda.device_count()\n", "n_gpu > 1", False),
        ("", "args.multi_gpu", False),
        ("", "len(args.gpus) > 1", False),
        ("", "isinstance(model, nn.DataParallel)", False),
        ("", "not isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel))", True),
        ("", "hasattr(model, 'module')", False),
        ("", "type(model) is nn.DataParallel", False),
        ("", "type(model) != torch.nn.DataParallel", True),
        ("", "torch.cuda.is_available()", None),
        ("", "args.gpu >= 0", None),
        ("", "args.verbose", None),
        ("", "isinstance(model, nn.Sequential)", None),
        (CALLBACK, "isinstance(model, Mine)", False),
        (OTHER.replace("nn.DataParallel", "nn.Module"), "isinstance(model, Mine)", None),
        ("", "hasattr(model, 'head')", None),
    ],
)
def test_conditions_where_no_model_is_wrapped_any_more(before: str, test: str, comes_to: bool | None) -> None:
    is_mode = not any(word in test for word in ("isinstance", "hasattr", "type("))
    wrapped_if = test.removeprefix("not ") if is_mode else SEVERAL
    wrapped = f"if {wrapped_if}:\n    print('wrapped')\n    {WRAP}"
    asked = f"some = 1 if {test} else 2"
    facts = training(imports="from options import args", before=before, model=wrapped, set_up=asked)
    found = {ast.unparse(node): is_body for node, is_body in facts.script.unwrapped.items()}
    assert found.get(ast.unparse(facts.expression(f"1 if {test}"))) is comes_to
