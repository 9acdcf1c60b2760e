"""The settings of `accelify rewrite`: what there is to set, where a value may come from, and which one wins.

A value comes from the command line, else from [tool.accelify.rewrite] in the nearest pyproject.toml, else it is the
default. Lists that take something away (`ignore`, `extend-exclude`, `per-file-ignores`) add up instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from accelify.codemod.files.discover import SKIPPED_FOLDERS, Exclusion, is_folder
from accelify.codemod.libraries.runtimes import RUNTIMES
from accelify.codemod.options import Options, Selection
from accelify.codemod.patterns import Patterns
from accelify.errors import AccelifyError, did_you_mean

TABLE = "tool.accelify.rewrite"
TABLES = ("launch", "rewrite")  # of [tool.accelify]
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


def _rules(value: Any) -> Names:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f'must be a list of rules, such as ["writes"], not {_toml(value)}')
    from accelify.codemod.rules import pages  # here, as few runs name a rule

    known = [*pages(), ALL]
    for each in value:
        if each not in known:
            raise ValueError(f"there is no rule {each!r}{did_you_mean(each, known)} `accelify explain` lists them")
    return tuple(value)


def _rules_of_files(value: Any) -> NamesOfFiles:
    if not isinstance(value, dict):
        raise ValueError(f'must be a table such as {{"old/*" = ["writes"]}}, not {_toml(value)}')
    return tuple((pattern, _rules(rules)) for pattern, rules in value.items())


KEYS: Mapping[str, Key] = {
    key.name: key
    for key in (
        Key("select", _rules, (ALL,)),
        Key("ignore", _rules, (), adds_up=True),
        Key("per-file-ignores", _rules_of_files, (), adds_up=True),
        Key("exclude", _patterns, SKIPPED_FOLDERS),
        Key("extend-exclude", _patterns, (), adds_up=True),
        Key("force-exclude", _flag, default=False),
        Key("runtime", _runtime, "accelify"),
        Key("keep-global-batch", _flag, default=False),
        Key("follow", _flag, default=True),
    )
}


@dataclass(frozen=True, slots=True)
class Given:
    """A value, where it was given, and the folder that its patterns are relative to."""

    value: Value
    origin: str
    folder: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What was given for each key, the weakest first; `file` is the pyproject.toml that was read."""

    given: Mapping[str, tuple[Given, ...]]
    file: Path | None

    def options(self) -> Options:
        """What the rewriter is asked for."""
        return Options(
            follow=cast(bool, self._value("follow")),
            keep_global_batch=cast(bool, self._value("keep-global-batch")),
            runtime=RUNTIMES[cast(str, self._value("runtime"))],
            selection=self._selection(),
        )

    def exclusion(self) -> Exclusion:
        """What is not looked for in folders."""
        return Exclusion((*self._excluded("exclude"), *self._excluded("extend-exclude")), self._forced())

    def lines(self) -> Iterator[str]:
        """Each key with its value and where that comes from."""
        width = max(map(len, KEYS))
        for name in KEYS:
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

    def _selection(self) -> Selection:
        select = cast(Names, self._value("select"))
        per_file = [
            (Patterns(given.folder, (pattern,)), _expanded(rules))
            for given in self.given["per-file-ignores"]
            for pattern, rules in cast(NamesOfFiles, given.value)
        ]
        return Selection(
            select=None if ALL in select else frozenset(select),
            ignore=frozenset(rule for given in self.given["ignore"] for rule in _expanded(cast(Names, given.value))),
            per_file_ignores=tuple(per_file),
            excluded=tuple(
                Patterns(given.folder, cast(Names, given.value))
                for name in ("exclude", "extend-exclude")
                for given in self.given[name]
                if given.origin != DEFAULT
            ),
        )


DEFAULT = "default"
COMMAND_LINE = "command line"


def settings(
    asked: Mapping[str, Value], paths: Sequence[str], config: Path | None = None, *, isolated: bool = False
) -> Settings:
    """What counts for a run over some paths: `asked` is from the command line, `config` the only file to read.

    Raises: BadSetting for a file that cannot be read, an unknown key, or a value of the wrong kind.
    """
    file = None if isolated else config or nearest_file(paths)
    there = {} if file is None else read_file(file, must_have=config is not None)
    given: dict[str, tuple[Given, ...]] = {}
    here = str(Path.cwd())
    for key in KEYS.values():
        found = [Given(key.default, DEFAULT, here)]
        if key.name in there:
            assert file is not None
            found.append(Given(there[key.name], str(file), str(file.resolve().parent)))
        if key.name in asked:
            found.append(Given(asked[key.name], COMMAND_LINE, here))
        given[key.name] = tuple(found[1:] if key.adds_up and found[1:] else found[-1:])
    return Settings(given, file)


def rules_from(text: Sequence[str]) -> Names:
    """Rules as a command line has them: `writes,folders`. Raises: ValueError."""
    return _rules([name.strip() for each in text for name in each.split(",") if name.strip()])


def rules_of_files_from(text: Sequence[str]) -> NamesOfFiles:
    """Patterns with rules as a command line has them: `old/*:writes,old/*:folders`. Raises: ValueError."""
    found: dict[str, Names] = {}
    for pair in (pair for each in text for pair in each.split(",")):
        pattern, colon, rule = pair.rpartition(":")
        if not colon or not pattern:
            raise ValueError(f"{pair!r} is no PATTERN:RULE")
        found[pattern] = (*found.get(pattern, ()), *_rules([rule]))
    return tuple(found.items())


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


def read_file(path: Path, *, must_have: bool = False) -> dict[str, Value]:
    """The settings of a pyproject.toml. Raises: BadSetting."""
    tables = _tables(path, is_named=must_have)
    for name in tables:
        if name not in TABLES:
            hint = did_you_mean(name, TABLES) if isinstance(tables[name], dict) else f"; settings stand in [{TABLE}]"
            raise BadSetting(str(path), f"unknown key {name!r} in [tool.accelify]{hint}")
    table = tables.get("rewrite", {})
    if not isinstance(table, dict):
        raise BadSetting(str(path), f"[{TABLE}] is no table of settings")
    found = {}
    for name, value in table.items():
        if name not in KEYS:
            raise BadSetting(str(path), f"unknown key {name!r} in [{TABLE}]{did_you_mean(name, KEYS)}")
        try:
            found[name] = KEYS[name].parse(value)
        except ValueError as error:
            raise BadSetting(str(path), f"{name}: {error}") from None
    return found


def _tables(path: Path, *, is_named: bool = False) -> dict[str, Any]:
    """What a file holds of ours; nothing of a file that does not speak of rewriting, unless the user named it."""
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
        raise BadSetting(str(path), f"`accelify` in [tool] is no table; settings stand in [{TABLE}]")
    return {} if ours.keys() == {"launch"} and not is_named else ours


def _expanded(rules: Names) -> frozenset[str]:
    if ALL not in rules:
        return frozenset(rules)
    from accelify.codemod.rules import pages

    return frozenset(pages())


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
