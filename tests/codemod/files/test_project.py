"""Facts about the files that belong to a script: those that it imports, and those that import it."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelify.codemod.files.project import Project, absolute, groups
from accelify.errors import CannotParse, CannotRead

FILES = {
    "train.py": b"import nets\nfrom lib.data import load\nfrom lib import more\nimport torch\n",
    "nets.py": b"import layers\n",
    "layers.py": b"x = 1\n",
    "lib/__init__.py": b"",
    "lib/data.py": b"from . import more\nfrom .. import top\n",
    "lib/more.py": b"",
    "other.py": b"",
}


def project(**more: bytes) -> Project:
    return Project({**FILES, **{f"{name}.py": data for name, data in more.items()}})


@pytest.mark.parametrize(
    ("importer", "name", "level", "path"),
    [
        ("train.py", "nets", 0, "nets.py"),
        ("train.py", "lib", 0, "lib/__init__.py"),
        ("train.py", "lib.data", 0, "lib/data.py"),
        ("lib/data.py", "more", 1, "lib/more.py"),
        ("lib/data.py", "nets", 0, "nets.py"),
        ("lib/data.py", "", 1, "lib/__init__.py"),
        ("lib/data.py", "nets", 1, None),
        ("train.py", "torch", 0, None),
        ("train.py", "", 0, None),
        ("nets.py", "nets", 0, None),  # no file imports itself
    ],
)
def test_the_file_that_an_import_means(importer: str, name: str, level: int, path: str | None) -> None:
    assert project().resolve(importer, name, level) == path


@pytest.mark.parametrize(
    "folder",
    ['"../lib"', "0, '../lib/'", 'os.path.join(os.path.dirname(__file__), "..", "lib")', "str(Path('..') / 'lib')"],
)
def test_a_folder_that_a_file_adds_to_the_path(folder: str) -> None:
    method = "insert" if folder.startswith("0") else "append"
    text = f"import sys\nsys.path.{method}({folder})\nimport data\nimport torch\n".encode()
    found = project(**{"books/use": text, "books/plain": b"import data\n"})
    named = [found.load("books/use.py"), found.load("books/plain.py")]
    resolved = [[found.resolve(p.path, name, 0) for name in ("data", "torch")] for p in named]
    assert [[p and absolute(p) for p in each] for each in resolved] == [[absolute("lib/data.py"), None], [None, None]]


@pytest.mark.parametrize(
    "code",
    [
        "root = Path(__file__).parents[1]\nlib: Path = root / 'lib'\nsys.path.insert(0, str(lib))",
        "here = dirname(__file__)\nfor f in (join(here, '../other'), join(here, '../lib')):\n    sys.path.append(f)",
        "if True:\n    folders = ['../other', '../lib']\nfor folder in folders:\n    sys.path.append(folder)",
        "sys.path.extend(['../other', '../lib'])",
    ],
)
def test_a_folder_that_has_a_name(code: str) -> None:
    text = f"import sys\n{code}\nimport data\n".encode()
    found = project(**{"books/use": text})
    path = found.resolve(found.load("books/use.py").path, "data", 0)
    assert path is not None
    assert absolute(path) == absolute("lib/data.py")


@pytest.mark.parametrize(
    "code",
    [
        "lib = read()\nsys.path.append(lib)",
        "lib = '../lib'\nshow(lib)\nsys.path.append(other)",
        "path = path\nsys.path.append(path)",
    ],
)
def test_a_folder_that_is_not_added_or_not_known(code: str) -> None:
    found = project(**{"books/use": f"import sys\n{code}\nimport data\n".encode()})
    assert found.resolve(found.load("books/use.py").path, "data", 0) is None


@pytest.mark.parametrize(
    ("paths", "imports", "is_found"),
    [
        (b"import sys\nsys.path.insert(0, '../lib')\n", "import paths", True),
        (b"import sys\nsys.path.insert(0, '../lib')\n", "from paths import *", True),
        (b"def add(path):\n    sys.path.insert(0, path)\nadd(join(here, '..', 'lib'))\n", "import paths", True),
        (b"import sys\nsys.path.insert(0, '../lib')\n", "import torch", False),
        (b"def add(path):\n    sys.path.insert(0, path)\nshow('../lib')\n", "import paths", False),
    ],
)
def test_a_folder_that_an_imported_file_adds(paths: bytes, imports: str, is_found: bool) -> None:
    found = project(**{"books/use": f"{imports}\nimport data\n".encode(), "books/paths": paths})
    path = found.resolve(found.load("books/use.py").path, "data", 0)
    assert (path and absolute(path)) == (absolute("lib/data.py") if is_found else None)


def test_a_program_is_what_a_script_imports_and_what_that_does() -> None:
    found = project()
    train = found.load("train.py")
    assert {p.path for p in found.program([train], follow=True)} == {
        *("train.py", "nets.py", "layers.py"),
        *("lib/__init__.py", "lib/data.py", "lib/more.py"),
    }
    assert found.program([train], follow=False) == [train]


def test_a_file_that_cannot_be_parsed_is_unknown_unless_it_is_named() -> None:
    found = project(nets=b"x = (\n")
    assert "nets.py" not in {p.path for p in found.program([found.load("train.py")], follow=True)}
    with pytest.raises(CannotParse):
        found.load("nets.py")


@pytest.mark.parametrize(
    ("call", "is_followed"),
    [
        ("importlib.import_module('lib.more')", True),
        ("import_module(f'lib.{kind}')", True),
        ("__import__(PACKAGE + kind)", True),
        ("import_module('.' + name, package=__package__)", True),
        ("import_module('lib.' + chosen)", False),
        ("import_module(f'lib.{kind!r:>8}')", False),
        ("import_module('lib.' + looped)", False),
        ("load('lib.more')", False),
    ],
)
def test_imports_by_names_that_the_file_spells_out(call: str, is_followed: bool) -> None:
    names = "PACKAGE, kind = 'lib.', 1\nPACKAGE = 'a'\n" if "chosen" in call else "PACKAGE = 'lib.'\nkind = 'more'\n"
    text = f"{names}name = PACKAGE + kind\nchosen = input()\nfor looped in ('more',): pass\n{call}\n"
    found = project(use=text.encode())
    followed = {p.path for p in found.program([found.load("use.py")], follow=True)}
    assert ("lib/more.py" in followed) is is_followed


def test_a_circle_of_imports_ends() -> None:
    found = Project({"a.py": b"import b\n", "b.py": b"import a\n"})
    assert {p.path for p in found.program([found.load("a.py")], follow=True)} == {"a.py", "b.py"}


def test_whether_a_file_leads_to_training() -> None:
    found = project(layers=b"loss.backward()\n")
    assert found.leads_to_training("train.py")
    assert not found.leads_to_training("other.py")
    assert not project().leads_to_training("train.py")


def test_other_bytes_in_some_files() -> None:
    changed = project().with_changes({"nets.py": b"y = 2\n"})
    assert changed.load("nets.py").text == "y = 2\n"
    assert changed.load("layers.py").text == "x = 1\n"


def test_files_from_memory_have_no_importers() -> None:
    found = project()
    assert found.importers([found.load("nets.py")]) == []


def test_importers_on_disk(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name, text in {
        "net.py": "x = 1\n",
        "a.py": "import net\nf()\n",
        "b.py": "import net\n",
        "c.py": "f()\n",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "test_net.py").write_text("import net\nf()\n")
    found = Project()
    importers = found.importers([found.load(str(tmp_path / "net.py"))])
    assert [Path(p.path).name for p in importers] == ["a.py", "test_net.py"]  # they call something


def test_importers_in_a_folder_beside(tmp_path: Path) -> None:
    for folder in (".git", "src", "books"):
        (tmp_path / folder).mkdir()
    (tmp_path / "src/net.py").write_text("x = 1\n")
    (tmp_path / "books/use.py").write_text("import sys\nsys.path.append('../src')\nfrom net import x\nf(x)\n")
    (tmp_path / "books/other.py").write_text("from net import x\nf(x)\n")
    found = Project()
    importers = found.importers([found.load(str(tmp_path / "src/net.py"))])
    assert [Path(p.path).name for p in importers] == ["use.py"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CannotRead):
        Project().load(str(tmp_path / "missing.py"))


def test_files_that_must_be_rewritten_together(tmp_path: Path) -> None:
    texts = {"a.py": "import torch, net\n", "net.py": "import torch\n", "b.py": "import torch\n", "c.py": "x = 1\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in texts]
    found = {tuple(Path(p).name for p in group) for group in groups(paths, follow=True)}
    assert found == {("a.py", "net.py"), ("b.py",)}
    assert len(groups(paths, follow=False)) == 4


def test_an_entry_script_belongs_to_the_one_program_that_it_leads_to(tmp_path: Path) -> None:
    training = "import torch\ndef fit(loss): loss.backward()\n"
    texts = {
        "a.py": training,
        "b.py": training,
        "main.py": "from a import fit\nfit(1)\n",
        "both.py": "import a, b\na.fit(1)\n",
        "names.py": "from a import fit\n",
        "other.py": "import json\njson.loads('a')\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in texts]
    found = groups(paths[:2], True, None, paths[2:])
    assert [[Path(p).name for p in group] for group in found] == [["a.py", "main.py"], ["b.py"]]
    assert groups(paths[:2], False, None, paths[2:]) == [(paths[0],), (paths[1],)]


def test_a_path_is_that_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = absolute("a.py")
    monkeypatch.chdir(tmp_path)
    assert absolute("a.py") == str(tmp_path.resolve() / "a.py") != before


def test_two_spellings_of_a_path() -> None:
    assert absolute("a.py") == absolute("./x/../a.py")
    assert absolute("a.py") != absolute("b.py")


def test_the_files_that_have_a_word_and_import_a_file_in_some_way(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "tests").mkdir()
    for name, text in {
        "options.py": "def get(): ...\n",
        "base.py": "from options import get\n",
        "a.py": "import base\nprint(base.get().local_rank)\n",
        "b.py": "import options\n",
        "c.py": "print(x.local_rank)\n",
        "tests/d.py": "import options\nx.local_rank\n",
    }.items():
        (tmp_path / name).write_text(text)
    found = Project()
    readers = found.readers(found.load(str(tmp_path / "options.py")), "local_rank")
    assert [Path(p.path).name for p in readers] == ["a.py", "d.py"]


@pytest.mark.parametrize(
    ("package", "user", "is_caller"),
    [
        ("", "from lib.train import fit\nfit()\n", True),
        ("", "if True: import lib.train\nlib.train.fit()\n", True),
        ("", "from importlib import import_module\nimport_module('lib.' + 'tr' 'ain').fit()\n", True),
        ("from .train import fit\n", "from lib import fit\nfit()\n", True),
        ("from .train import fit\n", "import lib as library\nlibrary.fit()\n", True),
        ("", "from lib import other\nother.fit()\n", False),
        ("", "fit = print\nfit()\n", False),
    ],
)
def test_files_that_call_functions_of_a_file(
    package: str, user: str, is_caller: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lib").mkdir()
    Path(".git").mkdir()
    texts = {"lib/__init__": package, "lib/other": "", "lib/train": "def fit():\n    pass\n", "use": user}
    for name, text in texts.items():
        Path(f"{name}.py").write_text(text)
    found = Project()
    assert [p.path for p in found.callers(found.load("lib/train.py"), ["fit"])] == ["use.py"] * is_caller


def test_a_package_s_own_files_import_from_it_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lib").mkdir()
    Path(".git").mkdir()
    Path("lib/__init__.py").write_text("from .train import fit\n")
    Path("lib/train.py").write_text("def fit():\n    pass\n")
    Path("lib/use.py").write_text("from . import fit\nfit()\n")
    found = Project()
    assert [p.path for p in found.callers(found.load("lib/train.py"), ["fit"])] == ["lib/use.py"]
