"""Which files do paths name, and may one have been written by the time that it is read?

os.path.join(folder, "best.pt")    f"{folder}/best.pt"    folder / "best.pt"    path, where a caller gives one of these

`"best_{}.pt"` is the name of `f"best_{epoch}.pt"` and of `"best_%d.pt" % best_epoch`, which may be one file. A call
that lists files stands for each of them: `"best_{*}.pt"` is the name of what `glob("runs/best_*.pt")` finds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache

from accelify.codemod.libraries import methods, names
from accelify.codemod.libraries.row import Trait
from accelify.codemod.semantics.effects.kinds import Kinds
from accelify.codemod.semantics.program import Program
from accelify.codemod.semantics.provenance import Tracer
from accelify.codemod.semantics.scopes import Scope, names_in, returned
from accelify.codemod.semantics.values import HOLE, Constant, Element, Made, filled_in, form, template

_DEPTH = 4
_ANY = "{*}"  # what a wildcard stands for in the name of a file that is found, nothing included
_HOLES = re.compile(r"\{\*?\}")
_WILDCARDS = re.compile(r"\{\}|\*+|\?|\[[^\]]*\]")
_NOTHING: frozenset[str] = frozenset()


class Files:
    """Follow paths to the last part that they have as text."""

    def __init__(self, program: Program, tracer: Tracer) -> None:
        self.program = program
        self.tracer = tracer
        # These are asked of pairs of paths or of calls, and go back over all callers.
        self._names, self._starts = cache(self._find_names), cache(self._find_starts)
        self._origins, self._reaching = cache(self._find_origins), cache(self._find_reaching)
        self._items = cache(self._find_items)
        self._run_by = cache(lambda call: program.run_through([call]))

    def names(self, path: ast.expr) -> frozenset[str]:
        """The names that a path may end in, without their folders; none where these are not known."""
        return self._names(path, _DEPTH)

    def _find_names(self, path: ast.expr, depth: int) -> frozenset[str]:
        if text := template(path):
            return _last(text)
        if depth and (text_given := form(path)) is not None:
            named = (filled_in(path, name) for name in self._names(text_given, depth - 1))
            return frozenset(filter(_says_something, named))
        if isinstance(path, ast.BinOp) and isinstance(path.op, ast.Div):
            return self._names(path.right, depth)
        if depth and (either := self._alternatives(path, depth - 1)):
            return self._of_any(either, depth - 1)
        if isinstance(path, ast.Call):
            is_join = any(map(names.ends_like_last, self.program.called(path))) or _is_text(path)
            if is_join:
                return self._names(path.args[-1], depth) if path.args else _NOTHING
            if self._has(path, Trait.BY_PATTERN):
                return self._found_by(path, depth)
            given = returned(self.program.flow.callees.get(path, ())) if depth else []
            return self._of_any(given, depth - 1)
        if isinstance(path, ast.Name) and depth:
            return self._of_variable(path, depth - 1)
        if isinstance(path, ast.Attribute) and depth:
            return self._of_attribute(path, depth - 1)
        return _NOTHING

    def _found_by(self, listing: ast.Call, depth: int) -> frozenset[str]:
        """The names of the files that fit a pattern: `"{*}.pt"` for `glob("runs/*.pt")`."""
        patterns = self._names(listing.args[0], depth) if listing.args else _NOTHING
        found = frozenset(_WILDCARDS.sub(_ANY, pattern) for pattern in patterns)
        return found if all("/" not in name and _says_something(name) for name in found) else _NOTHING

    def _of_attribute(self, path: ast.Attribute, depth: int) -> frozenset[str]:
        """The names that the paths in an attribute may end in: `self.best_path`."""
        return self._of_any(self._put_into(path), depth)

    def _put_into(self, path: ast.Attribute) -> list[ast.expr | None]:
        """The values that an attribute of an object is given; of an unknown one, by how it is written."""
        text, owners = ast.unparse(path), self.program.values(path.value)
        found: list[ast.expr | None] = []
        for write in self.program.attribute_writes.get(path.attr, ()):
            others = self.program.values(write.value)
            if owners & others if owners and others else ast.unparse(write) == text:
                found.append(self.tracer.assigned(write))
        return found

    def _of_variable(self, path: ast.Name, depth: int) -> frozenset[str]:
        known = self._constants(path)
        found = {n for value in known for n in _last(value)}
        for values in self._given_to(path):
            unknown = self._unknown(values) if known else values
            if (known and not unknown) or _is_none(unknown):
                continue
            named = self._of_any(unknown, depth)
            if not named:
                return _NOTHING
            found |= named
        return frozenset(found)

    def _constants(self, path: ast.expr) -> list[str]:
        """The texts that a variable may hold; none where it may hold anything else that is known."""
        held = self.program.values(path)
        texts = [v.value for v in held if isinstance(v, Constant) and isinstance(v.value, str)]
        return texts if len(texts) == len(held) else []

    def _unknown(self, values: Sequence[ast.expr | None]) -> list[ast.expr | None]:
        """Those of some values that are none of the constants that are known: `"net_" + args.name + ".pt"`."""
        given = [v for v in values if v is not None]
        return [v for v in given if not self.program.values(v) or self._alternatives(v, _DEPTH)]

    def _alternatives(self, path: ast.expr, depth: int) -> list[ast.expr]:
        """The expressions of which one gives a path: `a if new else b`, `paths[0]`, `next(p for p in paths if p)`."""
        if isinstance(path, ast.IfExp):
            return [path.body, path.orelse]
        if isinstance(path, ast.BoolOp):
            return path.values
        if isinstance(path, ast.Subscript):
            return self._items(path.value, depth)
        if not isinstance(path, ast.Call) or not path.args:
            return []
        if self._picks(path):
            return self._items(path.args[0], depth)
        items = self._items(path.args[0], depth) if self._passes(path, "element") else []
        return [*items, *path.args[1:]] if items else []

    def _given_to(self, path: ast.Name, depth: int = _DEPTH) -> Iterator[list[ast.expr | None]]:
        """What each write of a variable gives it: a parameter what callers pass, or its default; None if unknown."""
        owner = self.program.scope(path).owner(path.id)
        for write in self.tracer.writes(owner, path.id) if owner is not None else ():
            holder = self.program.parent(write)
            if isinstance(write, ast.arg) and owner is not None:
                yield [self.tracer.given(c, owner, path.id) for c in self.program.flow.callers.get(owner, ())]
            elif isinstance(holder, (ast.For, ast.AsyncFor, ast.comprehension)) and holder.target is write:
                yield list(self._items(holder.iter, depth)) or [None]
            else:
                yield [self.tracer.assigned(write) if isinstance(write, ast.Name) else None]

    def _find_items(self, listed: ast.expr, depth: int) -> list[ast.expr]:
        """The expressions of which each item of a list is one; none where these are not all known."""
        if isinstance(listed, (ast.List, ast.Tuple, ast.Set)):
            return [] if any(isinstance(e, ast.Starred) for e in listed.elts) else listed.elts
        if isinstance(listed, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return [listed.elt]
        if isinstance(listed, ast.Call) and listed.args and (self._passes(listed, "same") or self._picks(listed)):
            return self._items(listed.args[0], depth)
        if isinstance(listed, ast.Call):
            return [listed] if self._has(listed, Trait.BY_PATTERN) else []
        if isinstance(listed, ast.Subscript) and isinstance(listed.slice, ast.Slice):
            return self._items(listed.value, depth)
        if not depth or not isinstance(listed, (ast.Name, ast.Attribute, ast.Subscript)):
            return []
        return self._items_of_any(self._lists(listed, depth - 1), depth - 1)

    def _items_of_any(self, given: Sequence[ast.expr | None], depth: int) -> list[ast.expr]:
        """The items of some lists; none where those of one are not all known."""
        items = [self._items(g, depth) if g is not None else [] for g in given]
        return list(dict.fromkeys(item for each in items for item in each)) if all(items) else []

    def _lists(self, listed: ast.Name | ast.Attribute | ast.Subscript, depth: int) -> list[ast.expr | None]:
        """The lists that a variable, an attribute or an item of a list may be; none where it gets more items."""
        if isinstance(listed, ast.Subscript):
            return list(self._items(listed.value, depth))
        if self._is_filled(listed):
            return []
        if isinstance(listed, ast.Attribute):
            return self._put_into(listed)
        return [v for values in self._given_to(listed, depth) for v in values or [None]]

    def _is_filled(self, listed: ast.Name | ast.Attribute) -> bool:
        """Whether a list gets more items than it is made with: `paths.append(path)`, `paths[0] = path`."""
        reads: Sequence[ast.AST]
        if isinstance(listed, ast.Attribute):
            reads = self.program.attribute_reads.get(listed.attr, ())
        else:
            owner = self.program.scope(listed).owner(listed.id)
            reads = self.program.reads_of(owner, listed.id) if owner is not None else []
        around = map(self.program.parent, reads)
        return any(
            isinstance(getattr(a, "ctx", None), ast.Store) or (isinstance(a, ast.Attribute) and methods.extends(a.attr))
            for a in around
        )

    def _passes(self, call: ast.Call, what: str) -> bool:
        return any(row.passes == what for row in self.program.once(Kinds).called(call) or ())

    def _picks(self, call: ast.Call) -> bool:
        """Whether a call gives items of its first argument, one or some: `random.choice(paths)`, `max(paths)`."""
        is_of_one = len(call.args) == 1 and all(k.arg == "key" for k in call.keywords)
        return self._has(call, Trait.PICKS) or (is_of_one and self._has(call, Trait.GREATER, Trait.LESS))

    def _has(self, call: ast.Call, *traits: Trait) -> bool:
        return any(row.has(trait) for row in self.program.once(Kinds).called(call) or () for trait in traits)

    def _of_any(self, paths: Sequence[ast.expr | None], depth: int) -> frozenset[str]:
        """The names that one of some paths may end in; none where those of one are not known."""
        named = [self._names(p, depth) if p is not None else _NOTHING for p in paths if not _is_none([p])]
        return _NOTHING.union(*named) if all(named) else _NOTHING

    def are_alike(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether the names of two paths are known, and may be the same: `f"model_{epoch}.pt"` and `"model_9.pt"`."""
        others = self.names(other)
        return any(_may_be(a, b) for a in self.names(one) for b in others)

    def may_be_one(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether two paths may name one file: by their names or, where one of these is unknown, by how they begin."""
        if self.names(one) and self.names(other):
            return self.are_alike(one, other)
        return self.may_hold(one, other)

    def is_told_as_one(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether two paths may name one file by what is known of both: their names, how they begin, who gives them."""
        if self._origins(one, _DEPTH) & self._origins(other, _DEPTH):
            return True
        if self.names(one) and self.names(other):
            shared = {n for n in self.names(one) & self.names(other) if not n.startswith(_ANY)}
            if shared or (self.are_alike(one, other) and self.is_told_to_hold(one, other)):
                return True
            begun = [[n for n in self.names(p) if not n.startswith((HOLE, _ANY))] for p in (one, other)]
            return any(_may_be(a, b) for a in begun[0] for b in begun[1]) and self.may_hold(one, other)
        return self.is_told_to_hold(one, other)

    def _find_origins(self, path: ast.expr, depth: int) -> frozenset[tuple[Scope, str]]:
        """A path, and what callers pass for it, each as it is written in its function: `out` of `load(out)`."""
        found = {(self.program.frame(path), ast.unparse(path))} if names_in(path) else set()
        owner = self.program.scope(path).owner(path.id) if isinstance(path, ast.Name) and depth else None
        writes = self.tracer.writes(owner, path.id) if owner is not None and isinstance(path, ast.Name) else []
        if any(isinstance(write, ast.arg) for write in writes):
            given = [v for values in self._given_to(path) for v in values if v is not None]  # type: ignore[arg-type]  # a name
            found.update(*(self._origins(v, depth - 1) for v in given))
        return frozenset(found)

    def is_told_to_hold(self, folder: ast.expr, path: ast.expr) -> bool:
        """Whether a file may be in a folder, by what is known of how both begin."""
        are_known = all(starts and all(starts) for starts in map(self.starts, (folder, path)))
        return are_known and self.may_hold(folder, path)

    def is_told_to_be_in(self, path: ast.expr, listed: ast.expr) -> bool:
        """Whether a path is in what is listed, a folder or a pattern: both begin so, or one is made from the other."""
        is_more = "*" in ast.unparse(listed) or (isinstance(listed, ast.Call) and len(listed.args) == 1)  # `Path(root)`
        folder = next(self._parts_before(listed), listed) if is_more else listed
        return self.is_told_to_hold(listed, path) or self.is_made_from(path, folder)

    def is_made_from(self, path: ast.expr, folder: ast.expr) -> bool:
        """Whether a path is written as a folder, or as one below: `run / "data"` for `run`."""
        return bool(self._origins(folder, _DEPTH) & self._made_of(path, _DEPTH))

    def _made_of(self, path: ast.expr, depth: int) -> frozenset[tuple[Scope, str]]:
        """A path, and all that it begins with, each as it is written in its function."""
        values = [*self._parts_before(path)]
        owner = self.program.scope(path).owner(path.id) if isinstance(path, ast.Name) else None
        writes = self.tracer.writes(owner, path.id) if owner is not None and isinstance(path, ast.Name) else ()
        values += [v for w in writes if isinstance(w, ast.Name) and (v := self.tracer.assigned(w)) is not None]
        values += [v for v in (self._put_into(path) if isinstance(path, ast.Attribute) else ()) if v is not None]
        inner = (self._made_of(v, depth - 1) for v in values) if depth else ()
        return self._origins(path, _DEPTH).union(*inner)

    def _parts_before(self, path: ast.expr) -> Iterator[ast.expr]:
        """`folder` of `os.path.join(folder, name)` and of `folder / name`."""
        if (first := _leftmost(path)) is not None:
            yield first
        elif isinstance(path, ast.Call) and path.args and self._is_path(path):
            yield path.args[0]

    # Where paths begin.

    def may_hold(self, folder: ast.expr, path: ast.expr) -> bool:
        """Whether a file may be in a folder, or in one below: unless both begin in ways that are known, and differ."""
        above, below = self.starts(folder), self.starts(path)
        if self._are_beside(folder, path):
            return False
        return not above or not below or any(_overlap(a, b) for a in above for b in below)

    def _are_beside(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether two paths are known to name different entries of one folder: `out / "a.tmp"` and `out / "b.pt"`."""
        both = [self.tracer.only_value(p) or p for p in (one, other)]
        folders = {self._fixed(self._folder(p)) for p in both}
        found = [[n for n in self.names(p) if "/" not in n] for p in both]
        is_known = len(folders) == 1 and None not in folders and all(found)
        return is_known and not any(_may_be(a, b) for a in found[0] for b in found[1])

    def _fixed(self, folder: ast.expr | None) -> tuple[str, frozenset[Scope | None]] | None:
        """A folder by how it is written, and whose variables it is made of; None if one of these gets other values."""
        used = [n for n in ast.walk(folder) if isinstance(n, ast.Name)] if folder is not None else []
        if folder is None or not used or not all(map(self.tracer.only_value, used)):
            return None
        return ast.unparse(folder), frozenset(self.program.scope(n).owner(n.id) for n in used)

    def _folder(self, path: ast.expr) -> ast.expr | None:
        """`folder` of `folder / name` and of `os.path.join(folder, name)`."""
        is_join = isinstance(path, ast.Call) and any(map(names.ends_like_last, self.program.called(path)))
        if is_join and isinstance(path, ast.Call):
            return path.args[0] if len(path.args) == 2 else None
        return path.left if isinstance(path, ast.BinOp) and isinstance(path.op, ast.Div) else None

    def starts(self, path: ast.expr) -> frozenset[str]:
        """How a path may begin, before what is filled in: as text, or as an option is written; none if unknown."""
        return self._starts(path, _DEPTH)

    def _find_starts(self, path: ast.expr, depth: int) -> frozenset[str]:
        if text := template(path).partition(HOLE)[0]:
            return frozenset({text})
        if depth and (text_given := form(path)) is not None:
            texts = {filled_in(path, start).partition(HOLE)[0] for start in self._starts(text_given, depth - 1)}
            return frozenset(texts) if all(texts) else _NOTHING
        if depth and (either := self._alternatives(path, depth - 1)):
            return self._starts_of_any(either, depth - 1)
        if isinstance(path, ast.Call) and (begun := _begun(path, self.program.once(Kinds))) is not None:
            return self._starts(begun, depth)
        first = _leftmost(path) or (path.args[0] if isinstance(path, ast.Call) and path.args else None)
        if first is not None and (not isinstance(path, ast.Call) or self._is_path(path)):
            return self._starts(first, depth)
        known = frozenset(self._constants(path))
        values: list[ast.expr | None] = []
        if isinstance(path, ast.Attribute):
            values = self._put_into(path) if depth else []
            if not known and not values:
                return frozenset({f"<{ast.unparse(path)}>"})
        elif isinstance(path, ast.Name) and depth:
            values = [v for given in self._given_to(path) for v in given or [None]]
        unknown = self._unknown(values) if known else values
        found = self._starts_of_any(unknown, depth - 1)
        if found or (known and not unknown):
            return known | found
        return self._starts_of_any(self._joined(path), depth - 1) if depth else _NOTHING

    def _joined(self, path: ast.expr) -> list[ast.expr | None]:
        """The paths that an item of a list may be, and how those begin that a call lists: `glob(folder + "/*.pt")`."""
        kinds = self.program.once(Kinds)
        found: list[ast.expr | None] = []
        for value in self.program.values(path):
            made = value.owner if isinstance(value, Element) else value
            call = made.node if isinstance(made, Made) and isinstance(made.node, ast.Call) else None
            if call is None or made is not value:
                found.append(call and _begun(call, kinds))
            else:
                found.append(call if self._is_path(call) and call is not path else None)
        return found

    def _is_path(self, path: ast.Call) -> bool:
        return any(map(names.ends_like_last, self.program.called(path))) or _is_text(path)

    def _starts_of_any(self, values: Sequence[ast.expr | None], depth: int) -> frozenset[str]:
        found = [self._starts(v, depth) if v is not None else _NOTHING for v in values]
        return _NOTHING.union(*found) if all(found) else _NOTHING

    # Which call comes first.

    def is_before(self, write: ast.Call, read: ast.Call) -> bool:
        """Whether a call that writes may have been made by the time that another one reads."""
        return next(self.meetings(write, read), None) is not None

    def meetings(self, write: ast.Call, read: ast.Call) -> Iterator[ast.Call]:
        """The calls that read, or lead there, in the functions in which what writes comes before."""
        frame = self.program.frame(write)
        for call, node in self._earlier(read, _DEPTH):
            if call is write or frame in self._run_by(call):
                yield node

    def are_of_rounds(self, write: ast.Call, made: ast.expr, read: ast.Call, path: ast.expr) -> bool:
        """Whether only an earlier round of loops writes before a call reads, each of which names a file of its own."""
        loops = [loop for loop in self.program.loops_round(read) if loop in self.program.loops_round(write)]
        named = self._loops_naming(made, _DEPTH) & self._loops_naming(path, _DEPTH)
        return bool(loops) and named.issuperset(loops) and not self.program.before(write, read)

    def _loops_naming(self, path: ast.AST, depth: int) -> set[ast.AST]:
        """The loops whose targets are filled into a path: `for k in keys: path = f"{k}.npz"`."""
        found = set[ast.AST]()
        for name in (n for n in ast.walk(path) if isinstance(n, ast.Name)):
            owner = self.program.scope(name).owner(name.id)
            for write in self.tracer.writes(owner, name.id) if owner is not None else ():
                loop, value = self.program.statement(write), None
                if isinstance(loop, (ast.For, ast.AsyncFor)) and self.program.inside(write, loop.target):
                    found.add(loop)
                elif depth and isinstance(write, ast.Name):
                    value = self.tracer.assigned(write)
                found |= self._loops_naming(value, depth - 1) if value is not None else set()
        return found

    def _earlier(self, node: ast.Call, depth: int) -> Iterator[tuple[ast.Call, ast.Call]]:
        """The calls made before one, or in an earlier round of its loops: in its function, and where that is called."""
        frame = self.program.frame(node)
        for call in self._reaching(node):
            yield call, node
        for caller in self.program.flow.callers.get(frame, ()) if depth else ():
            yield from self._earlier(caller, depth - 1)

    def _find_reaching(self, node: ast.Call) -> list[ast.Call]:
        """The calls of its function after which one can run."""
        calls = self.program.calls_in(self.program.frame(node))
        return [c for c in calls if c is not node and self.program.reaches(c, node)]


def _leftmost(path: ast.expr) -> ast.expr | None:
    """The first part of a path that operators join: `folder + "/x"`, `folder / "x"`, `f"{folder}/x"`."""
    if isinstance(path, ast.BinOp) and isinstance(path.op, (ast.Add, ast.Div)):
        return path.left
    if isinstance(path, ast.JoinedStr) and path.values and isinstance(path.values[0], ast.FormattedValue):
        return path.values[0].value
    return None


def _begun(listing: ast.Call, kinds: Kinds) -> ast.expr | None:
    """The folder, or the pattern, with which the paths begin that a call lists."""
    if not any(row.has(Trait.GIVES_PATHS) for row in kinds.called(listing) or ()):
        return None
    if isinstance(listing.func, ast.Attribute) and not kinds.name_of(listing.func):
        return listing.func.value
    return next(iter(listing.args), None)


def _overlap(one: str, other: str) -> bool:
    """Whether one of two paths may be below the other: `data` and `data/x`; `*` and a cut name stand for any."""
    one, other = (text.replace("\\", "/").removeprefix("./").partition("*")[0].rstrip("/") for text in (one, other))
    return one.startswith(other) or other.startswith(one)


def _is_text(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "str"


def _is_none(values: Sequence[ast.expr | None]) -> bool:
    """`path = None`, for a path that is not known yet."""
    return bool(values) and all(isinstance(v, ast.Constant) and v.value is None for v in values)


def _last(value: object) -> frozenset[str]:
    """The name of the file in the text of a path, with its folders where it is all filled in; none without a letter."""
    parts = value.replace("\\", "/").split("/") if isinstance(value, str) else [""]
    name = parts.pop()
    while parts and name and not _says_something(name):
        name = f"{parts.pop()}/{name}"
    return frozenset({name} if _says_something(name) else ())


def _may_be(one: str, other: str) -> bool:
    """Whether two names may be the same text, whatever is filled in: at their beginning, a folder and nothing else."""
    if not _HOLES.search(one + other):
        return one == other
    starts, ends = ([_HOLES.split(n)[at] for n in (one, other)] for at in (0, -1))
    is_begun = starts[0].startswith(starts[1]) or starts[1].startswith(starts[0])
    is_ended = ends[0].endswith(ends[1]) or ends[1].endswith(ends[0])
    if not is_begun or not is_ended:
        return False
    whole, pattern = (other, one) if _HOLES.search(one) else (one, other)
    if _HOLES.search(whole):
        return True
    filled = re.escape(pattern).replace(re.escape(_ANY), ".*").replace(re.escape(HOLE), ".+")
    filled = f".*{filled.removeprefix('.+')}" if pattern.startswith(HOLE) else filled
    return re.fullmatch(filled, whole) is not None


def _says_something(name: str) -> bool:
    return any(c.isalnum() for c in name.replace(HOLE, ""))
