"""What does a function, a class or a method of a library do? Rows of facts, looked up by name.

The data stand in `tables/`, as text. A line without indentation holds facts, `column=value+value`,
in the columns of `Row`; the indented lines below it hold the names of which they are true, after where these are found:

    returns=tensor rows=each
        torch <tensor>: abs acos exp          # torch.abs and the tensor's method
        -: abs                                # a builtin: a name without a module
    role=loader returns=loader
        torch_geometric.loader: *Loader       # a pattern; of those that match, the longest wins

    + traits=same_values
        <tensor>: cpu detach clone            # more facts on names that have a row above, whose facts stay

`<tensor>` is a kind of object; `<tensor>.abs` is its method or attribute. A kind has the members of the kinds it is
based on (`kinds.BASED_ON`). A name without a row is *unknown*, and the lookups return None: it may do anything, and
its result depends on its arguments. It is never assumed to be harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from accelify.codemod.libraries import kinds
from accelify.codemod.libraries.row import Row, row_of
from accelify.codemod.libraries.tables import (
    arrays,
    collectives,
    datasets,
    files,
    logs_and_plots,
    python,
    tensors,
    torch_functions,
    torch_modules,
    training,
)

SOURCES = (
    *(python, tensors, torch_functions, torch_modules, training, datasets, collectives),
    *(arrays, files, logs_and_plots),
)
_Pattern = tuple[str, tuple[str, ...], str, str]  # beginning, what stands between stars, end, facts


@cache
def function(name: str | None) -> Row | None:
    """The row of a qualified name (`torch.zeros`), or of the longest pattern that matches it; None: unknown."""
    if name is None:
        return None
    name = name.removeprefix("builtins.").removeprefix("__builtin__.")  # the latter is Python 2's
    documented = _documented(name)
    facts = _exact(name) or _exact(documented) or _matching(name) or _matching(documented)
    return None if facts is None else row_of(facts)


def is_listed(name: str) -> bool:
    """Whether a qualified name stands in the table itself: a pattern like `torchvision.transforms.*` says it of any."""
    return _exact(name) is not None


@cache
def member(kind: str | None, name: str) -> Row | None:
    """The row of a method or attribute of a kind of object, or of the kinds it is based on; None: unknown."""
    while kind is not None:
        found = _own_member(kind, name)
        if found is not None:
            return found
        kind = kinds.BASED_ON.get(kind)
    return None


@cache
def members(name: str) -> tuple[Row, ...]:
    """The rows that kinds of objects have for a method or attribute of this name: of an object of any kind.

    A pattern that every name matches is no sign that an object is of its kind.
    """
    places = (p for p in _places() if p[0] == "<" and ("*" not in _words(p) or name in _words(p)))
    found = (_own_member(place[1:-1], name) for place in places)
    return tuple(dict.fromkeys(row for row in found if row is not None))


def kind_made_by(name: str | None) -> str | None:
    """The kind of object that a call of a name returns; None where it is unknown, or what it is given."""
    row = function(name)
    return None if row is None or row.returns in ("self", "argument") else row.returns


def is_kind(kind: str | None, base: str) -> bool:
    """Whether a kind of object is another, or based on it: a `dropout` is a `module`."""
    while kind is not None and kind != base:
        kind = kinds.BASED_ON.get(kind)
    return kind is not None


def names(where: Callable[[Row], bool]) -> Iterator[str]:
    """The names, patterns included, whose rows are as asked for."""
    rows = ((name, row_of(facts)) for name, facts, _source in entries())
    return (name for name, row in rows if row is not None and where(row))


def entries() -> Iterator[tuple[str, str, str]]:
    """Every name of the table with the text of its facts and the module that has them."""
    for place, facts, words, source in lines():
        for word in words.split() if not _adds(facts) else ():
            yield _joined(place, word), _words(place)[word], source


@cache
def _own_member(kind: str, name: str) -> Row | None:
    facts = _words(f"<{kind}>").get(name) or _matching(f"<{kind}>.{name}")
    return None if facts is None else row_of(facts)


def _exact(name: str) -> str | None:
    """The facts of a name that stands in the table."""
    place, _, rest = name.rpartition(".")
    while True:
        facts = _words(place or "-").get(rest)
        if facts is not None or not place:
            return facts
        place, _, last = place.rpartition(".")
        rest = f"{last}.{rest}"


def _matching(name: str) -> str | None:
    """The facts of the pattern with the most letters among those that match."""
    patterns = _patterns()
    candidates = patterns.get(name.partition(".")[0], patterns[""])
    for start, between, end, facts in candidates:
        if name.startswith(start) and name.endswith(end) and all(part in name for part in between):
            return facts
    return None


def _documented(name: str) -> str:
    """A name as the library documents it: `torch.nn.CrossEntropyLoss` for `torch.nn.modules.loss.CrossEntropyLoss`."""
    start = name
    while "." in start:
        start = start.rpartition(".")[0]
        if start in kinds.OTHER_NAMES:
            return kinds.OTHER_NAMES[start] + name[len(start) :]
    return name


@cache
def lines() -> tuple[tuple[str, str, str, str], ...]:
    """Place, facts, names (as text), and module of the data, line by line."""
    found = []
    for source in SOURCES:
        facts = ""
        places: list[str] = []
        for line in source.ROWS.splitlines():
            text = line.partition("#")[0] if "#" in line else line
            if not text:
                continue
            if text[0] != " ":
                facts, places = text, []
                continue
            where, colon, words = text.partition(":")
            if colon:
                places = where.split()
            if not places:
                raise ValueError(f"no place is said for the names in {line!r}")
            words = words if colon else where
            found += [(place, facts, words, source.__name__) for place in places]
    return tuple(found)


@cache
def _places() -> dict[str, list[tuple[str, str]]]:
    """Facts and names (as text) by the place where they are found: a module, a kind of object, `-`."""
    found: dict[str, list[tuple[str, str]]] = {}
    for place, facts, words, _source in lines():
        found.setdefault(place, []).append((facts, words))
    return found


@cache
def _words(place: str) -> dict[str, str]:
    """The facts of each name of one place, as text."""
    found: dict[str, str] = {}
    for adds in (False, True):
        for facts, words in _places().get(place, ()):
            if _adds(facts) is adds:
                found.update({word: f"{found[word]} {facts[1:]}" if adds else facts for word in words.split()})
    return found


@cache
def _patterns() -> dict[str, tuple[_Pattern, ...]]:
    """The patterns by the first part of their names, the longest first; at "" those that begin with a star."""
    found: dict[str, list[_Pattern]] = {"": []}
    for place, facts, words, _source in lines():
        for word in words.split() if "*" in words else ():
            if "*" in word:
                start, *between, end = _joined(place, word).split("*")
                found.setdefault(start.partition(".")[0], []).append((start, tuple(between), end, facts))
    return {first: _longest_first(each + found[""] if first else each) for first, each in found.items()}


def _adds(facts: str) -> bool:
    """Whether facts are more of them on names that have a row."""
    return facts[0] == "+"


def _longest_first(patterns: list[_Pattern]) -> tuple[_Pattern, ...]:
    return tuple(sorted(patterns, key=lambda p: len(p[0]) + len("".join(p[1])) + len(p[2]), reverse=True))


def _joined(place: str, word: str) -> str:
    return word if place == "-" else f"{place}.{word}"
