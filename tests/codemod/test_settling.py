"""What the changes of the rules come to: what only they read goes, what would leave a name over is not made."""

from __future__ import annotations

import ast

from accelify.codemod.edits.values import Attempt, Change, Found, Insert, Plan, Remark, Remove, Replace, When, Wrap
from accelify.codemod.leftovers import Uses, settle
from accelify.codemod.semantics.effects.effects import Effects
from tests.codemod.facts import Facts


def removal(facts: Facts, text: str) -> Change:
    return Change("rule", "main.py", 1, text, (Remove(line(facts, text)),))


def line(facts: Facts, text: str) -> ast.stmt:
    """The statement with an expression, or with a text."""
    return facts.program.statement(facts.call(text)) if text.endswith(")") else facts.statement(text)


def settled(facts: Facts, *found: Found) -> Plan:
    return settle(found, Uses(facts.program, facts.tracer, frozenset(), facts.program.once(Effects).is_pure))


def removed(plan: Plan) -> list[str]:
    edits = [e for c in plan.changes for e in c.edits if isinstance(e, Remove)]
    return sorted(ast.unparse(e.node).partition("\n")[0] for e in edits)


def test_what_only_removed_code_read_goes_in_a_chain() -> None:
    facts = Facts("a = 1\nb = a\nc = b\nprint(c)")
    assert removed(settled(facts, removal(facts, "print(c)"))) == ["a = 1", "b = a", "c = b", "print(c)"]


def test_what_has_an_effect_stays() -> None:
    facts = Facts("a = open(path)\nprint(a)")
    assert removed(settled(facts, removal(facts, "print(a)"))) == ["print(a)"]


def test_a_name_whose_value_may_do_more_stays_with_a_note() -> None:
    facts = Facts("def f(path):\n    a = open(path) if path else None\n    print(a)\nf('')")
    plan = settled(facts, removal(facts, "print(a)"))
    assert removed(plan) == ["print(a)"]
    assert [r.message.partition(":")[0] for r in plan.remarks] == ["nothing reads `a` any more"]
    assert ("f", "a") in plan.kept
    assert not plan.obstacles


def test_a_parameter_goes_with_what_replaces_it() -> None:
    facts = Facts("def f(a='x'):\n    if 1 > 2:\n        a = 'y'\n    print(a)\nf()")
    assert removed(settled(facts, removal(facts, "print(a)"))) == ["if 1 > 2:", "print(a)"]


def test_a_condition_with_nothing_left_goes() -> None:
    facts = Facts("a = 1\nif a:\n    for x in range(3):\n        print(x)")
    assert removed(settled(facts, removal(facts, "print(x)"))) == ["a = 1", "for x in range(3):", "if a:", "print(x)"]


def test_an_attempt_that_would_leave_a_parameter_over_gives_way() -> None:
    facts = Facts("def f(model, device):\n    model.to(device)\n    return model\nf(1, 2)")
    move = line(facts, "model.to(device)")
    stays = Remark("rule", "main.py", move, "stays")
    plan = settled(facts, Attempt((removal(facts, "model.to(device)"),), otherwise=(stays,)))
    assert removed(plan) == []
    assert plan.remarks == [stays]


def test_an_attempt_waits_until_nothing_reads_its_variables() -> None:
    facts = Facts("def f(device):\n    own = device\n    print(own)\nf(2)")
    function = facts.scope("f")
    taken = Change("rule", "main.py", 1, "taken", (Remove(line(facts, "f(2)")),))
    kept = Change("rule", "main.py", 1, "kept", ())
    attempt = Attempt((taken,), unread=((function, "device"),), otherwise=(kept,))
    assert taken not in settled(facts, attempt).changes
    assert taken in settled(facts, attempt, removal(facts, "print(own)")).changes


