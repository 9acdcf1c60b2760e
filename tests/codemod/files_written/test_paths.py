"""Facts about paths: which files they name, and whether one may have been written by the time that it is read."""

from __future__ import annotations

import pytest

from accelify.codemod.files_written.paths import Files
from tests.codemod.facts import Facts

BEFORE = "import os\nname = 'a/best.pt'\nif p:\n    other = 'x.pt'\nelse:\n    other = 'y.pt'\n"
BEFORE += """\
numbered, counted = 'f/e{:d}.pt', 'f/e%03d.pt'
def found():
    path = None
    for n in rows:
        path = "state/model_{0}".format(n)
    return path
best = found()
class Trainer:
    pass
trainer = Trainer()
trainer.best_path = best
class Stopping:
    def __init__(self, path):
        self.path = path
        self.kept = os.path.join(folder, 'kept.pt')
class Saver:
    def __init__(self, path='saver.pt', kept='kept.pt'):
        self.path, self.kept = path, kept
class Teacher:
    def __init__(self, options):
        self.path, self.options = 'teacher.pt', options
options = parser.parse_args()
options.path = options.folder + '/option.pt'
stopping, teacher = Stopping(options.path), Teacher(options)
saver, late, other_late = Saver(), Saver('net_' + options.name + '.pt'), Saver(kept=f'{options.name}_net.pt')
"""


def names(path: str) -> set[str]:
    facts = Facts(f"{BEFORE}use({path})\n")
    return set(Files(facts.program, facts.tracer).names(facts.call("use(").args[0]))


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        ("out / 'report.tmp'", "out / 'best.pt'", False),
        ("temp", "os.path.join(out, 'best.pt')", False),
        ("os.path.join(out, f'{k}.tmp')", "os.path.join(out, 'best.pt')", False),
        ("out / 'report.tmp'", "out / 'report.tmp' / 'x'", True),
        ("os.path.join(out, name)", "os.path.join(out, 'best.pt')", True),
        ("moved / 'report.tmp'", "moved / 'best.pt'", True),
        ("out", "out / 'best.pt'", True),
    ],
)
def test_entries_of_one_folder_do_not_hold_each_other(one: str, other: str, may: bool) -> None:
    text = "import os\nout = root / 'runs'\nmoved = root\nmoved = moved / 'new'\ntemp = out / 'report.tmp'\n"
    facts = Facts(f"{text}use({one}, {other})\n")
    assert Files(facts.program, facts.tracer).may_hold(*facts.call("use(").args) is may


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("'a/b.pt'", {"b.pt"}),
        ("name", {"best.pt"}),
        ("other", {"x.pt", "y.pt"}),
        ("os.path.join(folder, 'c.pt')", {"c.pt"}),
        ("folder + '/d.pt'", {"d.pt"}),
        ("f'{folder}/e.pt'", {"e.pt"}),
        ("unknown", set()),
        ("f'{folder}/e{n}.pt'", {"e{}.pt"}),
        ("'e{}.pt'.format(n)", {"e{}.pt"}),
        ("'f/e%03d.pt' % n", {"e{}.pt"}),
        ("'e' + str(n) + '.pt'", {"e{}.pt"}),
        ("numbered.format(n)", {"e{}.pt"}),
        ("numbered.format(n=n)", {"e{}.pt"}),
        ("counted % n", {"e{}.pt"}),
        ("n % 2", set()),
        ("folder.format(n)", set()),
        ("folder + '/' + name", set()),
        ("f'states/{n}_{m}'", {"states/{}_{}"}),
        ("best", {"model_{}"}),
        ("found()", {"model_{}"}),
        ("trainer.best_path", {"model_{}"}),
        ("unknown()", set()),
        ("stopping.path", {"option.pt"}),
        ("stopping.kept", {"kept.pt"}),
        ("teacher.path", {"teacher.pt"}),
        ("teacher.options.path", {"option.pt"}),
        ("unknown.path", set()),
        # A default that is known, beside names that are joined.
        ("saver.path", {"saver.pt", "net_{}.pt"}),
        ("saver.kept", {"kept.pt", "{}_net.pt"}),
    ],
)
def test_the_names_of_files(path: str, expected: set[str]) -> None:
    assert names(path) == expected


