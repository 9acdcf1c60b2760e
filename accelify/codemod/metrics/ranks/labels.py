"""Labels of values: why a value is one rank's own, and what it is of the arguments that its function is given."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum

from accelify.codemod.semantics.scopes import Scope


class Mark(Enum):
    """The reason why a value is a rank's own."""

    BATCH = "computed from a batch of this rank"
    RUNNING = "updated from round to round of a sharded loop"
    CHOSEN = "chosen by a value of this rank"
    PICKED = "chosen by what this rank draws"
    ROWS = "counts rows of this rank"
    STEPS = "counts steps of this rank"
    DRAW = "drawn at random"
    RANK = "the number of the rank"
    CLOCK = "the time"
    SIMULATION = "given by a simulation"
    SIGNAL = "set when a signal comes"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value becomes a rank's own. `at` is the one part of an object that it is in: an attribute, a key.

    node: the sharded loop of a batch or a count of steps; the update of a running value; the call, or the condition. Of
    what is picked by what a rank draws, that draws it.
    """

    mark: Mark
    node: ast.AST
    at: str | None = None
    differs: bool = True

    def __hash__(self) -> int:  # by what is quick to hash; the hash of a member of an enumeration is not
        return hash((id(self.mark), self.node, self.at, self.differs))

    @property
    def is_count(self) -> bool:
        """Whether all ranks have the same number here, of what each of them counts for itself."""
        return not self.differs


@dataclass(frozen=True, slots=True)
class Given:
    """The value of a parameter, or a part of it: another for each call. update: what adds it to a running value.

    into: the one part of an object that it has become: an attribute, a key.
    """

    scope: Scope
    name: str
    at: str | None = None
    update: ast.AST | None = None
    into: str | None = None


@dataclass(frozen=True, slots=True)
class Rank:
    """The origins of a value; none if it is the same on all ranks."""

    origins: frozenset[Origin] = frozenset()

    @property
    def is_own(self) -> bool:
        """Whether the value may differ between ranks."""
        return any(o.differs for o in self.origins)

    @property
    def is_same(self) -> bool:
        """Whether all ranks have the same value, and it counts nothing of one rank alone."""
        return not self.origins

    def of(self, *marks: Mark) -> frozenset[Origin]:
        """The origins of some kinds."""
        return frozenset(o for o in self.origins if o.mark in marks)

    @property
    def steps(self) -> bool:
        """Whether the value is a count of this rank's steps, or is worked out from such counts."""
        return bool(self.origins) and all(o.mark is Mark.STEPS for o in self.origins)


Label = Origin | Given
Labels = frozenset[Label]
NONE: Labels = frozenset()
_PARTS = 16  # of an object that are kept apart, where they have the same label
_ANY = "*"  # in place of the name of a part: one of them, whichever it is


# Most labels are as they have to be already, and a set of hundreds costs less to look through than to make again.


def is_draw(label: Label) -> bool:
    return isinstance(label, Origin) and label.mark in (Mark.DRAW, Mark.PICKED)


def given_in(labels: Labels) -> frozenset[Given]:
    """The labels of what calls give."""
    return frozenset(la for la in labels if isinstance(la, Given))


def put_at(labels: Labels, place: str | None) -> Labels:
    """Labels of what becomes a part of an object."""
    if place is None:
        return labels
    return frozenset(_put(label, place) for label in labels)


def _put(label: Label, place: str) -> Label:
    if isinstance(label, Given):
        return into_part(label, place) if label.into is None else label
    return Origin(label.mark, label.node, place, label.differs) if label.at is None else label


def into_part(given: Given, place: str | None) -> Given:
    """The same given, put into a part of an object. Millions are made: `replace` would take most of the time."""
    return Given(given.scope, given.name, given.at, given.update, place)


def part_of(labels: Labels, place: str | None) -> Labels:
    """The labels of one part of an object."""
    if place is None or all(_is_in_each_part(label) for label in labels):
        return labels
    if place == _ANY:
        return frozenset(map(_any_part, labels))
    found: set[Label] = set()
    for label in labels:
        if isinstance(label, Given) and label.into is not None:
            found |= {into_part(label, None)} if label.into == place else set()
        elif isinstance(label, Given):
            found.add(label if label.at is not None else Given(label.scope, label.name, place, label.update))
        elif label.at in (None, place):
            found.add(_without(label))
    return frozenset(found)


def _any_part(label: Label) -> Label:
    """The label of some part of an object."""
    if isinstance(label, Origin):
        return _without(label)
    return Given(label.scope, label.name, label.at if label.at is not None else _ANY, label.update)


def _is_in_each_part(label: Label) -> bool:
    """Whether a label says the same of any part of an object."""
    return label.at is None if isinstance(label, Origin) else label.at is not None and label.into is None


def _without(origin: Origin) -> Origin:
    """An origin that is in all of an object."""
    return origin if origin.at is None else Origin(origin.mark, origin.node, None, origin.differs)


def updated(labels: Labels, node: ast.AST) -> Labels:
    """The labels of a running value that values with some labels are added to at a node."""
    found: set[Label] = set()
    for label in labels:
        if isinstance(label, Given):
            found.add(label if label.update else Given(label.scope, label.name, label.at, node, label.into))
        elif label.mark in (Mark.CHOSEN, Mark.PICKED, Mark.CLOCK):
            found.add(label)
        if isinstance(label, Origin) and label.mark not in (Mark.STEPS, Mark.CLOCK):
            found.add(Origin(Mark.RUNNING, node, label.at, label.differs))
    return frozenset(found)


def _cover(label: Label) -> Label:
    """The label of all of an object, for that of one part of it, or from another; or the label itself."""
    if isinstance(label, Origin):
        return _without(label)
    if label.at is None:
        return label
    return label if (label.at, label.into) == (_ANY, None) else Given(label.scope, label.name, _ANY, label.update)


def uncovered(labels: Labels, known: Labels) -> Labels:
    """The labels without those of parts of an object of which all has the same."""
    covers = ((la, _cover(la)) for la in labels)
    return frozenset(la for la, over in covers if over is la or not (over in known or over in labels))


def bounded(labels: Labels) -> Labels:
    """The labels of an object: what is in many of its parts is in all of it.

    So there are no more labels than places where values become a rank's own, however many names the parts have.
    """
    if len(labels) <= _PARTS:
        return labels
    parts: dict[Label, int] = {}
    for label in labels:
        over = _cover(label)
        parts[over] = parts.get(over, 0) + (_PARTS + 1 if over is label else 1)
    many = {over for over, count in parts.items() if count > _PARTS}
    return frozenset(over if (over := _cover(la)) in many else la for la in labels)


def without_place(labels: Labels) -> Labels:
    if all(la.into is None if isinstance(la, Given) else la.at is None for la in labels):
        return labels
    return frozenset(into_part(la, None) if isinstance(la, Given) else _without(la) for la in labels)
