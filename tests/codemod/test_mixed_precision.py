"""Mixed precision by hand becomes the accelerator's, all of it or nothing."""

from __future__ import annotations

import pytest

from accelify.codemod.result import FileResult, Status
from tests.codemod.pairs import rewritten, run

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
{imports}
{flag}
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{scaler}
for epoch in range(2):
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        with {autocast}:
            loss = nn.functional.mse_loss(model(x), y)
        {step}
{end}
"""
STEP = "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"


def made(**slots: str) -> FileResult:
    defaults = {
        "imports": "",
        "flag": "",
        "scaler": "scaler = torch.amp.GradScaler('cuda')",
        "autocast": "torch.autocast('cuda')",
        "step": STEP,
        "end": "",
    }
    return run(SCRIPT.format(**{**defaults, **slots}))


def created(result: FileResult) -> str:
    """The line that creates the accelerator, with its blanks squeezed."""
    assert result.status is Status.MIGRATED, result.notes
    text = result.after.decode()
    start = text.index("accelerator = Accelerator(")
    return (
        " ".join(text[start : text.index("\n\n", start)].split("\nloader")[0].split())
        .replace("( ", "(")
        .replace(" )", ")")
    )


def assert_taken_over(result: FileResult) -> None:
    text = result.after.decode()
    assert "with accelerator.autocast():" in text
    assert "accelerator.backward(loss)" in text
    assert "optimizer.step()" in text
    assert "scaler" not in text


@pytest.mark.parametrize(
    ("autocast", "precision"),
    [
        ("torch.autocast('cuda')", '"fp16" if torch.cuda.is_available() else "no"'),
        ("torch.cuda.amp.autocast()", '"fp16" if torch.cuda.is_available() else "no"'),
        ("torch.autocast('cuda', dtype=torch.float16)", '"fp16" if torch.cuda.is_available() else "no"'),
        ("torch.amp.autocast('cuda', torch.bfloat16)", '"bf16" if torch.cuda.is_available() else "no"'),
        ("torch.autocast(x.device.type, dtype=torch.bfloat16)", '"bf16"'),
        ("torch.autocast('cpu')", '"bf16"'),
        ("torch.autocast(x.device.type)", '"fp16" if torch.cuda.is_available() else "bf16"'),
    ],
)
def test_each_kind_of_autocast_has_its_precision(autocast: str, precision: str) -> None:
    result = made(autocast=autocast)
    assert_taken_over(result)
    assert created(result) == f"accelerator = Accelerator(mixed_precision={precision})"


@pytest.mark.parametrize(
    ("flag", "condition"),
    [
        ("use_amp = True", "use_amp and torch.cuda.is_available()"),
        ("use_amp = torch.cuda.is_available()", "use_amp"),
    ],
)
def test_a_switch_is_read_where_the_accelerator_is_created(flag: str, condition: str) -> None:
    switched = {"scaler": "scaler = torch.cuda.amp.GradScaler(enabled=use_amp)", "flag": flag}
    result = made(autocast="torch.cuda.amp.autocast(enabled=use_amp)", **switched)
    assert_taken_over(result)
    assert created(result) == f'accelerator = Accelerator(mixed_precision="fp16" if {condition} else "no")'


@pytest.mark.parametrize(
    ("flag", "precision"),
    [
        ("use_amp = torch.cuda.is_available()", '"fp16" if use_amp else "no"'),
        ("use_amp = True", '("fp16" if torch.cuda.is_available() else "bf16") if use_amp else "no"'),
    ],
)
def test_a_switch_for_gpus_asks_once_for_them(flag: str, precision: str) -> None:
    switched = {"scaler": "scaler = torch.amp.GradScaler(enabled=use_amp)", "flag": flag}
    result = made(autocast="torch.autocast(x.device.type, enabled=use_amp)", **switched)
    assert_taken_over(result)
    assert created(result) == f"accelerator = Accelerator(mixed_precision={precision})"


@pytest.mark.parametrize(
    ("option", "device", "precision"),
    [
        (
            "'--cpu', action='store_true'",
            "'cuda' if torch.cuda.is_available() and not args.cpu else 'cpu'",
            'cpu=args.cpu, mixed_precision="fp16" if torch.cuda.is_available() and not args.cpu else "no"',
        ),
        (
            "'--gpu', action='store_true'",
            "'cuda' if torch.cuda.is_available() and args.gpu else 'cpu'",
            'cpu=not args.gpu, mixed_precision="fp16" if torch.cuda.is_available() and args.gpu else "no"',
        ),
        (
            "'--device', default='cuda'",
            "args.device if torch.cuda.is_available() else 'cpu'",
            "cpu=args.device.startswith('cpu'), mixed_precision=\"fp16\" if torch.cuda.is_available() "
            "and not args.device.startswith('cpu') else \"no\"",
        ),
        (
            "'--epochs', type=int",
            "'cuda' if torch.cuda.is_available() else 'cpu'",
            'mixed_precision="fp16" if torch.cuda.is_available() else "no"',
        ),
    ],
)
def test_an_option_for_the_cpu_keeps_the_precision_full(option: str, device: str, precision: str) -> None:
    flag = f"""\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument({option})
