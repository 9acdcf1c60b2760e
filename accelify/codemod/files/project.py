"""Which files of the user's own belong to a script: the ones that it imports, and theirs."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from accelify.codemod.files.disk import Disk
from accelify.codemod.files.notebook import Notebook
from accelify.codemod.files.parse import Parsed, parse
from accelify.codemod.files.source import may_train
from accelify.errors import FileError

# A script whose imports reach further than this is a library's; what lies beyond is treated as unknown.
_MOST_FILES = 100
_MOST_LISTED = 200  # files that are looked at for an import of another
_ADDING = ("sys.path.append", "sys.path.insert", "sys.path.extend")
_DEPTH = 4  # names that a name is made of
_MOST_MEANT = 16  # by one import
_MOST_FOLDERS = 20  # that one expression may mean
IMPORTING = ("import_module", "__import__")  # functions
_OF_ENTRIES = (".parameters()", "__main__")  # what scripts have that a user starts


class Project:
    """The files on disk, read and parsed at most once."""

    def __init__(
        self, given: dict[str, bytes] | None = None, disk: Disk | None = None, *, reads_picked: bool = True
    ) -> None:
        """reads_picked: whether what imports by names made at run time may mean is read, too."""
        self.disk = disk or Disk()
        self._reads_picked = reads_picked
        self._given = {absolute(path): data for path, data in (given or {}).items()}
        self.is_on_disk = given is None
        self._parsed: dict[str, Parsed | None] = {}
        self._errors: dict[str, FileError] = {}
        self._exists: dict[str, bool] = {}
        self._resolved: dict[tuple[str, str, int], str | None] = {}
        self._search: dict[Path, list[Path]] = {}
        self._added: dict[str, list[Path]] = {}
        self._added_by: dict[str, list[Path]] = {}
        self._listed: dict[Path, list[Path]] = {}
        self._folders: dict[Path, None] = {}  # of the programs
        self._complete: set[str] = set()  # whose imports have been looked for in the whole repository

    def with_changes(self, changed: dict[str, bytes]) -> Project:
        """The same project with other bytes in some files."""
        made = Project(disk=self.disk, reads_picked=self._reads_picked)
        made._given = {**self._given, **{absolute(path): data for path, data in changed.items()}}
        made.is_on_disk = self.is_on_disk
        return made

    def without_picked(self) -> Project:
        """The same project, in which nothing is read for imports by names made at run time."""
        made = Project(disk=self.disk, reads_picked=False)
        made._given, made.is_on_disk = self._given, self.is_on_disk
        return made

    def has_picked(self, files: Sequence[Parsed]) -> bool:
        """Whether some of the files may be read only for an import by a name made at run time."""
        return any(self._picked_by(f, n) for f in files for n in f.imports if isinstance(n, ast.Call))

    def notebooks(self) -> dict[str, Notebook]:
        """The notebooks that have been read, by their paths."""
        found = [p.decoded.notebook for p in self._parsed.values() if p is not None]
        return {notebook.path: notebook for notebook in found if notebook is not None}

    def load(self, path: str) -> Parsed:
        """The parsed file; raises CannotRead and CannotParse."""
        key = absolute(path)
        known = self._parsed.get(key)
        if known is not None and known.path == path:
            return known
        data = self._given[key] if key in self._given else self.disk.read(path)
        found = parse(path, data)
        self._parsed[key] = found
        return found

    def _try(self, path: str) -> Parsed | None:
        key = absolute(path)
        if key not in self._parsed:
            try:
                self.load(path)
            except FileError as error:
                self._parsed[key], self._errors[key] = None, error
        return self._parsed[key]

    def program(
        self, named: Sequence[Parsed], follow: bool, matters: Callable[[Parsed], bool] = lambda parsed: True
    ) -> list[Parsed]:
        """The named files and, when following, every project file that they import and that matters."""
        found = {absolute(p.path): p for p in named}
        queue = list(named)
        while queue and follow and len(found) < _MOST_FILES:
            parsed = queue.pop(0)
            for path in self._imported(parsed):
                key = absolute(path)
                if key not in found:
                    other = self._try(path)
                    if other is not None and matters(other):
                        found[key] = other
                        queue.append(other)
        self._folders.update(dict.fromkeys(Path(p.path).parent for p in found.values()))
        return list(found.values())

    def leads_to_training(self, path: str, signs: Collection[str] = (".backward",)) -> bool:
        """Whether a file imports, itself or through others of the project, one that has a sign of training.

        One that cannot be parsed counts too: to read it is the caller's concern.
        """
        return any(self._has_text(imported, sign) for imported in self._reached_from(path) for sign in signs)

    def readers(self, parsed: Parsed, word: str) -> list[Parsed]:
        """The files of the repository that have a word and import a file, themselves or through others."""
        key, path = absolute(parsed.path), Path(parsed.path)
        words = [str(p) for p in self._repository(path) if self.disk.has(str(p), word)] if self.is_on_disk else []
        found = [p for p in words if key in (absolute(other.path) for other in self.imported_by(p))]
        return [other for p in found if (other := self._try(p)) is not None]

    def calls(self, path: str) -> bool:
        """Whether a file calls anything."""
        parsed = self._try(path)
        return parsed is not None and any(isinstance(node, ast.Call) for node in parsed.parents)

    def imported_by(self, path: str) -> Iterator[Parsed]:
        """The files of the project that a file imports, itself or through others."""
        return (other for p in self._reached_from(path) if (other := self._try(p)) is not None)

    def _reached_from(self, path: str) -> Iterator[str]:
        """The paths of what a file imports, itself or through others, whether or not it can be parsed."""
        first = self._try(path)
        seen, queue = {absolute(path)}, [first] if first is not None else []
        while queue and len(seen) < _MOST_FILES:
            for imported in self._imported(queue.pop(0)):
                if absolute(imported) in seen:
                    continue
                seen.add(absolute(imported))
                yield imported
                other = self._try(imported)
                if other is not None:
                    queue.append(other)

    def _has_text(self, path: str, text: str) -> bool:
        """Whether a file holds a text, if it can be parsed or not."""
        parsed = self._try(path)
        return text in parsed.text if parsed is not None else self.disk.has(path, text)

    def import_line(self, parsed: Parsed, path: str) -> int:
        """The line of the import by which a file leads to another, itself or through others; 1 where none does."""
        for node in parsed.imports:
            for imported in self._imported_at(parsed, node):
                led_to = [imported, *(other.path for other in self.imported_by(imported))]
                if absolute(path) in map(absolute, led_to):
                    return parsed.statement(node).lineno
        return 1

    def _resolve_elsewhere(self, parsed: Parsed) -> None:
        """Resolve what only a path of the user's leads to, for a script of which nothing that is found trains.

        An import then means the only file of the repository that has the module's name and defines what is imported.
        """
        key = absolute(parsed.path)
        if key in self._complete or not self.is_on_disk or not any(word in parsed.text for word in _OF_ENTRIES):
            return
        self._complete.add(key)
        if ".backward" not in parsed.text and not self.leads_to_training(parsed.path):
            meant = dict(self._elsewhere(parsed))
            if any(self.disk.has(path, ".backward(") for path in meant.values()):
                self._resolved.update({(parsed.path, module, 0): path for module, path in meant.items()})

    def _elsewhere(self, parsed: Parsed) -> Iterator[tuple[str, str]]:
        """The modules that a file imports and that are not found, with the only files that may be meant."""
        asked = [n for n in parsed.nodes if isinstance(n, ast.ImportFrom) and n.module and not n.level]
        for module, wanted in ((n.module or "", [alias.name for alias in n.names]) for n in asked):
            if not all(self._has(parsed.path, module, name) for name in wanted):
                named = (str(p) for p in self._repository(Path(parsed.path)) if p.stem == module.rpartition(".")[2])
                found = [path for path in named if all(self._defines(path, name) for name in wanted)]
                if len(found) == 1:
                    yield module, found[0]

    def _defines(self, path: str, name: str) -> bool:
        return any(self.disk.has(path, text) for text in (f"class {name}", f"def {name}", f"{name} ="))

    def _has(self, importer: str, module: str, name: str) -> bool:
        """Whether what a file imports from a module is there: in its text, or as a module of it."""
        path = self.resolve(importer, module, 0)
        is_in_text = path is not None and (name == "*" or self.disk.has(path, name))
        return is_in_text or self.resolve(importer, f"{module}.{name}", 0) is not None

    def importers(self, named: Sequence[Parsed]) -> list[Parsed]:
        """The scripts and notebooks that import one of the named files, in the program's folders and above them."""
        if not self.is_on_disk:
            return []
        found: dict[str, Parsed] = {absolute(p.path): p for p in named}
        for parsed in named:
            for path in self._near(Path(parsed.path)):
                key = absolute(str(path))
                if key not in found and self.disk.may_import(str(path), _module_name(Path(parsed.path))):
                    other = self._try(str(path))
                    if other is not None and self._may_call(other, parsed):
                        found[key] = other
        return [p for p in found.values() if p not in named]

    def callers(self, parsed: Parsed, names: Collection[str]) -> list[Parsed]:
        """The files of the repository that have one of some names and import a file, or a package that imports it."""
        found = []
        words = self._words_to_import(Path(parsed.path)) if self.is_on_disk else frozenset()
        for path in map(str, self._repository(Path(parsed.path)) if self.is_on_disk else ()):
            if any(self.disk.has(path, name) for name in names) and self.disk.may_name(path, words):
                other = self._try(path) if absolute(path) != absolute(parsed.path) else None
                if other is not None and self._may_call(other, parsed):
                    found.append(other)
        return found

    def _words_to_import(self, path: Path) -> frozenset[str]:
        """The words one of which stands in each import of a file, or of a package that may import it in turn."""
        name = _module_name(path)
        inits = [p for p in self._repository(path) if p.stem == "__init__" and self.disk.may_name(str(p), {name})]
        packages = [*inits, *([path] if path.stem == "__init__" else [])]
        nameless = {"."} if packages else set()  # `from . import Net`
        return frozenset({name, *IMPORTING, *(_module_name(p.resolve()) for p in packages), *nameless})

    def users(self, parsed: Parsed, name: str) -> list[Parsed]:
        """The files of the repository, its tests and notebooks, too, that have a name and import its file.

        A package round the file may pass the name on.
        """
        path = Path(parsed.path)
        found = []
        for other in self._repository(path) if self.is_on_disk else ():
            if self.disk.has(str(other), name) and absolute(str(other)) != absolute(parsed.path):
                user = self._try(str(other))
                if user is not None and not self._module_names(path).isdisjoint(_imported_names(user)):
                    found.append(user)
        return found

    def _module_names(self, path: Path) -> set[str]:
        """The names under which a file may be imported, alone or in its packages: `train`, `lib.train`, `lib`."""
        parts = path.resolve().with_suffix("").parts
        ends = [len(parts)]
        while self._is_there(str(Path(*parts[: ends[-1] - 1], "__init__.py"))):
            ends.append(ends[-1] - 1)
        return {".".join(parts[start:end]) for end in ends for start in range(max(end - 6, 1), end)}

    def _repository(self, path: Path) -> list[Path]:
        """The scripts and notebooks of a file's repository; without one, those below the program's common folder."""
        top = self._around(path.parent)[-1]
        if top not in self._listed:
            self._listed[top] = self.disk.repository(top)
        return self._listed[top]

    def beside(self, named: Sequence[Parsed], words: Collection[str]) -> list[Parsed]:
        """The files in the folders of the named ones in whose text all of some words are."""
        folders = dict.fromkeys(Path(p.path).parent for p in named) if self.is_on_disk else ()
        paths = [p for folder in folders for p in self.disk.files(folder, ".py")[:_MOST_LISTED]]
        found = [self._try(str(p)) for p in paths if all(self.disk.has(str(p), w) for w in words)]
        return [p for p in found if p is not None and p not in named]

    def _near(self, path: Path) -> list[Path]:
        """Those that might import a file: in its own folder and those above it, and in those of the program's files."""
        folders = {f.resolve(): f for f in [*self._around(path.parent), *self._folders]}
        found = [p for folder in folders.values() for end in (".py", ".ipynb") for p in self.disk.files(folder, end)]
        near = found[:_MOST_LISTED]
        beyond = (p for p in self._repository(path) if p.parent.resolve() not in folders)
        return [*near, *(p for p in beyond if self.disk.has(str(p), "sys.path"))]

    def _around(self, here: Path) -> list[Path]:
        """A folder and those above it, up to the repository's; without one, to that of its package and its program."""
        folders = self._search_path(here)
        if self._is_there(str(folders[-1] / ".git")):
            return folders
        program = os.path.commonpath([f.resolve() for f in [here, *self._folders]])
        is_within = [f.resolve().is_relative_to(program) for f in folders]
        return folders[: max(sum(is_within), 1 + self._is_there(str(here / "__init__.py")))]

    def _may_call(self, importer: Parsed, imported: Parsed) -> bool:
        """Whether a script imports a file, itself or from a package round it, and calls anything."""
        return any(isinstance(n, ast.Call) for n in importer.parents) and absolute(imported.path) in map(
            absolute, self._imported_with_packages(importer)
        )

    def _imported_with_packages(self, importer: Parsed) -> Iterator[str]:
        """The files that a file imports, and what the packages among them import: `from lib import Net`."""
        for path in self._imported(importer):
            yield path
            package = self._try(path) if Path(path).name == "__init__.py" else None
            yield from self._imported(package) if package is not None else ()

    def unreadable(self, parsed: Parsed) -> Iterator[tuple[ast.AST, FileError]]:
        """The imports in a file of files of the project that cannot be parsed, and why they cannot."""
        for node in parsed.imports:
            for path in self._imported_at(parsed, node):
                if self._try(path) is None:
                    yield node, self._errors[absolute(path)]

    def named_like(self, importer: str, pattern: str, word: str) -> list[str]:
        """The files with a word that a file may import under a name like a pattern: `models.*_net`, `.*` beside it.

        Of a name without a `*`, only the beginning is known.
        """
        begin, _, rest = pattern.partition("*")
        *parts, name = begin.lstrip(".").split(".")
        end = rest.rpartition("*")[2]
        here = Path(importer).parent
        level = len(begin) - len(begin.lstrip("."))
        folders = [here.joinpath(*[".."] * (level - 1))] if level else self._search_path(here) if begin else []
        for folder in folders:
            package = folder.joinpath(*parts)
            on_disk = self.disk.files(package, ".py") if self.is_on_disk and package.is_dir() else []
            given = [p for p in map(Path, self._given) if p.parent == Path(absolute(str(package)))]
            stems = [p for p in (*on_disk, *given) if p.stem.startswith(name) and p.stem != "__init__"]
            if found := [p for p in stems if p.stem.endswith(end)]:
                texts = [p for p in map(self._try, map(str, found)) if p is not None and word in p.text]
                return [parsed.path for parsed in texts]
        return []

    def meant_at_run_time(self, parsed: Parsed, call: ast.Call) -> list[str]:
        """The files that an import may mean by a name which is made at run time, as far as the name is known."""
        if not call.args or parsed.spelled_out(call.args[0]) is not None:
            return []
        pattern = parsed.pattern(call.args[0])
        given = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "package")]
        package = parsed.spelled_out(given[0]) if given and pattern.startswith(".") else None
        found = self.named_like(parsed.path, f"{package or ''}{pattern}", "")
        return [path for path in found if absolute(path) != absolute(parsed.path)]

    def read_at_run_time(self, parsed: Parsed, call: ast.Call) -> list[str]:
        """All that an import may mean by a name made at run time, if it is read; which trainer is meant users say."""
        meant = self.meant_at_run_time(parsed, call)
        is_read = (
            self._reads_picked
            and len(meant) <= _MOST_MEANT
            and not any(self._has_text(path, ".backward(") for path in meant)
        )
        return meant if is_read else []

    def having(self, path: str, word: str) -> list[str]:
        """The scripts of a file's repository that have a word."""
        found = map(str, self._repository(Path(path)) if self.is_on_disk else ())
        return [other for other in found if other.endswith(".py") and self.disk.has(other, word)]

    def _imported(self, parsed: Parsed) -> Iterator[str]:
        self._resolve_elsewhere(parsed)
        for node in parsed.imports:
            yield from self._imported_at(parsed, node)

    def _imported_at(self, parsed: Parsed, node: ast.AST) -> Iterator[str]:
        importer = parsed.path
        if isinstance(node, ast.Call):
            yield from self._imported_by_call(parsed, node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from self._packages(importer, alias.name, 0)
        elif isinstance(node, ast.ImportFrom):
            yield from self._packages(importer, node.module or "", node.level)
            for alias in node.names:
                name = f"{node.module}.{alias.name}" if node.module else alias.name
                path = self.resolve(importer, name, node.level)
                if path is not None:
                    yield path

    def _imported_by_call(self, parsed: Parsed, call: ast.Call) -> Iterator[str]:
        """What `import_module("lib.models")` imports, whose name the file spells out, or what else is read for it."""
        name = parsed.spelled_out(call.args[0]) if _is_import(call) else None
        bare = name.lstrip(".") if name else ""
        if name and bare:
            yield from self._packages(parsed.path, bare, len(name) - len(bare))
        yield from self._picked_by(parsed, call)

    def _picked_by(self, parsed: Parsed, call: ast.Call) -> list[str]:
        return self.read_at_run_time(parsed, call) if _is_import(call) else []

    def _packages(self, importer: str, name: str, level: int) -> Iterator[str]:
        path = self.resolve(importer, name, level)
        if path is not None:
            yield path

    def resolve(self, importer: str, name: str, level: int) -> str | None:
        """The file that `import name` means in the file `importer`; None for a library."""
        key = (importer, name, level)
        if key not in self._resolved:
            self._resolved[key] = self._find(importer, name, level)
        return self._resolved[key]

    def _find(self, importer: str, name: str, level: int) -> str | None:
        here = Path(importer).parent
        parts = name.split(".") if name else []
        if level:
            for _ in range(level - 1):
                here = here / ".." if here.name in ("", "..") else here.parent
            return self._file(here, parts)
        for folder in (*self._search_path(here), *self._added_to_path(importer), *self._added_by_imports(importer)):
            path = self._file(folder, parts)
            if path is not None and absolute(path) != absolute(importer):  # no file imports itself
                return path
        return None

    def _search_path(self, here: Path) -> list[Path]:
        """The folder of the file, then the folders above it up to the repository's root."""
        if here not in self._search:
            self._search[here] = list(self._folders_up(here))
        return self._search[here]

    def _added_to_path(self, importer: str) -> list[Path]:
        """The folders that a file lets modules be imported from: `sys.path.append("../src")`."""
        key = absolute(importer)
        if key not in self._added:
            parsed = self._parsed.get(key)
            calls = [n for n in parsed.nodes if _adds_a_folder(n)] if parsed and "sys.path" in parsed.text else []
            bound = _bound(parsed.nodes) if parsed and calls else {}
            given = [argument for call in calls for argument in call.args]  # type: ignore[attr-defined]  # calls
            texts = dict.fromkeys("/".join(found) for argument in given for found in _texts(argument, bound, _DEPTH))
            starts = self._search_path(Path(importer).parent)
            self._added[key] = [start / text for text in filter(None, texts) for start in starts]
        return self._added[key]

    def _added_by_imports(self, importer: str) -> list[Path]:
        """The folders that files beside a file add when it imports them: `import _init_paths`."""
        key = absolute(importer)
        if key not in self._added_by:
            parsed, folders = self._parsed.get(key), self._search_path(Path(importer).parent)
            named = [name.split(".") for node in (parsed.imports if parsed else ()) for name in _modules(node)]
            paths = dict.fromkeys(p for parts in named for folder in folders if (p := self._file(folder, parts)))
            adding = [p for p in paths if absolute(p) != key and self._holds(p, "sys.path") and self._try(p)]
            self._added_by[key] = [folder for path in adding for folder in self._added_to_path(path)]
        return self._added_by[key]

    def _holds(self, path: str, word: str) -> bool:
        data = self._given.get(absolute(path))
        return self.disk.has(path, word) if data is None else word.encode() in data

    def _folders_up(self, here: Path) -> Iterator[Path]:
        yield here
        absolute = here.resolve()
        up = here
        for _ in range(6):
            if self._is_there(str(absolute / ".git")):
                return
            parent = absolute.parent
            if parent == absolute:
                return
            absolute = parent
            up = up / ".." if up.name in ("", "..") else up.parent
            yield up

    def _file(self, folder: Path, parts: list[str]) -> str | None:
        module = f"{Path(folder, *parts)}.py"
        if parts and self._is_there(module):
            return module
        package = str(Path(folder, *parts, "__init__.py"))
        return package if self._is_there(package) else None

    def _is_there(self, path: str) -> bool:
        if path not in self._exists:
            self._exists[path] = self.disk.is_there(Path(path)) or (bool(self._given) and absolute(path) in self._given)
        return self._exists[path]


def _is_import(call: ast.Call) -> bool:
    """`import_module(name)`, `__import__(name)`"""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    return function in IMPORTING and bool(call.args)


def _adds_a_folder(node: ast.AST) -> bool:
    """`sys.path.append(folder)`, `sys.path.insert(0, folder)`, `sys.path.extend(folders)`"""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in _ADDING


def _modules(node: ast.AST) -> list[str]:
    """The modules that an import names: `lib.data`; not those of the file's own package, `from . import data`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def _bound(nodes: Sequence[ast.AST]) -> dict[str, list[ast.expr]]:
    """What a file's names are given, as it is written there: in `src = root / "src"`, `for src in (...)`.

    Its functions' parameters, too: `add_path("src")`.
    """
    found: dict[str, list[ast.expr]] = {}
    functions = {n.name: n.args for n in nodes if isinstance(n, ast.FunctionDef)}
    for call in (n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)):
        taken = functions.get(call.func.id)  # type: ignore[attr-defined]  # checked
        for parameter, argument in zip(taken.args if taken else (), call.args, strict=False):
            found.setdefault(parameter.arg, []).append(argument)
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.For)):
            value = node.iter if isinstance(node, ast.For) else node.value
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (t.id for t in targets if isinstance(t, ast.Name) and value is not None):
                found.setdefault(name, []).append(value)  # type: ignore[arg-type]  # not None
    return found


def _texts(node: ast.AST, bound: dict[str, list[ast.expr]], depth: int) -> list[list[str]]:
    """The texts in an expression, in their order: `..` and `src` of `join(dirname(__file__), "..", "src")`.

    One list for each value that its names may have, or for each element of a list.
    """
    if isinstance(node, ast.Constant):
        return [[node.value]] if isinstance(node.value, str) else [[]]
    if isinstance(node, ast.Name):
        values = bound.get(node.id, []) if depth else []
        return [texts for value in values for texts in _texts(value, bound, depth - 1)] or [[]]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [texts for element in node.elts for texts in _texts(element, bound, depth)]
    found: list[list[str]] = [[]]
    for part in ast.iter_child_nodes(node):
        found = [[*before, *texts] for before in found for texts in _texts(part, bound, depth)][:_MOST_FOLDERS]
    return found


def absolute(path: str) -> str:
    """A path that two spellings of it share."""
    return _resolved(str(Path.cwd()), path)


@lru_cache(maxsize=2**16)
def _resolved(folder: str, path: str) -> str:
    """A path as it is seen from a folder; the current one may change."""
    return os.path.realpath(Path(folder, path))


def _module_name(path: Path) -> str:
    """The last part of what a file is imported as."""
    return path.parent.name if path.stem == "__init__" else path.stem


def _imported_names(parsed: Parsed) -> Iterator[str]:
    here = Path(parsed.path).resolve().parent.parts
    for node in parsed.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [".".join(here[1 : len(here) + 1 - node.level])] if node.level else []
            module = ".".join([*base[-1:], *([node.module] if node.module else [])])
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
            yield from (".".join(name.split(".")[-6:]) for name in names)


def _is_of_interest(path: str, project: Project) -> bool:
    try:
        return may_train(project.disk.read(path)) or project.leads_to_training(path)
    except FileError:
        return True  # which is said later


def groups(
    paths: Sequence[str], follow: bool, disk: Disk | None = None, met: Sequence[str] = ()
) -> list[tuple[str, ...]]:
    """Which files must be rewritten together: those that import one another; those without training are in none.

    met: other files; each that calls something and leads to one group only is its entry script.
    """
    if not follow or (len(paths) == 1 and not met):
        return [(path,) for path in paths]
    project = Project(disk=disk)
    index = {absolute(path): path for path in paths if _is_of_interest(path, project)}
    parent = {key: key for key in index}

    def top(key: str) -> str:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for key, path in index.items():
        parsed = project._try(path)
        if parsed is None:
            continue
        for imported in project._imported(parsed):
            other = absolute(imported)
            if other in parent:
                parent[top(other)] = top(key)
    found: dict[str, list[str]] = {}
    for key, path in index.items():
        found.setdefault(top(key), []).append(path)
    names = {name for path in index.values() for name in (Path(path).stem, Path(path).resolve().parent.name)}
    for path in met:
        if not names.isdisjoint(project.disk.words_of_imports(path)) and project.calls(path):
            led_to = {top(key) for p in project.imported_by(path) if (key := absolute(p.path)) in parent}
            if len(led_to) == 1 and project.leads_to_training(path):
                found[led_to.pop()].append(path)
    return [tuple(group) for group in found.values()]
