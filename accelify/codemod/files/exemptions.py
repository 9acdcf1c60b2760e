"""Is a rule left out on a line, by a comment there or by the settings of the run?"""

from __future__ import annotations

from dataclasses import dataclass

from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.suppressions import Suppression
from accelify.codemod.options import Selection


@dataclass(frozen=True, slots=True)
class Exemption:
    """The reason why a rule is left out on a line: a comment, or the name of a setting."""

    comment: Suppression | None
    setting: str = ""

    def text(self, line: int) -> str:
        """Its name in a report on a line."""
        if self.comment is None:
            return f"{self.setting} in the settings"
        return f"`{self.comment.text}`" + (f" (line {self.comment.line})" if self.comment.line != line else "")


def exemption(parsed: Parsed, rule: str, line: int, selection: Selection) -> Exemption | None:
    """The exemption of a rule on a line of a file; None where the rule applies."""
    comment = parsed.suppressions.of(rule, line)
    if comment is not None:
        return Exemption(comment)
    setting = selection.leaves_out(rule, parsed.path)
    return Exemption(None, setting) if setting is not None else None
