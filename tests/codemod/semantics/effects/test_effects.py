"""What code does besides giving a value, from source text."""

from __future__ import annotations

import ast

import pytest

from accelify.codemod.libraries.row import Effect
from accelify.codemod.semantics.effects.effects import Effects
from accelify.codemod.semantics.effects.summary import Leave, Summary
from tests.codemod.semantics.programs import marked, program

IMPORTS = "import glob, logging, os, random, subprocess, sys, time, torch\nimport numpy as np\nfrom torch import nn\n"


def summary(text: str, **others: str) -> Summary:
    """What the last statement of a script does."""
    source = program(IMPORTS + text, **others)
    return Effects(source).of(source.named[0].tree.body[-1])


def changed(text: str) -> set[str]:
    """The places that the last statement changes: `x` a variable, `x.a` an attribute, `x[]` an item, `x*` in place."""
    return {p.name + "".join(p.path) for p in summary(text).writes}


def effects(text: str) -> set[str]:
    return {e.value for e in summary(text).effects}


@pytest.mark.parametrize(
    "text",
    [
        "1 + 2",
        "x = 1\nx",
        "len([1]) + max(1, 2)",
        "torch.zeros(3).sum().item()",
        "torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
        "def f(x):\n    y = x + 1\n    return [y]\nf(2)",
        "def f(n):\n    rows = []\n    for i in range(n):\n        rows.append(i)\n    return rows\nf(2)",
        "class C:\n    def __init__(self):\n        self.x = 1\nC()",
        "class C:\n    x = 1\n    def get(self): return self.x\nc = C()\nc.get()",
        "class C:\n    @property\n    def x(self): return 1\nc = C()\nc.x",
        "def f():\n    yield print(1)\nf()",
        "lambda: print(1)",
        "def f(): print(1)\nf",
        "isinstance(3, int)",
        "'a,b'.split(',')[0].strip()",
        "def f(x):\n    return x.reshape(1, -1).to('cpu').clamp(0, 1)\nf(sys.argv[0])",
        "f'{1}'",
        "def f(): print(1)\ncallable(f)",
        "def f(): print(1)\nisinstance(f, int)",
        "def f(): print(1)\n[k for k, v in {'f': f}.items() if callable(v)]",
    ],
)
def test_what_only_gives_a_value(text: str) -> None:
    assert summary(text) == Summary()


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("x = 1", {"x"}),
        ("x, (y, *z) = 1, (2, 3)", {"x", "y", "z"}),
        ("x = 0\nx += 1", {"x"}),
        ("x = []\nx += [1]", {"x", "x*"}),
        ("x = torch.zeros(1)\nx += 1", {"x", "x*"}),
        ("x = {}\nx['a'] = 1", {"x[]"}),
        ("x = {}\ndel x['a']", {"x[]"}),
        ("x = []\nx.append(1)", {"x*"}),
        ("x = torch.zeros(1)\nx.add_(1)", {"x*"}),
        ("x = torch.zeros(1)\nx[0].fill_(1)", {"x[]*"}),
        ("x = [torch.zeros(1)]\nfor t in x:\n    t.zero_()", {"t", "t*"}),
        ("class C: pass\nc = C()\nc.x = 1", {"c.x"}),
        ("class C: pass\nc = C()\nsetattr(c, 'x', 1)", {"c*"}),
        ("class C:\n    def set(self): self.x = 1\nc = C()\nc.set()", {"c.x"}),
        ("class C:\n    def set(self): self.rows[0] = 1\nc = C()\nc.set()", {"c.rows[]"}),
        ("def f(rows): rows.append(1)\nx = []\nf(x)", {"x*"}),
        ("def f(rows): rows.append(1)\nf([])", set()),
        ("def f(a, *, rows): rows.append(a)\nx = []\nf(1, rows=x)", {"x*"}),
        ("def f(*all): all[0].append(1)\nx = []\nf(x)", {"x*"}),
        ("def f(rows): g(rows)\ndef g(rows): rows.append(1)\nx = []\nf(x)", {"x*"}),
        ("def f(c): c.x = 1\nclass C: pass\nc = C()\nf(c)", {"c.x"}),
        ("def f(d): d['a'].append(1)\nx = {'a': []}\nf(x)", {"x[]*"}),
        ("def f(x):\n    y = x\n    y.append(1)\nz = []\nf(z)", {"z*"}),
        ("def f(x):\n    y = list(x)\n    y.append(1)\nz = []\nf(z)", set()),
        ("def f(x):\n    y = x.view(-1)\n    y[0] = 1\nz = torch.zeros(1)\nf(z)", {"z[]"}),
        ("def f(x):\n    y = x.clone()\n    y[0] = 1\nz = torch.zeros(1)\nf(z)", set()),
        ("def f(x):\n    y = x + 1\n    y.zero_()\nz = torch.zeros(1)\nf(z)", set()),
        ("def same(x): return x\ndef f(x): same(x).append(1)\nz = []\nf(z)", {"z*"}),
        ("def f(x):\n    for row in x:\n        row.append(1)\nz = [[]]\nf(z)", {"z[]*"}),
        ("def f(x):\n    [row.append(1) for row in x]\nz = [[]]\nf(z)", {"z[]*"}),
        ("def f():\n    global n\n    n = 1\nf()", {"n"}),
        ("rows = []\ndef f(): rows.append(1)\nf()", {"rows*"}),
        ("def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n    g()\nf()", set()),
        ("def f(a, b):\n    if a: a, b = b, a\n    a.append(1)\nx, y = [], []\nf(x, y)", {"x*", "y*"}),
        ("def f(n, x):\n    x.append(n)\n    return f(n - 1, x) if n else 0\nz = []\nf(3, z)", {"z*"}),
        ("def f(x=[]): x.append(1)\nf()", {"x*"}),
        ("for i in range(3):\n    pass", {"i"}),
        ("with open('a') as f:\n    pass", {"f"}),
        ("import json", {"json"}),
        ("def f(): print(1)", {"f"}),
        ("class C:\n    x = 1", {"C"}),
        ("[i for i in range(3)]", set()),
        ("if (n := 3): pass", {"n"}),
        ("np.zeros(3).sort()", set()),
        ("x = np.zeros(3)\nnp.add(x, 1, out=x)", {"x*"}),
        ("x = torch.zeros(3)\ntorch.nn.functional.relu(x, inplace=True)", {"x*"}),
        ("model = nn.Linear(1, 1)\nmodel.weight.data.fill_(0)", {"model.weight.data*"}),
        ("model = nn.Linear(1, 1)\nmodel.eval()", {"model*"}),
    ],
)
def test_what_is_changed(text: str, places: set[str]) -> None:
    assert changed(text) == places


