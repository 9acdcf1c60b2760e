"""The settings of `accelify rewrite` and `accelify check`: what there is to set, where from, and which value wins.

A value comes from the command line, else from the command's table in the nearest pyproject.toml (for rewriting
[tool.accelify.rewrite]), else it is the default. Lists that take something away (`ignore`, `extend-exclude`,
`per-file-ignores`) add up instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from accelify.codemod.files.discover import SKIPPED_FOLDERS, Exclusion, is_folder
from accelify.codemod.options import RUNTIMES, Options, Selection
from accelify.codemod.patterns import Patterns
from accelify.errors import AccelifyError, did_you_mean

TABLES = ("launch", "rewrite", "check")  # of [tool.accelify]
ALL = "ALL"

Names = tuple[str, ...]
NamesOfFiles = tuple[tuple[str, Names], ...]
Value = bool | str | Names | NamesOfFiles


class BadSetting(AccelifyError):
    """A setting whose name or value cannot be used; says where it was given and what would do."""

    def __init__(self, origin: str, reason: str) -> None:
        super().__init__(f"{origin}: {reason}")


@dataclass(frozen=True, slots=True)
class Key:
    """A setting: its name, how a value from TOML is read, and its default.

    adds_up: the values of the file and of the command line count both.
    """

    name: str
    parse: Callable[[Any], Value]
    default: Value
    adds_up: bool = False


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {_toml(value)}")
    return value


def _runtime(value: Any) -> str:
    if value not in RUNTIMES:
        raise ValueError(f"must be one of {', '.join(map(_toml, RUNTIMES))}, not {_toml(value)}")
    return str(value)


def _patterns(value: Any) -> Names:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f'must be a list of patterns, such as ["vendored"], not {_toml(value)}')
    return tuple(value)


def _rules_of_rewrite() -> Sequence[str]:
    from accelify.codemod.rules import pages  # here, as few runs name a rule

    return list(pages())


def _rules_of_check() -> Sequence[str]:
    from accelify.codemod.checks import pages

    return list(pages())


@dataclass(frozen=True, slots=True)
class Section:
    """The settings of one command: its table in [tool.accelify], its rules, and the keys that it has besides."""

    table: str
    known_rules: Callable[[], Sequence[str]]
    example: str
    own: tuple[Key, ...] = ()

    @property
    def name(self) -> str:
        """The name of the table in the file."""
        return f"tool.accelify.{self.table}"

    @property
    def keys(self) -> Mapping[str, Key]:
        """All that can be set."""
        keys = (
            Key("select", self.rules, (ALL,)),
            Key("ignore", self.rules, (), adds_up=True),
            Key("per-file-ignores", self.rules_of_files, (), adds_up=True),
            Key("exclude", _patterns, SKIPPED_FOLDERS),
            Key("extend-exclude", _patterns, (), adds_up=True),
            Key("force-exclude", _flag, default=False),
            *self.own,
            Key("follow", _flag, default=True),
        )
        return {key.name: key for key in keys}

    def rules(self, value: Any) -> Names:
        """The names of rules in a list."""
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(f"must be a list of rules, such as [{_toml(self.example)}], not {_toml(value)}")
        known = [*self.known_rules(), ALL]
        for each in value:
            if each not in known:
                raise ValueError(f"there is no rule {each!r}{did_you_mean(each, known)} `accelify explain` lists them")
        return tuple(value)

    def rules_of_files(self, value: Any) -> NamesOfFiles:
        """The names of rules by the pattern of the files that they are left out in."""
        if not isinstance(value, dict):
            raise ValueError(f'must be a table such as {{"old/*" = [{_toml(self.example)}]}}, not {_toml(value)}')
        return tuple((pattern, self.rules(rules)) for pattern, rules in value.items())

    def rules_from(self, text: Sequence[str]) -> Names:
        """Rules as a command line has them: `writes,folders`. Raises: ValueError."""
        return self.rules([name.strip() for each in text for name in each.split(",") if name.strip()])

    def rules_of_files_from(self, text: Sequence[str]) -> NamesOfFiles:
        """Patterns with rules as a command line has them: `old/*:writes,old/*:folders`. Raises: ValueError."""
        found: dict[str, Names] = {}
        for pair in (pair for each in text for pair in each.split(",")):
            pattern, colon, rule = pair.rpartition(":")
            if not colon or not pattern:
                raise ValueError(f"{pair!r} is no PATTERN:RULE")
            found[pattern] = (*found.get(pattern, ()), *self.rules([rule]))
        return tuple(found.items())


REWRITE = Section(
    "rewrite",
    _rules_of_rewrite,
    "writes",
    (Key("runtime", _runtime, "accelify"), Key("keep-global-batch", _flag, default=False)),
)
CHECK = Section("check", _rules_of_check, "every_rank_writes")


@dataclass(frozen=True, slots=True)
class Given:
    """A value, where it was given, and the folder that its patterns are relative to."""

    value: Value
    origin: str
    folder: str


@dataclass(frozen=True, slots=True)
class Settings:
    """The values that were given for each key, the weakest first; `file` is the pyproject.toml that was read."""

    given: Mapping[str, tuple[Given, ...]]
    file: Path | None
    section: Section = REWRITE

    def options(self) -> Options:
        """The options of the rewriter."""
        return Options(
            follow=self.follow,
            keep_global_batch=cast(bool, self._value("keep-global-batch")),
            runtime=RUNTIMES[cast(str, self._value("runtime"))],
            selection=self.selection(),
        )

    @property
    def follow(self) -> bool:
        """Whether the project's own files that a script imports are read."""
        return cast(bool, self._value("follow"))

    def exclusion(self) -> Exclusion:
        """The files that are left out in folders."""
        return Exclusion((*self._excluded("exclude"), *self._excluded("extend-exclude")), self._forced())

    def lines(self) -> Iterator[str]:
        """Each key with its value and where that comes from."""
        width = max(map(len, self.given))
        for name in self.given:
            for given in self.given[name]:
                yield f"{name:{width}} = {_toml(given.value)}  # {given.origin}"

    def folder(self, paths: Sequence[str]) -> Path:
        """The project's own folder: that of the file, else the top of the repository round all paths."""
        if self.file is not None:
            return self.file.parent
        above = _folders_above(paths)
        return next((folder for folder in above if os.access(folder / ".git", os.F_OK)), Path.cwd())

    def _value(self, name: str) -> Value:
        return self.given[name][-1].value

    def _forced(self) -> bool:
        return cast(bool, self._value("force-exclude"))

    def _excluded(self, name: str) -> Iterator[Patterns]:
        for given in self.given[name]:
            yield Patterns(given.folder, cast(Names, given.value))

    def selection(self) -> Selection:
        """Which rules may speak of which files."""
        select = cast(Names, self._value("select"))
        per_file = [
            (Patterns(given.folder, (pattern,)), self._expanded(rules))
            for given in self.given["per-file-ignores"]
            for pattern, rules in cast(NamesOfFiles, given.value)
        ]
        return Selection(
            select=None if ALL in select else frozenset(select),
            ignore=frozenset(
                rule for given in self.given["ignore"] for rule in self._expanded(cast(Names, given.value))
            ),
            per_file_ignores=tuple(per_file),
            excluded=tuple(
                Patterns(given.folder, cast(Names, given.value))
                for name in ("exclude", "extend-exclude")
                for given in self.given[name]
                if given.origin != DEFAULT
            ),
        )

    def _expanded(self, rules: Names) -> frozenset[str]:
        return frozenset(rules if ALL not in rules else self.section.known_rules())


