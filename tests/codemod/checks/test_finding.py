"""What is found has a node and words, and perhaps a fix."""

from __future__ import annotations

import ast

from accelify.codemod.checks.finding import Finding


def test_most_findings_are_left_for_a_person() -> None:
    assert Finding("rule", ast.Pass(), "message").fix == ()