LISTED = """\
import glob, os, random
from pathlib import Path
import numpy as np
rng = np.random.default_rng(0)
found = glob.glob(os.path.join(folder, '*.npz'))
train, test = sorted(found)[:4], found[4:]
filled, longer = glob.glob('a/*.npz'), glob.glob('a/*.npz')
filled.append(other)
longer += others
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("found[0]", {"{*}.npz"}),
        ("train[0]", {"{*}.npz"}),
        ("test[0]", {"{*}.npz"}),
        ("random.choice(found)", {"{*}.npz"}),
        ("np.random.choice(found)", {"{*}.npz"}),
        ("np.random.choice(found, 2, replace=False)[0]", {"{*}.npz"}),
        ("rng.choice(found)", {"{*}.npz"}),
        ("random.sample(found, 1)[0]", {"{*}.npz"}),
        ("random.choice(['a/x.npz', 'a/y.npz'])", {"x.npz", "y.npz"}),
        ("max(found, key=os.path.getmtime)", {"{*}.npz"}),
        ("max('a/x.npz', other)", set()),
        ("next(Path('a').rglob('net_??.pt'))", {"net_{*}{*}.pt"}),
        ("list(Path('a').glob(f'{name}_[0-9]*.pt'))[0]", {"{*}_{*}{*}.pt"}),  # the name may have wildcards as well
        ("glob.glob('a/*/last.pt')[0]", {"last.pt"}),
        # These may be named in any way.
        ("glob.glob('a/*')[0]", set()),
        ("glob.glob('a/**')[0]", set()),
        ("glob.glob('a/[xyz]*')[0]", set()),
        ("glob.glob(pattern)[0]", set()),
        ("list(Path('a').iterdir())[0]", set()),
        ("filled[0]", set()),
        ("longer[0]", set()),
        ("random.choice(filled)", set()),
    ],
)
def test_the_names_of_files_that_are_found_by_a_pattern(path: str, expected: set[str]) -> None:
    facts = Facts(f"{LISTED}use({path})\n")
    assert Files(facts.program, facts.tracer).names(facts.call("use(").args[0]) == expected


KEPT = """\
class Store:
    def __init__(self, folder):
        self.kept = [folder + 'a.npy', folder + 'b.npy']
        self.nested = [['c.npy'], [folder + 'd.npy']]
        self.longer = [folder + 'e.npy']
        self.longer.append(folder)
        use_all(self.kept, self.nested)
def use_all(paths, groups):
    {line}
store = Store('x/')
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("for path in paths: use(path)", {"{}a.npy", "{}b.npy"}),
        ("[use(path) for path in store.kept]", {"{}a.npy", "{}b.npy"}),
        ("use(paths[0])", {"{}a.npy", "{}b.npy"}),
        ("for path in groups[0]: use(path)", {"c.npy", "{}d.npy"}),
        ("[use(path) for group in groups for path in group]", {"c.npy", "{}d.npy"}),
        ("[use(path) for path in store.longer]", set()),  # of which not all items are known
        ("for path in path: use(path)", set()),
    ],
)
def test_the_names_of_files_in_lists_that_objects_hold_or_callers_give(line: str, expected: set[str]) -> None:
    facts = Facts(KEPT.format(line=line))
    assert Files(facts.program, facts.tracer).names(facts.call("use(").args[0]) == expected


def test_a_list_that_many_callers_pass_on_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = [f"def f{i}(paths):\n" + f"    f{i + 1}(paths)\n" * 9 for i in range(3)]
    begun = "f0(['a.npy', 'b.npy'])\n" * 9
    facts = Facts("".join(passed) + "def f3(paths):\n    for path in paths: use(path)\n" + begun)
    files, given = Files(facts.program, facts.tracer), facts.tracer.given
    asked: list[object] = []
    monkeypatch.setattr(facts.tracer, "given", lambda *parts: (asked.append(parts), given(*parts))[1])
    assert files.names(facts.call("use(").args[0]) == {"a.npy", "b.npy"}
    assert len(asked) <= 28 * 9  # not 9 ** 4: each call once, of each call that passes its list on