def test_a_new_value_that_nothing_reads_is_not_given() -> None:
    facts = Facts("d = 1\nprint(d)")
    statement = facts.statement("d = 1")
    assert isinstance(statement, ast.Assign)
    gives = Change(
        "rule", "main.py", 1, "new", (Replace(statement.value, lambda n: n),), gives=(facts.scope("main.py"), "d")
    )
    assert gives in settled(facts, gives).changes
    plan = settled(facts, gives, removal(facts, "print(d)"))
    assert gives not in plan.changes
    assert removed(plan) == ["d = 1", "print(d)"]


def test_notes_are_about_what_is_there_in_the_end() -> None:
    facts = Facts("a = 1\nprint(a)")
    node = line(facts, "print(a)")
    kept, gone = (Remark("rule", "main.py", node, when.name, when=when) for when in (When.KEPT, When.GONE))
    assert settled(facts, kept, gone).remarks == [kept]
    assert settled(facts, kept, gone, removal(facts, "print(a)")).remarks == [gone]


def test_a_header_is_not_put_over_lines_that_another_puts_between() -> None:
    facts = Facts("one()\ntwo()\nthree()")
    run = tuple(line(facts, f"{name}()") for name in ("one", "two", "three"))
    wrap = Change("writes", "main.py", 1, "", (Wrap(run, "if main:"),))
    between = Change("rule", "main.py", 1, "", (Insert(run[1], "before", "wait()"),))
    wraps = [e for c in settled(facts, wrap, between).changes for e in c.edits if isinstance(e, Wrap)]
    assert [len(w.statements) for w in wraps] == [1, 2]


def test_the_same_line_is_put_in_once() -> None:
    facts = Facts("import torch\ntorch.ones(1)")
    line = Insert(facts.statement("import torch"), "after", "import accelify.runtime")
    found = [Change(rule, "main.py", 1, rule, (line,)) for rule in ("one", "other")]
    assert [c.rule for c in settled(facts, *found).changes] == ["one"]


def test_what_is_guarded_stays_guarded_though_its_first_statement_goes() -> None:
    facts = Facts("def f():\n    a = move()\n    write(a)\n    close()")
    run = tuple(line(facts, text) for text in ("move()", "write(a)", "close()"))
    guard = Change("rule", "main.py", 2, "guarded", (Wrap(run, "if main:"),))
    plan = settled(facts, guard, removal(facts, "move()"))
    assert [e.statements for c in plan.changes for e in c.edits if isinstance(e, Wrap)] == [run[1:]]


def test_nothing_is_guarded_where_all_goes() -> None:
    facts = Facts("a()\nb()")
    guard = Change("rule", "main.py", 1, "guarded", (Wrap((line(facts, "a()"), line(facts, "b()")), "if main:"),))
    plan = settled(facts, guard, removal(facts, "a()"), removal(facts, "b()"))
    assert not [e for c in plan.changes for e in c.edits if isinstance(e, Wrap)]


def test_a_line_that_two_changes_put_in_one_place_is_put_there_once() -> None:
    facts = Facts("a()\nb()\nc()")
    first, second = line(facts, "a()"), line(facts, "b()")
    after = Change("rule", "main.py", 1, "after", (Insert(first, "after", "wait()"),))
    before = Change("rule", "main.py", 2, "before", (Insert(second, "before", "wait()"),))
    other = Change("rule", "main.py", 2, "other", (Insert(second, "after", "wait()"),))
    assert [c.reason for c in settled(facts, after, before, other).changes] == ["after", "other"]


def test_a_note_on_what_goes_is_given_once_in_each_file() -> None:
    facts = Facts({"main.py": "a = 1\nprint(a)\nprint(-a)", "other.py": "a = 1\nprint(a)"})
    nodes = [s for parsed in facts.files for s in parsed.tree.body[1:]]
    goes = [Change("rule", facts.program.path(n), n.lineno, "", (Remove(n),)) for n in nodes]
    said = [Remark("rule", facts.program.path(n), n, "gone", when=When.GONE, once=True) for n in nodes]
    assert settled(facts, *goes, *said).remarks == [said[0], said[2]]
