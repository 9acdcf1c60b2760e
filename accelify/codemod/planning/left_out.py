"""Rules left out by comments and settings: optional changes and notes are dropped; a change that is needed declines.

Which rules are optional is said by each of them: OPTIONAL in its module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from accelify.codemod.edits.values import Attempt, Change, Found, Obstacle, Plan, Remark
from accelify.codemod.files.exemptions import Exemption, exemption
from accelify.codemod.files.parse import Parsed
from accelify.codemod.files.suppressions import Suppression, unknown_rule
from accelify.codemod.options import Options
from accelify.codemod.result import Tier
from accelify.codemod.rules import optional_rules, pages
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.program import Program

NAME = "suppressions"


class LeftOut:
    """The rules that users leave out in a program; remembers which comments did so."""

    def __init__(self, program: Program, options: Options) -> None:
        self._program = program
        self._options = options
        self._optional = optional_rules()
        self._used: set[tuple[str, Suppression]] = set()

    def stays(self, rule: str, path: str, line: int) -> bool:
        """Whether a rule is left out on a line."""
        return self._exemption(rule, path, line) is not None

    def without(self, found: Iterable[Found]) -> list[Found]:
        """The findings of the rules without notes and optional changes that are left out; needed changes are kept.

        An optional attempt that would make a change which is left out gives way to what comes in its place.
        """
        return [kept for one in found for kept in self._kept(one)]

    def _kept(self, one: Found) -> Iterator[Found]:
        if isinstance(one, Attempt):
            if one.is_optional and any(self._is_left_out(inner) for inner in one.found):
                for other in one.otherwise:
                    yield from self._kept(other)
            else:
                yield replace(one, found=tuple(self.without(one.found)), otherwise=tuple(self.without(one.otherwise)))
        elif isinstance(one, Remark):
            if one.tier is Tier.INFO or not self.stays(one.rule, one.path, getattr(one.node, "lineno", 1)):
                yield one
        elif isinstance(one, Obstacle) or one.rule not in self._optional or not self._is_left_out(one):
            yield one

    def _is_left_out(self, one: Found) -> bool:
        return isinstance(one, Change) and self.stays(one.rule, one.path, one.line)

    def needed(self, plan: Plan) -> Iterator[Obstacle]:
        """Why a plan cannot be carried out: the changes in it that the migration needs and that are left out."""
        for change in plan.changes:
            left_out = self._exemption(change.rule, change.path, change.line)
            if left_out is not None:
                message = f"{left_out.text(change.line)} leaves out a change that the migration needs: {change.reason}"
                yield Obstacle(change.rule, change.path, change.edits[0].node, message)

    def notes(self, plan: Plan, effects: Effects) -> Iterator[Remark]:
        """Notes on comments that leave nothing out, or cannot be read, in the files that change."""
        for call in self._program.calls:  # a guard that is left out was never found
            if effects.of_call(call).files_written:
                self._exemption("writes", self._program.path(call), call.lineno)
        for path in sorted({change.path for change in plan.changes}):
            parsed = self._program.flow.parsed_of[path]
            for loop in (n for n in parsed.nodes if isinstance(n, (ast.For, ast.AsyncFor))):
                if any(effects.kinds.of(n) == {"loader"} for n in ast.walk(loop.iter) if isinstance(n, ast.expr)):
                    self._exemption("metrics", path, loop.lineno)  # nor was sharing of its batches
            useless = [c for c in parsed.suppressions.all if (path, c) not in self._used and not _is_of_a_check(c)]
            said = [*parsed.suppressions.faults, *((comment.line, _useless(comment)) for comment in useless)]
            for line, message in said:
                if not self._may_be_useless(parsed, line):
                    yield Remark(NAME, path, ast.Pass(lineno=line, col_offset=0), message)

    def _may_be_useless(self, parsed: Parsed, line: int) -> bool:
        """Whether users accept a useless comment, by this rule's name: one on all rules would accept itself."""
        named = any(NAME in (each.rules or ()) and line in each.lines for each in parsed.suppressions.all)
        return named or self._options.selection.leaves_out(NAME, parsed.path) is not None

    def _exemption(self, rule: str, path: str, line: int) -> Exemption | None:
        found = exemption(self._program.flow.parsed_of[path], rule, line, self._options.selection)
        if found is not None and found.comment is not None:
            self._used.add((path, found.comment))
        return found


def _is_of_a_check(comment: Suppression) -> bool:
    """Whether a comment leaves out what `accelify check` reports, which is not for the rewriter to judge."""
    from accelify.codemod.checks import CHECKS  # here, as few files have such comments

    return not (comment.rules or frozenset()).isdisjoint(name for name, _ in CHECKS)


def _useless(comment: Suppression) -> str:
    known = pages()
    strange = [rule for rule in sorted(comment.rules or ()) if rule not in known]
    if strange:
        return unknown_rule(comment, strange[0], known)
    return f"`{comment.text}` suppresses nothing here: remove it"