args = parser.parse_args()
device = torch.device({device})"""
    script = SCRIPT.replace(".cuda()", ".to(device)").format(
        imports="",
        flag=flag,
        scaler="scaler = torch.amp.GradScaler('cuda', enabled=device.type == 'cuda')",
        autocast="torch.autocast('cuda', enabled=device.type == 'cuda')",
        step=STEP,
        end="",
    )
    result = run(script)
    assert_taken_over(result)
    assert created(result).replace(",)", ")") == f"accelerator = Accelerator({precision})"


@pytest.mark.parametrize("name", ["torch.GradScaler", "torch.cuda.amp.GradScaler", "torch.amp.GradScaler"])
def test_each_name_of_the_scaler_is_known(name: str) -> None:
    assert_taken_over(made(scaler=f"scaler = {name}()"))


def test_a_context_that_is_chosen_is_the_accelerators() -> None:
    switched = {"scaler": "scaler = torch.cuda.amp.GradScaler(enabled=use_amp)", "flag": "use_amp = True"}
    result = made(
        imports="from contextlib import nullcontext",
        autocast="torch.cuda.amp.autocast() if use_amp else nullcontext()",
        **switched,
    )
    assert_taken_over(result)
    assert "nullcontext" not in result.after.decode()


def test_a_scaler_that_may_be_none() -> None:
    step = f"""\