DEFAULT = "default"
COMMAND_LINE = "command line"


def settings(
    asked: Mapping[str, Value],
    paths: Sequence[str],
    config: Path | None = None,
    *,
    isolated: bool = False,
    section: Section = REWRITE,
) -> Settings:
    """The settings of a run over some paths: `asked` is from the command line, `config` the only file to read.

    Raises: BadSetting for a file that cannot be read, an unknown key, or a value of the wrong kind.
    """
    file = None if isolated else config or nearest_file(paths)
    there = {} if file is None else read_file(file, must_have=config is not None, section=section)
    given: dict[str, tuple[Given, ...]] = {}
    here = str(Path.cwd())
    for key in section.keys.values():
        found = [Given(key.default, DEFAULT, here)]
        if key.name in there:
            assert file is not None
            found.append(Given(there[key.name], str(file), str(file.resolve().parent)))
        if key.name in asked:
            found.append(Given(asked[key.name], COMMAND_LINE, here))
        given[key.name] = tuple(found[1:] if key.adds_up and found[1:] else found[-1:])
    return Settings(given, file, section)


def nearest_file(paths: Sequence[str]) -> Path | None:
    """The pyproject.toml with our table that is nearest above all paths, no further than the repository's top."""
    for folder in _folders_above(paths):
        path = folder / "pyproject.toml"
        if os.access(path, os.R_OK) and path.is_file() and _tables(path):
            return path
        if os.access(folder / ".git", os.F_OK):
            return None
    return None