MODELS = ["nn.Linear(1, 1)", "nn.Sequential(nn.Dropout(), nn.Linear(1, 1))", "Net()"]
NET = "class Net(nn.Module):\n    def forward(self, x): return x\n"


@pytest.mark.parametrize("is_imported", [False, True])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("body", "is_changed"),
    [
        ("for m in x.children(): m.p = 0.0", True),
        ("for m in x.modules():\n        if isinstance(m, nn.Dropout): m.p = 0.0", True),
        ("for p in x.parameters(): p.requires_grad = False", True),
        ("for p in x[0].parameters(): p.requires_grad = False", True),
        ("for n, p in x.named_parameters():\n        if 'bias' in n: p.requires_grad = False", True),
        ("for i, (n, m) in enumerate(x.named_children()): setattr(m, 'p', 0.0)", True),
        ("for b in x.buffers(): b.zero_()", True),
        ("for m in list(x.children())[:1]: m.p = 0.0", True),
        ("[setattr(m, 'p', 0.0) for m in x.modules()]", True),
        ("next(x.parameters()).requires_grad = False", True),
        ("x.state_dict()['weight'].zero_()", True),
        ("for m in x.children(): print(m)", False),
        ("print(next(x.parameters()).device)", False),
        ("norms = {}\n    for n, p in x.named_parameters(): norms[n] = p.norm()", False),
        ("for p in x.parameters():\n        q = p.detach().clone()\n        q.zero_()", False),
        ("found = x.state_dict()\n    found['epoch'] = 1", False),
    ],
)
def test_what_a_loop_over_its_parts_changes_is_the_model(
    body: str, model: str, is_changed: bool, is_imported: bool
) -> None:
    function = f"def f(x):\n    {body}\n"
    imported, other = "from other import f\n", {"other": f"from torch import nn\n{function}"}
    text = f"{NET}{imported if is_imported else function}model = {model}\nf(model)"
    found = summary(text, **(other if is_imported else {}))
    assert {p.name for p in found.writes} == ({"model"} if is_changed else set())