if scaler is not None:
            {STEP}
        else:
            loss.backward(); optimizer.step()"""
    flag = "use_amp = True"
    scaler = "scaler = torch.cuda.amp.GradScaler() if use_amp else None"
    result = made(flag=flag, scaler=scaler, step=step, autocast="torch.autocast('cuda', enabled=use_amp)")
    assert_taken_over(result)
    assert "else:" not in result.after.decode()


def test_clipping_unscales() -> None:
    clip = (
        "scaler.scale(loss).backward(); scaler.unscale_(optimizer); nn.utils.clip_grad_norm_(model.parameters(), 1.0); "
    )
    text = made(step=clip + "scaler.step(optimizer); scaler.update()").after.decode()
    assert "accelerator.clip_grad_norm_(model.parameters(), 1.0)" in text
    assert "unscale" not in text


def test_unscaling_for_something_else_stays() -> None:
    step = "scaler.scale(loss).backward(); scaler.unscale_(optimizer); print(model.weight.grad); "
    text = made(step=step + "scaler.step(optimizer); scaler.update()").after.decode()
    assert "accelerator.unscale_gradients(optimizer)" in text


def test_clipping_of_scaled_gradients_stays_the_scripts() -> None:
    step = "scaler.scale(loss).backward(); nn.utils.clip_grad_norm_(model.parameters(), 1.0); "
    text = made(step=step + "scaler.step(optimizer); scaler.update()").after.decode()
    assert "nn.utils.clip_grad_norm_(model.parameters(), 1.0)" in text
    assert "accelerator.clip_grad_norm_" not in text


def test_a_sum_of_losses_keeps_its_parentheses() -> None:
    step = STEP.replace("scale(loss)", "scale(loss + 1)")
    assert "accelerator.backward(loss + 1)" in made(step=step).after.decode()


@pytest.mark.parametrize(
    "slots",
    [
        {"end": "torch.save(scaler.state_dict(), 'scaler.pt')"},
        {"end": "print(scaler.get_scale())"},
        {"end": "hand_over(scaler)", "imports": "from library import hand_over"},
        {"scaler": "scaler = torch.amp.GradScaler('cuda', init_scale=2.0)"},
        {"scaler": "scaler, other = torch.amp.GradScaler('cuda'), 1"},
        {"step": "scaled = scaler.scale(loss); scaled.backward(); scaler.step(optimizer); scaler.update()"},
        {"step": f"extra = model(x).mean(); {STEP}"},
        {"autocast": "torch.autocast('cuda', enabled=epoch > 0)"},
        {"autocast": "torch.autocast('cuda', dtype=chosen)", "flag": "from library import chosen"},
        {"autocast": "torch.no_grad()", "end": "with torch.autocast('cuda'):\n    print(model(x))"},
    ],
)
def test_what_is_not_understood_stays_whole(slots: dict[str, str]) -> None:
    result = made(**slots)
    assert result.status is Status.MIGRATED, result.notes
    text = result.after.decode()
    assert "GradScaler" in text
    assert "mixed_precision" not in text
    assert "scaler.step(optimizer)" in text
    assert not any(n.rule == "mixed_precision" for n in result.notes)


def test_a_switch_that_is_known_too_late_leaves_all_as_it_is() -> None:
    result = made(
        scaler="use_amp = True\nscaler = torch.cuda.amp.GradScaler(enabled=use_amp)",
        autocast="torch.cuda.amp.autocast(enabled=use_amp)",
    )
    assert "mixed_precision" not in result.after.decode()
    assert "GradScaler" in result.after.decode()


def test_the_model_under_no_autocast_is_reported() -> None:
    result = made(end="model.eval()\nwith torch.no_grad():\n    print(model(x))")
    assert_taken_over(result)
    assert any("computes in mixed precision here, too" in n.message for n in result.notes)


def test_branches_that_differ_otherwise_both_stay() -> None:
    rewritten(
        """\
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset


        def main(amp: bool):
            loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = None
            if amp:
                scaler = torch.cuda.amp.GradScaler()
            for x, y in loader:
                if amp:
                    with torch.cuda.amp.autocast():
                        loss = nn.functional.mse_loss(model(x), y)
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss = nn.functional.mse_loss(model(x), y, reduction="sum")
                    loss.backward()
                    optimizer.step()
        """,
        """\
        import torch
        from accelify.runtime import Accelerator
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset


        def main(amp: bool):
            accelerator = Accelerator(
                mixed_precision="fp16" if amp and torch.cuda.is_available() else "no"
            )
            loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
            for x, y in loader:
                if amp:
                    with accelerator.autocast():
                        loss = nn.functional.mse_loss(model(x), y)
                    accelerator.backward(loss)
                    optimizer.step()
                else:
                    loss = nn.functional.mse_loss(model(x), y, reduction="sum")
                    accelerator.backward(loss)
                    optimizer.step()
        """,
    )


APEX = """\
import torch
from apex import amp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{start}
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    with amp.scale_loss(loss / 2, optimizer) as scaled:
        {inside}
    optimizer.step()
{end}
"""
O1 = "model, optimizer = amp.initialize(model, optimizer, opt_level='O1', verbosity=0)"


def test_apex_at_its_first_level_is_the_accelerators() -> None:
    result = run(APEX.format(start=O1, inside="scaled.backward()", end=""))
    assert result.status is Status.MIGRATED, result.notes
    text = result.after.decode()
    assert "amp" not in text.replace("import torch", "")
    assert "accelerator.backward(loss / 2)" in text
    assert 'Accelerator(mixed_precision="fp16" if torch.cuda.is_available() else "no")' in text
    assert "    optimizer.step()" in text
    assert any("by other lists than apex's `O1`" in n.message for n in result.notes)


@pytest.mark.parametrize(
    ("slots", "reason"),
    [
        ({"start": O1.replace("O1", "O3")}, "its level is `O1`"),
        ({"start": O1.replace("verbosity=0", "loss_scale=128.0")}, "options that have no counterpart"),
        ({"start": O1.replace("'O1'", "level")}, "its level is `O1`"),
        ({"start": "model = amp.initialize(model, opt_level='O1')"}, "does not return one model and one optimizer"),
        ({"inside": "scaled.backward(); print(scaled)"}, "more than its backward pass"),
        ({"end": "torch.save(amp.state_dict(), 'amp.pt')"}, "`amp.state_dict()` is used"),
        ({"end": "print(amp.master_params(optimizer))"}, "more than clipping"),
        ({"end": "print(amp)"}, "is used otherwise"),
    ],
)
def test_other_uses_of_apex_are_declined_with_the_reason(slots: dict[str, str], reason: str) -> None:
    result = run(APEX.format(**{"start": O1, "inside": "scaled.backward()", "end": "", **slots}))
    assert result.status is Status.DECLINED, result.after.decode()
    assert any(reason in note.message for note in result.notes), result.notes


def test_an_import_of_apex_that_may_leave_none_goes_with_its_check() -> None:
    attempt = "try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n"
    check = "if amp is None:\n    raise ImportError('install apex')\n"
    text = APEX.replace("from apex import amp\n", attempt)
    result = run(text.format(start=check + O1, inside="scaled.backward()", end=""))
    assert result.status is Status.MIGRATED, result.notes
    after = result.after.decode()
    assert "apex" not in after
    assert "amp" not in after
    assert "raise" not in after


PARSED = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--fp16_opt_level", default="{default}")
args = parser.parse_args()
"""
OPTIONS = """\
if args.fp16:
    try:
        from apex import amp
    except ImportError:
        raise ImportError("install apex")
    model, optimizer = amp.initialize(model, optimizer, opt_level=args.fp16_opt_level)
"""