def _folders_above(paths: Sequence[str]) -> list[Path]:
    """The folder that holds all paths, and those above it; the nearest first."""
    folders = [path if is_folder(path) else str(Path(path).parent) for path in paths]
    try:
        start = Path(os.path.commonpath([os.path.realpath(folder) for folder in folders] or [str(Path.cwd())]))
    except ValueError:  # on two drives
        return []
    return [start, *start.parents]


def read_file(path: Path, *, must_have: bool = False, section: Section = REWRITE) -> dict[str, Value]:
    """The settings of a pyproject.toml. Raises: BadSetting."""
    tables = _tables(path, is_named=must_have)
    for name in tables:
        if name not in TABLES:
            hint = (
                did_you_mean(name, TABLES)
                if isinstance(tables[name], dict)
                else f"; settings stand in [{section.name}]"
            )
            raise BadSetting(str(path), f"unknown key {name!r} in [tool.accelify]{hint}")
    table = tables.get(section.table, {})
    if not isinstance(table, dict):
        raise BadSetting(str(path), f"[{section.name}] is no table of settings")
    found, keys = {}, section.keys
    for name, value in table.items():
        if name not in keys:
            raise BadSetting(str(path), f"unknown key {name!r} in [{section.name}]{did_you_mean(name, keys)}")
        try:
            found[name] = keys[name].parse(value)
        except ValueError as error:
            raise BadSetting(str(path), f"{name}: {error}") from None
    return found


def _tables(path: Path, *, is_named: bool = False) -> dict[str, Any]:
    """Our tables of a file; none for a file without any, unless the user named it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadSetting(str(path), f"cannot be read: {(error.strerror or 'error').lower()}") from None
    if b"accelify" not in data and not is_named:
        return {}
    from accelify import toml

    try:
        tool = toml.parse(data.decode("utf-8")).get("tool", {})
    except UnicodeDecodeError:
        raise BadSetting(str(path), "cannot be read: not UTF-8 text") from None
    except toml.NotTOML as error:
        raise BadSetting(str(path), str(error)) from None
    ours = tool.get("accelify", {}) if isinstance(tool, dict) else {}
    if not isinstance(ours, dict):
        raise BadSetting(str(path), f"`accelify` in [tool] is no table; settings stand in [{REWRITE.name}]")
    return {} if ours.keys() == {"launch"} and not is_named else ours


def _toml(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (tuple, list)) and value and isinstance(value[0], tuple):
        return "{" + ", ".join(f"{_toml(name)} = {_toml(each)}" for name, each in value) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value)
