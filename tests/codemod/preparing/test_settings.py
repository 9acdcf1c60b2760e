"""Facts about settings: expressions as they are where the accelerator is created."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.preparing.reach import Reacher
from accelify.codemod.preparing.settings import Setting, Settings
from tests.codemod.facts import Facts, texts

TEXT = """\
import argparse, torch
args = argparse.ArgumentParser().parse_args()
amp = args.amp
class Options:
    amp = True
def asked(value):
    return value
def train(level, flag):
    own = not flag
    use({0})
need()
train("O1", args.fp16)
"""


def settled(expression: str, text: str = TEXT) -> Setting | None:
    facts = Facts(text.format(expression))
    needs = {facts.scope("main.py"): facts.call("need()")}
    reach = Reacher(facts.program, "accelerator", needs).solve()  # type: ignore[arg-type]
    return Settings(facts.program, facts.roles, facts.tracer, reach).settle(facts.call("use(").args[0])


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("True", "True"),
        ("not True", "False"),
        ("amp", "amp"),
        ("args.amp", "args.amp"),
        ("not amp", "not amp"),
        ("amp and args.b", "amp and args.b"),
        ("level", "'O1'"),
        ("flag", "args.fp16"),
        ("own", "not args.fp16"),
        ("not amp == 'O1'", "amp != 'O1'"),
        ("not amp is not None", "amp is None"),
        ("not amp > 0", "amp <= 0"),
        ("not amp > 0.5", "not amp > 0.5"),
        ("not 0 < amp < 2", "not 0 < amp < 2"),
        ("level == 'O1'", "'O1' == 'O1'"),
        ("torch.cuda.is_available()", "torch.cuda.is_available()"),
        ("args['amp']", "args['amp']"),
        ("int(args.gpu) > -1", "int(args.gpu) > -1"),
        ("len(args.gpus) > 0", "len(args.gpus) > 0"),
        ("args.device.startswith('cuda')", "args.device.startswith('cuda')"),
        ("vars(args)['amp']", "args.amp"),
        ("Options.amp", "Options.amp"),
        ("False if flag else True", "not args.fp16"),
        ("level if flag else amp", "'O1' if args.fp16 else amp"),
        ("asked(amp)", "asked(amp)"),
    ],
)
def test_expressions_where_the_accelerator_is_created(expression: str, code: str) -> None:
    found = settled(expression)
    assert found is not None
    assert found.text == code


@pytest.mark.parametrize("expression", ["undefined", "f(amp)", "open(amp)", "amp + 1", "args[k]"])
def test_what_cannot_be_told_there(expression: str) -> None:
    assert settled(expression) is None


def test_a_parameter_that_is_given_different_things() -> None:
    assert settled("level", TEXT + 'train("O2", args.fp16)\n') is None
    assert settled("flag", TEXT + 'train("O2", args.fp16)\n') is not None


def test_the_statements_after_which_it_is_known() -> None:
    found = settled("amp")
    assert found is not None
    assert texts(found.after) == ["amp = args.amp"]
    assert settled("amp", TEXT.replace("amp = args.amp", "for amp in args.amps:\n    pass")) is None


@pytest.mark.parametrize(
    ("filling", "after"),
    [
        ("options['amp'] = True\noptions['lr'] = 1", ["options = {}", "options['amp'] = True"]),
        ("if amp:\n    options['amp'] = amp", ["options = {}", "if amp:\n    options['amp'] = amp"]),
        ("options['lr'] = 1", ["options = {}"]),
    ],
)
def test_an_item_is_known_where_it_was_set(filling: str, after: list[str]) -> None:
    found = settled("options['amp']", TEXT.replace("need()", f"options = {{{{}}}}\n{filling}\nneed()"))
    assert found is not None
    assert (found.text, texts(found.after)) == ("options['amp']", after)


@pytest.mark.parametrize(
    ("filling", "is_after"),
    [
        ("for name in given:\n    setattr(args, name, given[name])", True),
        ("if given:\n    vars(args).update(given)", True),
        ("args.__dict__.update(given)", True),
        ("def fill(options):\n    for name in given:\n        setattr(options, name, 1)\nfill(args)", True),
        ("for name in given:\n    setattr(other, name, given[name])", False),
        ("args.epochs = 3", False),
        ("args.rates.append(0.1)", False),
    ],
)
def test_options_that_are_set_by_their_names(filling: str, is_after: bool) -> None:
    given = "given, other = {{}}, Options()"
    found = settled(
        "args.amp", TEXT.replace("need()", f"{given}\n{filling.replace('{', '{{').replace('}', '}}')}\nneed()")
    )
    assert found is not None
    last = filling.rpartition("\n")[2] if filling.startswith("def") else filling
    assert (last in texts(found.after)) == is_after


@pytest.mark.parametrize("first", ["from configs import args", "import configs as args", "global args; import args"])
def test_an_import_in_the_function_itself_comes_first(first: str) -> None:
    facts = Facts(f"def main():\n    {first}\n    need()\n    use(args.amp)\nmain()\n")
    needs = {facts.scope("main"): facts.call("need()")}
    reach = Reacher(facts.program, "accelerator", needs).solve()  # type: ignore[arg-type]
    found = Settings(facts.program, facts.roles, facts.tracer, reach).settle(facts.call("use(").args[0])
    assert found is not None
    assert texts(found.after) == [first.rpartition("; ")[2]]


def test_without_one_home_nothing_is_settled() -> None:
    facts = Facts("use(1)\n")
    reach = Reacher(facts.program, "accelerator", {}).solve()
    assert Settings(facts.program, facts.roles, facts.tracer, reach).settle(facts.expression("1")) is None


OTHERS = {
    "main.py": """\
        from steps import measure, options
        first = options()
        need()
        measure(first)
        """,
    "other.py": """\
        from steps import measure, options
        second = options()
        need()
        measure(second)
        """,
    "steps.py": """\
        import argparse
        def options():
            return argparse.ArgumentParser().parse_args()
        def measure(args):
            use(args.gpu)
        """,
}


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, {"main.py": "first.gpu", "other.py": "second.gpu"}),
        (
            {"other.py": "from steps import measure\ndef main(opts):\n    need()\n    measure(opts)\nmain(1)\n"},
            {"main.py": "first.gpu", "other.py": "opts.gpu"},
        ),
        (
            {"other.py": "import main\nfrom steps import measure\nneed()\nmeasure(main.first)\n"},
            {"main.py": "first.gpu", "other.py": "main.first.gpu"},
        ),
        (
            {"other.py": OTHERS["other.py"] + "measure(options())\n"},
            {"main.py": "first.gpu", "other.py": None},
        ),
    ],
    ids=["module", "function", "import", "two values"],
)
def test_what_another_script_gives_counts_in_its_own_runs(more: dict[str, str], found: dict[str, str | None]) -> None:
    facts = Facts(OTHERS | more)
    facts.named = facts.files[:2]
    needing = [n for n in facts.program.calls if ast.unparse(n) == "need()"]
    needs = {facts.program.frame(n): n for n in needing}
    reach = Reacher(facts.program, "accelerator", needs).solve()  # type: ignore[arg-type]
    assert len(reach.homes) == 2
    asked = facts.call("use(").args[0]
    settled = {
        h.module: Settings(facts.program, facts.roles, facts.tracer, reach, h).settle(asked) for h in reach.homes
    }
    assert {path: setting and setting.text for path, setting in settled.items()} == found


GLOBAL = """\
import argparse, torch
args = None
def main():
    global args
    args = argparse.ArgumentParser().parse_args()
    need()
    train()