@pytest.mark.parametrize(
    ("body", "is_changed"),
    [
        ("for row in x: row['a'] = 1", True),
        ("for i, row in enumerate(x): row.update(a=1)", True),
        ("for row in [*x]: row['a'] = 1", True),
        ("for row in x.copy(): row['a'] = 1", True),
        ("for row in x:\n        new = row.copy()\n        new['a'] = 1", False),
        ("rows = x.copy()\n    rows.append({})", False),
        ("found = []\n    for row in x: found.append(row)", False),
    ],
)
def test_what_a_loop_over_its_items_changes_is_the_list(body: str, is_changed: bool) -> None:
    other = f"def f(x):\n    {body}\n"
    found = summary("from other import f\nrows = [{}]\nf(rows)", other=other)
    assert {p.name for p in found.writes} == ({"rows"} if is_changed else set())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("torch.randn(3)", {"draws_torch"}),
        ("torch.zeros(3).normal_()", {"draws_torch"}),
        ("torch.randn(3, generator=g)", {"draws_given"}),
        ("np.random.rand(3)", {"draws_numpy"}),
        ("random.random()", {"draws_python"}),
        ("rng = random.Random(0)\nrng.random()", {"draws_given"}),
        ("nn.Linear(3, 3)", {"draws_torch"}),
        ("model = nn.Dropout()\nmodel(1)", {"draws_in_training"}),
        ("model = nn.Sequential(nn.Linear(1, 1), nn.Dropout())\nmodel(1)", {"draws_in_training"}),
        ("model = nn.Linear(1, 1)\nmodel(torch.zeros(1))", set()),
        ("torch.manual_seed(1)", {"seeds_torch"}),
        ("np.random.seed(1)", {"seeds_numpy"}),
        ("random.seed(1)", {"seeds_python"}),
        ("print(1)", {"prints"}),
        ("logging.info('x')", {"logs"}),
        ("time.time()", {"reads_clock"}),
        ("os.environ['A']", set()),
        ("os.environ.get('A')", {"reads_environment"}),
        ("torch.backends.cudnn.benchmark = True", {"changes_library"}),
        ("np.random.seed(1) if torch.rand(1) > 0 else print(1)", {"seeds_numpy", "draws_torch", "prints"}),
        ("sys.exit(1)", {"exits"}),
        ("subprocess.Popen('ls')", {"starts"}),
        ("list(map(lambda i: print(i), [1]))", {"prints"}),
        ("sorted([1], key=lambda i: random.random())", {"draws_python"}),
    ],
)
def test_what_libraries_do(text: str, found: set[str]) -> None:
    assert effects(text) == found


SEED = "torch.manual_seed(1)"


