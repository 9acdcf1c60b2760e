"""Is a rule left out on a line, by a comment there or by the settings of the run?"""

from __future__ import annotations

from dataclasses import dataclass

from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.suppressions import Suppression
from accelify.codemod.options import Selection


@dataclass(frozen=True, slots=True)
class Exemption:
    """What leaves a rule out on a line: a comment, or the setting of a name."""

    comment: Suppression | None
    setting: str = ""

    def text(self, line: int) -> str:
        """What it is called in a report on a line."""
        if self.comment is None:
            return f"{self.setting} in the settings"
        return f"`{self.comment.text}`" + (f" (line {self.comment.line})" if self.comment.line != line else "")


def exemption(parsed: Parsed, rule: str, line: int, selection: Selection) -> Exemption | None:
    """What leaves a rule out on a line of a file; None where it applies."""
    comment = parsed.suppressions.of(rule, line)
    if comment is not None:
        return Exemption(comment)
    setting = selection.leaves_out(rule, parsed.path)
    return Exemption(None, setting) if setting is not None else None
