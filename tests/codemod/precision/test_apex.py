"""Facts about mixed precision by apex: the common whole, and what stays."""

from __future__ import annotations

import pytest

from accelify.codemod.precision.apex import LEVELS, Apex
from tests.codemod.facts import Facts, texts
from tests.codemod.precision.scripts import precision, settings
from tests.codemod.training_scripts import training

STEP = """\
loss = nn.functional.mse_loss(model(x), y)
optimizer.zero_grad()
with amp.scale_loss(loss, optimizer) as scaled:
    scaled.backward()
optimizer.step()
"""
START = 'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n'


def script(step: str = STEP, start: str = START, imports: str = "from apex import amp\n") -> Facts:
    return training(step=step, set_up=start, imports=imports)


def test_a_script_without_apex() -> None:
    facts = training()
    assert Apex(facts.program, facts.script.training, settings(facts)).find() is None


def test_the_common_whole_is_taken_over() -> None:
    found = precision(script())
    assert found.library == "apex"
    assert found.is_taken_over, found.stays
    assert found.level == "O1"
    assert texts(found.scaled.values()) == ["loss"]
    assert found.code == '"fp16" if torch.cuda.is_available() else "no"'


def test_the_parameters_that_are_clipped() -> None:
    clip = "torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)\noptimizer.step()"
    found = precision(script(STEP.replace("optimizer.step()", clip)))
    assert found.is_taken_over, found.stays
    assert list(found.masters.values()) == ["model.parameters()"]
    assert len(found.clips) == 1


def test_an_import_that_may_fail() -> None:
    imports = "try:\n    from apex import amp\nexcept ImportError:\n    raise ImportError('apex')\n"
    found = precision(script(imports=imports))
    assert found.is_taken_over, found.stays
    assert len(found.imports) == 1


MAYBE = "try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n"


@pytest.mark.parametrize(
    "imports",
    [
        MAYBE,
        MAYBE.replace("amp = None", "print('no apex')\n    amp = None"),
        MAYBE.replace("import amp", "import amp as mixed").replace("amp = None", "mixed = None"),
    ],
)
def test_an_import_that_may_leave_none(imports: str) -> None:
    name = "mixed" if "mixed" in imports else "amp"
    found = precision(script(STEP.replace("amp.", f"{name}."), START.replace("amp.", f"{name}."), imports))
    assert found.is_taken_over, found.stays
    assert len(found.imports) == 1


@pytest.mark.parametrize("test", ["amp is None", "fast and amp is None", "amp is None and fast"])
def test_a_check_that_demands_apex_goes_with_it(test: str) -> None:
    check = f"if {test}:\n    raise ImportError('apex')\n"
    found = precision(script(start=check + START, imports=MAYBE + "fast = True\n"))
    assert found.is_taken_over, found.stays
    assert texts(found.imports)[0].startswith("if ")


@pytest.mark.parametrize(
    "facts",
    [
        script(imports=MAYBE.replace("amp = None", "amp = print")),
        script(imports=MAYBE.replace("amp = None", "nn = None")),
        script(imports=MAYBE, start="if amp is None:\n    lr = 2\n" + START),
        script(imports=MAYBE, start="if amp is not None:\n    raise ImportError\n" + START),
        script(imports=MAYBE, start="if amp is None or input():\n    raise ImportError\n" + START),
        script(imports=MAYBE, start="if amp is None and input():\n    raise ImportError\n" + START),
        script(imports=MAYBE, start="if amp is None:\n    raise ImportError\nelse:\n    print(1)\n" + START),
    ],
)
def test_an_import_that_decides_more_stays(facts: Facts) -> None:
    assert not precision(facts).is_taken_over


@pytest.mark.parametrize(
    "facts",
    [
        script(start=START.replace("O1", "O3")),
        script(start=START.replace('"O1"', "level")),
        script(start=START.replace(")", ", loss_scale=128.0)")),
        script(start='model = amp.initialize(model, opt_level="O1")\n'),
        script(start=START + START),
        script(STEP.replace("    scaled.backward()", "    scaled.backward()\n    print(scaled)")),
        script(STEP.replace("optimizer.step()", "print(model.weight.grad)\noptimizer.step()")),
        script(STEP + "amp.state_dict()\n"),
        script(STEP + "print(list(amp.master_params(optimizer)))\n"),
    ],
)
def test_what_is_not_understood_stays(facts: Facts) -> None:
    assert not precision(facts).is_taken_over


def test_levels() -> None:
    assert LEVELS == ("O1", "O2")