@pytest.mark.parametrize(
    "text",
    [
        f"class C:\n    def device(self):\n        {SEED}\n        return 'cpu'\nc = C()\ntorch.device(c.device())",
        f"class C:\n    @property\n    def device(self):\n        {SEED}\n        return 'cpu'\nc = C()\nc.device",
        f"import functools\nclass C:\n    @functools.cached_property\n    def d(self): {SEED}\nC().d",
        f"class B:\n    @property\n    def d(self): {SEED}\nclass C(B): pass\nC().d",
        f"class B:\n    d = 1\nclass C(B):\n    @property\n    def d(self): {SEED}\ndef f(b: B): return b.d\nf(C())",
        f"class C:\n    @property\n    def d(self): {SEED}\ndef f(x):\n    return x.d\nf(unknown)",
        f"class C:\n    @property\n    def d(self): pass\n    @d.setter\n    def d(self, v): {SEED}\nc = C()\nc.d = 1",
        f"class C:\n    def __getattr__(self, name): {SEED}\nc = C()\nc.anything",
        f"class C:\n    def __setattr__(self, name, value): {SEED}\nc = C()\nc.anything = 1",
        f"class D:\n    def __get__(self, o, t): {SEED}\nclass C:\n    d = D()\nc = C()\nc.d",
        f"class C:\n    def __add__(self, o): {SEED}\nC() + 1",
        f"class C:\n    def __radd__(self, o): {SEED}\n1 + C()",
        f"class C:\n    def __iadd__(self, o): {SEED}\nc = C()\nc += 1",
        f"class C:\n    def __eq__(self, o): {SEED}\nC() == 1",
        f"class C:\n    def __contains__(self, o): {SEED}\n1 in C()",
        f"class C:\n    def __getitem__(self, o): {SEED}\nC()[0]",
        f"class C:\n    def __setitem__(self, o, v): {SEED}\nc = C()\nc[0] = 1",
        f"class C:\n    def __len__(self): {SEED}\nlen(C())",
        f"class C:\n    def __bool__(self): {SEED}\nif C(): pass",
        f"class C:\n    def __bool__(self): {SEED}\nnot C()",
        f"class C:\n    def __bool__(self): {SEED}\nC() and 1",
        f"class C:\n    def __str__(self): {SEED}\nf'{{C()}}'",
        f"class C:\n    def __str__(self): {SEED}\nstr(C())",
        f"class C:\n    def __call__(self): {SEED}\nC()()",
        f"class C:\n    def __iter__(self): {SEED}\nfor x in C(): pass",
        f"class C:\n    def __iter__(self): {SEED}\nlist(C())",
        f"class C:\n    def __iter__(self): {SEED}\na, b = C()",
        f"class C:\n    def __next__(self): {SEED}\nnext(C())",
        f"class C:\n    def __enter__(self): {SEED}\n    def __exit__(self, *a): pass\nwith C(): pass",
        f"class C:\n    def __exit__(self, *a): {SEED}\n    def __enter__(self): pass\nwith C(): pass",
        f"class C:\n    def __init__(self): {SEED}\nC()",
        f"class B:\n    def __init__(self): {SEED}\nclass C(B): pass\nC()",
        f"class B:\n    def __init__(self): {SEED}\nclass C(B):\n    def __init__(self): super().__init__()\nC()",
        f"class C:\n    def __post_init__(self): {SEED}\nC()",
        f"class M(nn.Module):\n    def forward(self, x): {SEED}\nm = M()\nm(1)",
        f"class M(nn.Module):\n    def forward(self, x): {SEED}\nm = nn.Sequential(nn.ReLU(), M())\nm(1)",
        f"class C:\n    @staticmethod\n    def f(): {SEED}\nC.f()",
        f"class C:\n    @classmethod\n    def f(cls): {SEED}\nC.f()",
        f"def d(f):\n    {SEED}\n    return f\n@d\ndef g(): pass",
        f"def d(f):\n    def w():\n        {SEED}\n        return f()\n    return w\n@d\ndef g(): pass\ng()",
        f"def d(n):\n    def i(f):\n        def w(): {SEED}\n        return w\n    return i\n@d(1)\ndef g(): 0\ng()",
        f"def d(f):\n    def w(): return f()\n    return w\n@d\ndef g(): {SEED}\ng()",
        f"@torch.no_grad()\ndef g(): {SEED}\ng()",
        f"def s(): {SEED}\ndef f(x=s()): pass",
        f"def s(): {SEED}\ndef f(x=s): x()\nf()",
        f"def s(): {SEED}\ndef f(g): g()\nf(s)",
        f"def s(): {SEED}\nlist(map(s, [1]))",
        f"def s(): {SEED}\nnp.apply_along_axis(s, 0, np.ones(3))",
        f"f = lambda: {SEED}\nf()",
        f"def f():\n    {SEED}\n    yield 1\nfor x in f(): pass",
        f"def f():\n    {SEED}\n    yield 1\nlist(f())",
        f"def f():\n    {SEED}\n    yield 1\n[x for x in enumerate(f())]",
        f"def f(n):\n    if n: return g(n - 1)\ndef g(n):\n    {SEED}\n    return f(n)\nf(1)",
        f"class D(torch.utils.data.Dataset):\n    def __getitem__(self, i): {SEED}\n"
        "loader = torch.utils.data.DataLoader(D())\nfor x in loader: pass",
        f"class C:\n    @property\n    def d(self): {SEED}\nc = C()\ngetattr(c, 'd')",
        f"class C:\n    @property\n    def d(self): {SEED}\nc = C()\nhasattr(c, sys.argv[1])",
        f"class C:\n    def __str__(self): {SEED}\nnext(map(str, [C()]))",
        f"class C:\n    {SEED}",
    ],
)
def test_every_way_to_run_a_function_of_the_projects_own(text: str) -> None:
    assert Effect.SEEDS_TORCH in summary(text).effects or summary(text).is_unknown
    assert not summary(text).is_unknown, ast.unparse(summary(text).unknown)  # type: ignore[arg-type]  # it is unknown


