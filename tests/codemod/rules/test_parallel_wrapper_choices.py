"""Where no model is wrapped any more, what was done without a wrapper is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.rewrite import Options, rewrite_together
from tests import scripts
from tests.codemod.pairs import left_alone, migrated, run, script

LOAD = "state = torch.load('m.pt')"
STRIP = "state = {k.replace('module.', ''): v for k, v in state.items()}"
SEVERAL = "torch.cuda.device_count() > 1"


@pytest.mark.parametrize(
    "choice",
    [
        f"if {SEVERAL}:\n    model = nn.DataParallel(model)\nelse:\n    {STRIP}",
        f"if not {SEVERAL}:\n    {STRIP}\nelse:\n    model = nn.DataParallel(model)",
        f"several = {SEVERAL}\nif several:\n    print('several')\n    model = nn.DataParallel(model)\n"
        f"if not several:\n    {STRIP}",
        f"if args.multi_gpu:\n    model = nn.DataParallel(model, device_ids=args.gpus)\nelse:\n    {STRIP}",
        f"if args.wrap:\n    model = nn.DataParallel(model)\nelse:\n    {STRIP}",
    ],
)
def test_what_was_done_without_a_wrapper_is_done_whatever_the_machine(choice: str) -> None:
    load = "model.load_state_dict(state)"
    text = migrated(script(imports="from options import args", model=f"{LOAD}\n{choice}\n{load}"))
    assert f"\n{STRIP}\n{load}\n" in text
    assert "DataParallel" not in text
    assert "device_count" not in text


ONE = "torch.cuda.device_count() == 1"
WRAP = "model = nn.DataParallel(model)"


@pytest.mark.parametrize(
    ("choice", "after"),
    [
        (f"if {SEVERAL}:\n    {WRAP}\nelif {ONE}:\n    {STRIP}", f"if {ONE.replace('=', '>', 1)}:\n    {STRIP}\n"),
        (
            f"n_gpu = args.n_gpu\nif n_gpu > 1:\n    {WRAP}\nelif use_cuda and n_gpu == 1:\n    {STRIP}",
            f"if use_cuda and n_gpu >= 1:\n    {STRIP}\n",
        ),
        (f"n = torch.cuda.device_count()\nif n > 1:\n    {WRAP}\nelif n < 2:\n    {STRIP}", f"\n{STRIP}\n"),
        (
            f"if args.multi_gpu:\n    {WRAP}\nelif args.strip:\n    {STRIP}\nelse:\n    print(1)",
            f"if args.strip:\n    {STRIP}\nelse:\n    print(1)\n",
        ),
        (
            f"if args.strip:\n    {STRIP}\nelif {SEVERAL}:\n    {WRAP}\nelse:\n    print(1)",
            f"if args.strip:\n    {STRIP}\nelse:\n    print(1)\n",
        ),
        (f"if args.strip:\n    {STRIP}\nelif {SEVERAL}:\n    {WRAP}", f"if args.strip:\n    {STRIP}\n"),
        (f"if {SEVERAL}:\n    {WRAP}\nif {ONE}:\n    {STRIP}", f"if {ONE.replace('=', '>', 1)}:\n    {STRIP}\n"),
        (f"{WRAP}\nif args.gpu == 1:\n    {STRIP}", f"if args.gpu == 1:\n    {STRIP}\n"),  # which GPU, not how many
    ],
)
def test_an_elif_decides_for_the_gpu_of_a_process(choice: str, after: str) -> None:
    text = migrated(script(imports="from options import args", model=f"{LOAD}\n{choice}\nprint(state)"))
    assert f"{after}print(state)\n" in text
    assert "DataParallel" not in text


@pytest.mark.parametrize("test", ["torch.cuda.device_count() == 2", "args.gpu == 1"])
def test_an_elif_for_some_gpus_is_declined_at_it(test: str) -> None:
    choice = f"if {SEVERAL}:\n    {WRAP}\nelif {test}:\n    {STRIP}"
    text = script(imports="from options import args", model=f"{LOAD}\n{choice}")
    left_alone(text, "without `DataParallel`, it depends on this `elif` what is done")


@pytest.mark.parametrize(
    "saved",
    [
        "if isinstance(model, nn.DataParallel):\n    state = model.module.state_dict()\n"
        "else:\n    state = model.state_dict()",
        "if not hasattr(model, 'module'):\n    state = model.state_dict()\n"
        "else:\n    state = model.module.state_dict()",
        "state = model.module.state_dict() if type(model) is nn.DataParallel else model.state_dict()",
        f"state = model.module.state_dict() if {SEVERAL} else model.state_dict()",
        f"if {SEVERAL}:\n    print('several')\nstate = model.state_dict()",
    ],
)
def test_questions_about_a_wrapper_go(saved: str) -> None:
    text = migrated(script(model=f"if {SEVERAL}:\n    model = nn.DataParallel(model)", end=f"{saved}\nprint(state)"))
    assert text.endswith("print(device, use_cuda)\nstate = model.state_dict()\nprint(state)\n")


@pytest.mark.parametrize(
    ("choice", "after"),
    [
        (
            "if use_cuda:\n    model = nn.DataParallel(model)\nelse:\n    torch.set_num_threads(4)",
            "if not use_cuda:\n    torch.set_num_threads(4)",
        ),
        (
            "if args.fast:\n    model = nn.DataParallel(model)\n    torch.set_num_threads(4)",
            "if args.fast:\n    torch.set_num_threads(4)",
        ),
        (
            f"if {SEVERAL}:\n    model = nn.DataParallel(model)\n    print(torch.cuda.device_count())",
            "    print(",
        ),
    ],
)
def test_branches_for_something_else_stay(choice: str, after: str) -> None:
    assert f"{after}" in migrated(script(imports="from options import args", model=choice))


FACTORY = """\
def make(width, cuda=True):
    net = nn.Linear(3, width)
    if {test}:
        {body}
    else:
        {orelse}
    return net
