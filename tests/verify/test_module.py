"""Scripts that are run as modules of a package, from the project's root."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from accelify.verify.experiment import Request
from accelify.verify.forking import Server
from accelify.verify.prove import prove
from tests.verify import scripts
from tests.verify.conftest import LIMITS, differing


def test_a_module_of_a_package_imports_as_it_does_under_python_m(server: Server, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sizes.py").write_text("HIDDEN = 8\n")
    text = scripts.CLASSIFIER.replace(
        "import torch\n", "import torch\nfrom . import sizes\nfrom package.sizes import HIDDEN\n", 1
    )
    (package / "train.py").write_text(text.replace("nn.Linear(6, 8)", "nn.Linear(6, sizes.HIDDEN)"))
    request = Request(
        package / "train.py",
        module="package.train",
        limits=replace(LIMITS, steps=2),
        folder=tmp_path,
        launched=False,
        on_gpus=False,
    )
    verdict = prove(request, lambda words: None, server)
    assert differing(verdict) == []
    assert verdict.conclusion == "proven for 2 steps; not reached: the end of an epoch, evaluation, checkpoints"