def test_an_import_runs_a_module_of_the_projects_own() -> None:
    assert Effect.SEEDS_TORCH in summary("import other", other=f"import torch\n{SEED}").effects
    assert Effect.SEEDS_TORCH in summary("from other import x", other=f"import torch\n{SEED}\nx = 1").effects


@pytest.mark.parametrize(
    "text",
    [
        "mystery()",
        "import mystery\nmystery.f()",
        "import mystery\nx = mystery.C()\nx.frob()",
        "def f(g): return g()\nf(mystery)",
        "def f(x): return x.frobnicate()\nf(1)",
        "exec('x = 1')",
        "import mystery\n@mystery.wrap\ndef f(): pass\nf()",
        "import mystery\nclass C(mystery.Base): pass\nC()",
        "import mystery\nclass C(mystery.Base):\n    def __init__(self): super().__init__()\nC()",
        "list(map(mystery, [1]))",
        "class C: pass\nc = C()\nc.frobnicate()",
        "import mystery\nmystery.torch.zeros.device()",
        "import mystery\nmystery.x.format()",
    ],
)
def test_a_name_without_a_row_is_unknown(text: str) -> None:
    assert summary(text).is_unknown


def used(text: str) -> tuple[set[str], set[str]]:
    """The files that the last statement reads and writes."""
    found = summary(text)
    read, written = found.files_read, found.files_written
    return tuple({ast.unparse(p) for u in uses for p in u.paths} for uses in (read, written))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("text", "read", "written"),
    [
        ("open('a')", {"'a'"}, set()),
        ("open('a', 'rb')", {"'a'"}, set()),
        ("open('a', 'w')", set(), {"'a'"}),
        ("open('a', mode='ab')", set(), {"'a'"}),
        ("open('a', 'r+')", {"'a'"}, {"'a'"}),
        ("open('a', unknown)", {"'a'"}, {"'a'"}),
        ("options = {}\nif x:\n    options['encoding'] = 'utf-8'\nopen('a', **options)", {"'a'"}, set()),
        ("options = {} if x else {'encoding': 'utf-8'}\nopen('a', **options)", {"'a'"}, set()),
        ("def f(path, **options):\n    return open(path, **options)\nf('a', encoding='utf-8')", {"path"}, set()),
        ("def f(path, **options):\n    return open(path, **options)\nf('a', mode='w')", {"path"}, {"path"}),
        ("options = {'mode': 'w'}\nopen('a', **options)", {"'a'"}, {"'a'"}),
        ("options = {x: 'w'}\nopen('a', **options)", {"'a'"}, {"'a'"}),
        ("open('a', **unknown)", {"'a'"}, {"'a'"}),
        ("from pathlib import Path\np = Path('a')\np.open('w')", set(), {"p"}),
        ("from pathlib import Path\nPath('a').write_text('b')", set(), {"Path('a')"}),
        ("f = open('a', 'w')\nf.write('b')", set(), {"'a'"}),
        ("f = open('a', 'w')\nprint('b', file=f)", set(), {"'a'"}),
        ("print('b', file=sys.stderr)", set(), set()),
        ("torch.save([1], 'a')", set(), {"'a'"}),
        ("p = 'a'\ntorch.save([1], p)", set(), {"p"}),
        ("torch.load('a')", {"'a'"}, set()),
        ("np.save('a', np.zeros(3))", set(), {"'a'"}),
        ("import io\nb = io.BytesIO()\ntorch.save([1], b)", set(), set()),
        ("import io\nb = io.BytesIO()\nplt.savefig(b, format='png')", set(), set()),
        ("from io import BytesIO\ndef f(b):\n    torch.save('a', b)\nf(BytesIO())", set(), set()),
        ("import io\nfrom PIL import Image\nb = io.BytesIO()\nImage.new('L', (1, 1)).save(b, 'PNG')", set(), set()),
        ("os.remove('a')", set(), {"'a'"}),
        ("def f(path):\n    torch.save([1], path)\nf('a')", set(), {"path"}),
    ],
)
def test_files(text: str, read: set[str], written: set[str]) -> None:
    assert used(text) == (read, written)


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("raise ValueError", {Leave.RAISE}),
        ("assert x", {Leave.RAISE}),
        ("for i in range(3):\n    if i: break\n    continue", set()),
        ("for i in range(3):\n    for j in range(3):\n        pass\n    else:\n        continue", set()),
        ("def f():\n    raise ValueError\nf()", {Leave.RAISE}),
        ("def f():\n    return 1\nf()", set()),
    ],
)
def test_how_code_leaves(text: str, leaves: set[Leave]) -> None:
    assert summary(text).leaves == leaves