"""


@pytest.mark.parametrize(
    ("test", "body", "orelse", "after"),
    [
        ("cuda", "net = nn.DataParallel(net).cuda()", "net = nn.DataParallel(net)", "cuda"),
        ("cuda", "net = nn.DataParallel(net.cuda())", "pass", "cuda"),
        ("cuda", "net = nn.DataParallel(net).to('cuda')", "print('slow')", "cuda"),
        ("not cuda", "net = nn.DataParallel(net)", "net = nn.DataParallel(net).cuda()", "cuda"),
        ("cuda", "net = nn.DataParallel(net)", "pass", ""),
        ("cuda > 1", "net = nn.DataParallel(net).cuda()", "net = net.cuda()", ""),
    ],
)
def test_a_choice_that_also_decides_about_the_gpu_stays(test: str, body: str, orelse: str, after: str) -> None:
    factory = FACTORY.format(test=test, body=body, orelse=orelse)
    set_up = "model, teacher = make(2, args.cuda), make(2, args.cuda)"
    batch = "target = teacher(x).detach()"
    text = migrated(script(imports="from options import args", before=factory, set_up=set_up, batch=batch))
    made = text.partition("def make")[2].partition("return net")[0]
    assert "DataParallel" not in made
    assert (f"    if {after}:\n        net = net." in made) is bool(after)
    assert ("if " in made) is bool(after)


SAVE = "torch.save(model.module.state_dict(), 'm.pt')"
DEMANDS = [
    f"assert isinstance(model, nn.DataParallel)\n{SAVE}",
    f"assert hasattr(model, 'module'), 'wrap it'\n{SAVE}",
    f"if not isinstance(model, nn.DataParallel):\n    raise TypeError('wrap it')\n{SAVE}",
    f"if not hasattr(model, 'module'):\n    sys.exit('wrap it')\n{SAVE}",
    f"if type(model) is nn.DataParallel:\n    {SAVE}\nelse:\n    raise TypeError('wrap it')",
]


@pytest.mark.parametrize("demand", DEMANDS)
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_what_demanded_a_wrapper_demands_none(tmp_path: Path, demand: str, is_elsewhere: bool) -> None:
    function = "def keep(model):\n    " + demand.replace("\n", "\n    ")
    imports = "import sys\nfrom keeping import keep" if is_elsewhere else "import sys"
    slots = {"imports": imports, "model": "model = nn.DataParallel(model)", "end": "keep(model)"}
    text = script(**slots, before="" if is_elsewhere else function)
    keeping = f"import sys\nimport torch\nfrom torch import nn\n{function}\n"
    scripts.write(tmp_path, {"train.py": text.encode(), "keeping.py": keeping.encode()})
    with scripts.inside(tmp_path):
        found = {r.path: r.after.decode() for r in rewrite_together(("train.py",), Options())}
    lines = found["keeping.py" if is_elsewhere else "train.py"].partition("def keep(model):\n")[2]
    saver = "accelify.runtime" if is_elsewhere else "accelerator"
    assert lines.startswith(f"    {saver}.save(model.state_dict(), 'm.pt')\n")


@pytest.mark.parametrize(
    ("demand", "is_noted"),
    [
        ("assert use_cuda and isinstance(model, nn.DataParallel)", True),
        ("assert not isinstance(model, nn.DataParallel)", False),
        ("assert isinstance(model, nn.Module)", False),
        ("if isinstance(model, nn.DataParallel):\n    raise TypeError", False),
    ],
)
def test_demands_that_stay_or_hold_by_now(demand: str, is_noted: bool) -> None:
    result = run(script(model=f"if {SEVERAL}:\n    model = nn.DataParallel(model)", end=demand))
    assert any("so this fails" in n.message for n in result.notes) is is_noted
    assert (demand in result.after.decode()) is demand.startswith("assert")


PARALLEL = """\
class Parallel(nn.DataParallel):
    def replicate(self, module, device_ids):
        return super().replicate(module, device_ids)