def train():
    use(args.amp)
main()
"""


def test_a_global_that_only_the_home_sets() -> None:
    def setting(text: str) -> Setting | None:
        facts = Facts(text)
        reach = Reacher(facts.program, "accelerator", {facts.scope("main"): facts.call("need()")}).solve()
        return Settings(facts.program, facts.roles, facts.tracer, reach).settle(facts.call("use(").args[0])

    found = setting(GLOBAL)
    assert found is not None
    assert (found.text, texts(found.after)) == ("args.amp", ["args = argparse.ArgumentParser().parse_args()"])
    assert setting(GLOBAL + "def other():\n    global args\n    args = 1\n") is None


KEPT = """\
import argparse, torch
args = argparse.ArgumentParser().parse_args()
class Trainer:
    def __init__(self, p):
        self.p = p
        self.use_cuda = torch.cuda.is_available() and self.p.cuda
    def fit(self):
        use(self.p.cuda)
        self.p.cuda = {0}
need()
Trainer(args).fit()
"""


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        ("self.use_cuda", True),
        ("self.p.cuda and torch.cuda.is_available()", True),
        ("torch.cuda.is_available()", False),
        ("self.p.cuda and self.p.fast", False),
        ("False", False),
        ("self.p.cuda or other", False),
    ],
)
def test_an_option_that_is_given_what_it_comes_to(value: str, is_kept: bool) -> None:
    """It still says what the user wants, from the beginning on."""
    found = settled(value, KEPT)
    assert (found is not None and [a for a in found.after if "fit" in texts([a])[0]] == []) is is_kept


SET_UP = """\
import torch
GPU = False
def setup():
    {}
def begin():
    setup()
{}
need()
use(GPU)
"""
BY_GLOBAL = "global GPU; GPU = torch.cuda.is_available()"


@pytest.mark.parametrize(
    ("setup", "calls", "after"),
    [
        (BY_GLOBAL, "setup()", ["GPU = False", "setup()"]),
        (BY_GLOBAL, "begin()", ["GPU = False", "begin()"]),
        (BY_GLOBAL, "if torch.rand(1) > 0:\n    begin()", ["GPU = False", "if torch.rand(1) > 0:\n    begin()"]),
        ("GPU = torch.cuda.is_available()", "begin()", ["GPU = False"]),
    ],
)
def test_a_global_that_the_functions_set_which_a_module_calls(setup: str, calls: str, after: list[str]) -> None:
    found = settled("GPU", SET_UP.format(setup, calls))
    assert found is not None
    assert (found.text, sorted(texts(found.after))) == ("GPU", sorted(after))