def test_a_statement_that_leaves_a_loop_or_function() -> None:
    source = program("def f():\n    for i in range(3):\n        break  # out\n    return 1  # back\n")
    asked = Effects(source)
    assert asked.of(marked(source, "out")).leaves == {Leave.BREAK}
    assert asked.of(marked(source, "back")).leaves == {Leave.RETURN}


def test_predicates() -> None:
    assert summary("print(1)").shows_only
    assert not summary("print(torch.rand(1))").shows_only
    assert summary("time.time()").only_reads
    assert not summary("time.time()").is_empty
    assert summary("open('a').read()").only_reads
    assert summary("torch.rand(1)").draws
    assert summary("torch.manual_seed(1)").seeds


def test_it_is_linear_in_the_calls() -> None:
    chain = "\n".join(f"def f{i}(x): f{i + 1}(x); f{i + 1}(x)" for i in range(400))
    found = summary(f"{chain}\ndef f400(x): x.append(1)\nrows = []\nf0(rows)")
    assert {p.name + "".join(p.path) for p in found.writes} == {"rows*"}


@pytest.mark.parametrize("transform", ["T.RandomCrop(4)", "T.Compose([T.ToTensor(), T.RandomHorizontalFlip()])"])
def test_an_item_of_a_librarys_data_set_runs_its_transform(transform: str) -> None:
    made = f"import torchvision.transforms as T\nfrom torchvision import datasets\nchange = {transform}\n"
    assert summary(f"{made}data = datasets.FakeData(9, transform=change)\ndata[0]").draws
    held = f"{made}data = torch.utils.data.Subset(datasets.FakeData(9, transform=change), [0])\ndata[0]"
    assert not summary("data = torch.utils.data.TensorDataset(torch.zeros(3))\ndata[0]").draws
    assert summary(held).draws or summary(held).is_unknown
