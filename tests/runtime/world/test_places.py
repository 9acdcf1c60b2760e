"""Whose code a file holds."""

import os
import sysconfig

import pytest
import torch

from accelify.runtime.world import places

STANDARD = os.__file__
INSTALLED = torch.__file__
BESIDE = f"{sysconfig.get_paths()['stdlib']}/site-packages/lightning/trainer.py"


@pytest.mark.parametrize(
    ("file", "ours", "standard", "installed"),
    [
        (places.__file__, True, False, False),
        (STANDARD, False, True, False),
        ("<frozen importlib._bootstrap>", False, True, False),
        (INSTALLED, False, False, True),
        (BESIDE, False, False, True),
        ("/usr/lib/python3/dist-packages/numpy/lib/npyio.py", False, False, True),
        ("/home/me/my-site-packages-study/train.py", False, False, False),
        (__file__, False, False, False),
    ],
)
def test_whose_code_it_is(file, ours, standard, installed):
    assert places.is_ours(file) == ours
    assert places.is_standard(file) == standard
    assert places.is_installed(file) == installed
    assert places.is_library(file) == (ours or standard or installed)