def test_the_level_of_apex_may_be_an_option() -> None:
    text = APEX.replace("from apex import amp\n", "").replace(
        "    with amp.scale_loss(loss / 2, optimizer) as scaled:\n        {inside}\n",
        "    if args.fp16:\n        with amp.scale_loss(loss / 2, optimizer) as scaled:\n            {inside}\n"
        "    else:\n        (loss / 2).backward()\n",
    )
    text = text.replace("\nloader = ", "\n{parsed}loader = ")
    slots = {"start": OPTIONS, "inside": "scaled.backward()", "end": ""}
    result = run(text.format(parsed=PARSED.format(default="O1"), **slots))
    assert result.status is Status.MIGRATED, result.notes
    after = result.after.decode()
    assert "apex" not in after
    assert "if args.fp16:" not in after
    assert 'mixed_precision="fp16" if args.fp16 and torch.cuda.is_available() else "no"' in after
    assert any("`args.fp16_opt_level` is no longer read" in note.message for note in result.notes)
    other = run(text.format(parsed=PARSED.format(default="O0"), **slots))
    assert other.status is Status.DECLINED


IN_CLASS = "class Config:\n    level = 'O1'\n"
DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass Config:\n    level: str = 'O1'\n"


@pytest.mark.parametrize(
    ("settings", "level", "is_known"),
    [
        (IN_CLASS, "Config.level", True),
        (IN_CLASS + "cfg = Config()\n", "cfg.level", True),
        (DATACLASS + "cfg = Config()\n", "cfg.level", True),
        (
            "class Config:\n    def __init__(self, level='O1'):\n        self.level = level\ncfg = Config()\n",
            "cfg.level",
            True,
        ),
        ("settings = {'level': 'O1', 'lr': 0.1}\n", "settings['level']", True),
        ("settings = dict(level='O1', lr=0.1)\n", "settings['level']", True),
        (DATACLASS + "cfg = Config(level='O0')\n", "cfg.level", False),
        (IN_CLASS + "cfg = Config()\ncfg.level = input()\n", "cfg.level", False),
        (IN_CLASS.replace("O1", "O3"), "Config.level", False),
        ("settings = {'level': 'O1'}\nsettings['level'] = input()\n", "settings['level']", False),
        ("import json\nsettings = json.load(open('a.json'))\n", "settings['level']", False),
    ],
)
def test_the_level_of_apex_may_be_a_setting(settings: str, level: str, is_known: bool) -> None:
    text = APEX.replace("\nloader = ", "\n" + settings.replace("{", "{{").replace("}", "}}") + "loader = ")
    result = run(text.format(start=O1.replace("'O1'", level), inside="scaled.backward()", end=""))
    assert (result.status is Status.MIGRATED) is is_known, result.notes
    assert any(f"`{level}` is no longer read" in note.message for note in result.notes) is is_known
    assert any("its level is `O1`" in note.message for note in result.notes) is not is_known


@pytest.mark.parametrize(
    "start",
    [
        O1.replace("O1", "O2"),
        "level = 'O2'\nmodel, optimizer = amp.initialize(model, optimizer, opt_level=level)",
        "model, optimizer = amp.initialize(models=model, optimizers=optimizer, opt_level='O2')",
        O1.replace("'O1', verbosity=0", "'O2', keep_batchnorm_fp32=True, loss_scale='dynamic'"),
    ],
)
def test_apex_at_its_second_level_is_the_accelerators_with_a_word(start: str) -> None:
    result = run(APEX.format(start=start, inside="scaled.backward()", end=""))
    assert result.status is Status.MIGRATED, result.notes
    text = result.after.decode()
    assert "amp" not in text.replace("import torch", "")
    assert "O2" not in text
    assert 'Accelerator(mixed_precision="fp16" if torch.cuda.is_available() else "no")' in text
    assert any("they are in fp32 only" in note.message for note in result.notes), result.notes


def test_with_apex_every_clipping_unscales() -> None:
    inside = "scaled.backward()\n    nn.utils.clip_grad_norm_(model.parameters(), 5.0)"
    text = run(APEX.format(start=O1, inside=inside, end="")).after.decode()
    assert "    accelerator.clip_grad_norm_(model.parameters(), 5.0)" in text


def test_with_apex_gradients_that_are_read_decline() -> None:
    inside = "scaled.backward()\n    print(model.weight.grad)"
    result = run(APEX.format(start=O1, inside=inside, end=""))
    assert any("gradients are read" in note.message for note in result.notes), result.notes


def test_a_choice_of_scalers_goes_with_both_of_them_and_with_the_import() -> None:
    text = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
fp16 = torch.cuda.is_available()
if fp16:
    from torch.cuda.amp import GradScaler
    scaler = GradScaler()
else:
    scaler = None
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=2)
model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    optimizer.zero_grad()
    if not fp16:
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    else:
        with torch.cuda.amp.autocast():
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
    after = run(text).after.decode()
    assert "pass" not in after
    assert "if fp16:" not in after