@pytest.mark.parametrize(
    ("found", "path", "may"),
    [
        ("*.npz", "'net.pt'", False),
        ("*.npz", "f'net_{n}.pt'", False),
        ("net_*.pt", "'other.pt'", False),
        ("net*.pt", "'net.pt'", True),  # a wildcard may stand for nothing
        ("*.pt", "f'{n}.pt'", True),
        ("net_?.pt", "'net_1.pt'", True),
        ("*", "'net.pt'", True),
    ],
)
def test_what_is_found_by_a_pattern_may_be_a_file_that_fits(found: str, path: str, may: bool) -> None:
    facts = Facts(f"import glob\nuse(glob.glob('{found}')[0], {path})\n")
    assert Files(facts.program, facts.tracer).may_be_one(*facts.call("use(").args) is may


def test_what_may_have_been_written_before() -> None:
    facts = Facts("write()\nread()\nlate()\nfor x in y:\n    again()\n    first()\n")
    files = Files(facts.program, facts.tracer)
    assert files.is_before(facts.call("write()"), facts.call("read()"))
    assert not files.is_before(facts.call("late()"), facts.call("read()"))
    assert files.is_before(facts.call("first()"), facts.call("again()"))  # in an earlier round


@pytest.mark.parametrize(
    ("folder", "path", "may"),
    [
        ("'a'", "'a/b.txt'", True),
        ("'a/b'", "f'a/{n}.txt'", True),  # `n` may be `b/c`
        ("'a'", "'c/b.txt'", False),
        ("f'{root}/a'", "os.path.join(root, n)", True),
        ("args.data", "f'{args.data}/x'", True),
        ("args.data", "args.log + '/x'", False),
        ("Path('a')", "name", True),
        ("'b/*.pt'", "name", False),
        ("unknown()", "'a/b.txt'", True),
        ("'state'", "trainer.best_path", True),
        ("'logs'", "trainer.folder", False),
        ("'runs'", "trainer.folder", True),
        ("trainer.folder", "args.log", False),
        ("'b'", "sorted(glob.glob('a/*'))[-1]", False),
        ("'b'", "list(Path('a').iterdir())[0]", False),
        ("'b'", "glob.glob('a/*')[0]", False),
        ("'b'", "random.choice(glob.glob('a/*'))", False),
        ("'b'", "random.choice(list(Path('a').glob('*')))", False),
        ("'a'", "random.choice(glob.glob('a/*'))", True),
        ("'b'", "[os.path.join('a', n) for n in os.listdir('a')][0]", False),
        ("'b'", "os.listdir('a')[0]", True),
    ],
)
def test_a_folder_may_hold_what_does_not_begin_otherwise(folder: str, path: str, may: bool) -> None:
    before = f"{BEFORE}import glob, random\nfrom pathlib import Path\nroot = 'a'\ntrainer.folder = 'runs/1'\n"
    facts = Facts(f"{before}use({folder}, {path})\n")
    assert Files(facts.program, facts.tracer).may_hold(*facts.call("use(").args) is may


@pytest.mark.parametrize(
    ("read", "written", "told"),
    [
        ("f'{root()}/{n}.json'", "os.path.join(args.log, 'meta.json')", False),  # the end says what kind of file it is
        ("f'{root()}/hr_{n}'", "f'{place}/{phase()}.log'", False),
        ("f'{root()}/{n}_net.pt'", "f'{args.log}/{step}_net.pt'", True),
        ("f'{root()}/best_9.json'", "f'{args.log}/best_{step}.json'", True),
        ("f'{args.log}/{n}.json'", "os.path.join(args.log, 'meta.json')", True),
        ("options.start", "'loss/train'", False),  # empty, if it is not given
        ("args.log", "args.log + '/' + str(n)", True),
        ("glob.glob('a/*.pt')[0]", "f'b/{n}.pt'", False),
        ("glob.glob('a/*.pt')[0]", "f'a/{n}.pt'", True),
        ("glob.glob('a/*.pt')[0]", "glob.glob('b/*.pt')[0]", False),  # both end alike, which tells nothing
    ],
)
def test_what_is_known_of_two_paths_says_that_they_may_be_one(read: str, written: str, told: bool) -> None:
    facts = Facts(f"{BEFORE}import glob\noptions.start = ''\nuse({read}, {written})\n")
    assert Files(facts.program, facts.tracer).is_told_as_one(*facts.call("use(").args) is told
