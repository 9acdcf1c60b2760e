"""An argument wins over a variable, a variable over the project's file, and that over the file a variable names."""

import subprocess
import sys

import pytest

from accelify.runtime import Accelerator, Environment
from accelify.runtime.launch.config import BadSetting, accelerator_settings

VARIABLES = ("ACCELIFY_MIXED_PRECISION", "ACCELIFY_GRADIENT_ACCUMULATION_STEPS", "ACCELIFY_CPU", "ACCELIFY_CONFIG")


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def settings(**options):
    accelerator = Accelerator(cpu=True, **options)
    return accelerator.mixed_precision, accelerator.gradient_accumulation_steps


def test_each_is_stronger_than_the_next(project, monkeypatch):
    assert settings() == ("no", 1)
    named = project / "named.toml"
    named.write_text('gradient_accumulation_steps = 2\nmixed_precision = "bf16"\n')
    monkeypatch.setenv("ACCELIFY_CONFIG", str(named))
    assert settings() == ("bf16", 2)
    (project / "accelify.toml").write_text("gradient_accumulation_steps = 3\n")
    assert settings() == ("bf16", 3)
    monkeypatch.setenv("ACCELIFY_GRADIENT_ACCUMULATION_STEPS", "4")
    assert settings() == ("bf16", 4)
    monkeypatch.setenv("ACCELIFY_MIXED_PRECISION", "no")
    assert settings() == ("no", 4)
    assert settings(mixed_precision="bf16", gradient_accumulation_steps=1) == ("bf16", 1)


def test_the_file_may_keep_it_on_the_cpu(project):
    assert not accelerator_settings(None, None, None, False).cpu
    (project / "accelify.toml").write_text("cpu = true\n")
    assert accelerator_settings(None, None, None, False).cpu


def test_an_environment_handed_in_stands_alone(project):
    (project / "accelify.toml").write_text("gradient_accumulation_steps = 3\n")
    assert settings(environment=Environment()) == ("no", 1)
    assert settings(environment=Environment(gradient_accumulation_steps=5)) == ("no", 5)


def test_a_bad_file_is_named(project):
    (project / "accelify.toml").write_text("gradient_accumulation_step = 3\n")
    with pytest.raises(BadSetting, match=r"accelify\.toml.*did you mean 'gradient_accumulation_steps'"):
        Accelerator(cpu=True)


def test_the_runtime_loads_little_more_than_torch():
    code = (
        "import sys, torch; before = set(sys.modules); from accelify.runtime import Accelerator;"
        "print(*{name for name in set(sys.modules) - before if not name.startswith('accelify')})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    more = set(done.stdout.split())
    heavy = {"yaml", "safetensors", "wandb", "tensorboard", "click", "libcst", "multiprocessing.pool", "pickletools"}
    assert not {name.split(".")[0] for name in more} & heavy, more
    assert len({name for name in more if not name.startswith(("numpy.", "secrets", "csv"))}) < 25, more