"""


@pytest.mark.parametrize(
    "wrap",
    [
        "model = Parallel(model)",
        "if args.sync:\n    model = Parallel(model)\nelse:\n    model = nn.DataParallel(model)",
    ],
)
def test_a_class_of_the_project_that_is_a_wrapper(wrap: str) -> None:
    text = script(imports="from options import args", before=PARALLEL, model=wrap, end="print(model.module.weight)")
    after = migrated(text)
    assert after.endswith("print(model.weight)\n")
    assert "Parallel(model)" not in after
    more = text.replace("replicate(self, module, device_ids)", "loss(self, x)").replace("(module, device_ids)", "(x)")
    left_alone(more, "`Parallel` does more than divide batches between GPUs")


PATCH = """\
def patch(parallel):
    assert isinstance(parallel, nn.DataParallel)
    old = parallel.replicate
    def replicate(module, device_ids):
        return show(old(module, device_ids))
    parallel.replicate = replicate
"""
WRAPPED = "model = nn.DataParallel(model)\n"


@pytest.mark.parametrize(
    "wrap",
    [
        f"{WRAPPED}patch(model)",
        f"{WRAPPED}patch(parallel=model)",
        f"if {SEVERAL}:\n    model = nn.DataParallel(model)\n    patch(model)",
        f"{WRAPPED}if isinstance(model, nn.DataParallel):\n    patch(model)",
    ],
)
def test_what_only_patches_a_wrapper_goes_with_it(wrap: str) -> None:
    result = run(script(before=PATCH, model=wrap))
    after = result.after.decode()
    assert "patch(" not in after.replace("def patch(", "")
    (note,) = (n for n in result.notes if "convert_sync_batchnorm" in n.message)
    assert after.splitlines()[note.line - 1] == "def patch(parallel):"


@pytest.mark.parametrize(
    ("before", "wrap"),
    [
        (f"{PATCH}    print('patched')\n", f"{WRAPPED}patch(model)"),
        (f"{PATCH}    return parallel\n", f"{WRAPPED}model = patch(model)"),
        (f"{PATCH}def shown(net):\n    print(net)\n    return net\n", f"{WRAPPED}patch(shown(model))"),
        ("", f"{WRAPPED}copies = model.replicate(model.module, [0])"),
    ],
)
def test_other_uses_of_a_wrapper_s_methods_are_in_the_way(before: str, wrap: str) -> None:
    left_alone(script(before=before, model=wrap), "is a method of `DataParallel`, which goes")


def test_a_model_s_own_method_is_not_the_wrapper_s() -> None:
    own = "class Net(nn.Linear):\n    def gather(self, rows):\n        return rows\n"
    after = migrated(script(before=own, model=f"model = Net(4, 1)\nraw = model\n{WRAPPED}rows = raw.gather([1])"))
    assert "rows = raw.gather([1])" in after


@pytest.mark.parametrize(
    ("replicate", "is_noted"),
    [
        ("replicas = super().replicate(module, device_ids)\n        enter(replicas)\n        return replicas", True),
        ("", False),
    ],
)
@pytest.mark.parametrize("wrap", ["model = Parallel(model)", "if args.sync:\n    model = Parallel(model)"])
def test_what_a_wrapper_did_to_its_replicas_is_told(replicate: str, is_noted: bool, wrap: str) -> None:
    plain = "return super().replicate(module, device_ids)"
    before = PARALLEL.replace(plain, replicate or plain)
    result = run(script(imports="from options import args, enter", before=before, model=wrap))
    assert b"Parallel(model)" not in result.after
    assert any("convert_sync_batchnorm(model)` where it was" in n.message for n in result.notes) is is_noted
