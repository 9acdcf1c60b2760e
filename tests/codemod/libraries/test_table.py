"""Lookups: by qualified name, by pattern, by kind of object and member; and that the data are well formed."""

from __future__ import annotations

from collections import Counter

import pytest

from accelify.codemod.libraries import kinds, table
from accelify.codemod.libraries.row import Device, Effect, Role, Row, Rows, Same, Trait, row_of


def of(name: str) -> Row:
    row = table.function(name)
    assert row is not None, name
    return row


def of_member(kind: str, name: str) -> Row:
    row = table.member(kind, name)
    assert row is not None, f"<{kind}>.{name}"
    return row


def test_a_name_without_a_row_is_unknown() -> None:
    for name in ("mylib.train", "torch.no_such_function", "train", "", None):
        assert table.function(name) is None
    assert table.member("tensor", "no_such_method") is None
    assert table.member("no_such_kind", "append") is None
    assert table.member(None, "append") is None
    assert table.members("no_such_method") == ()


def test_a_pattern_lists_no_name() -> None:
    assert table.is_listed("torch.nn.Linear")
    assert table.is_listed("tqdm.tqdm")
    assert table.function("torchvision.transforms.tqdm") is not None
    assert not table.is_listed("torchvision.transforms.tqdm")
    assert not table.is_listed("torch.nn.enumerate")


def test_a_name_has_the_facts_that_stand_above_it() -> None:
    zeros = of("torch.zeros")
    assert (zeros.role, zeros.returns, zeros.device) == (Role.FACTORY, "tensor", Device.OPTION)
    assert zeros.is_pure
    assert zeros.has(Trait.SHAPE_ONLY)
    assert of("torch.randn").effects == {Effect.DRAWS_TORCH}


def test_a_builtin_has_no_module_or_builtins() -> None:
    assert of("print") is of("builtins.print")
    assert of("print").effects == {Effect.PRINTS}


def test_the_longest_pattern_wins() -> None:
    assert of("torch.optim.AdamW").role is Role.OPTIMIZER
    assert of("torch.optim.lr_scheduler.StepLR").role is Role.SCHEDULER
    assert of("torchmetrics.Accuracy").role is Role.METRIC
    assert of("torchmetrics.functional.accuracy").role is None


def test_a_name_wins_over_a_pattern() -> None:
    assert of("torch.nn.CrossEntropyLoss").role is Role.LOSS
    assert of("torch.nn.NewFangledLoss").role is Role.LOSS
    assert of("torch.nn.quantized.Linear").role is Role.MODEL
    assert of("numpy.fft.fft").is_pure
    assert not of("numpy.copyto").is_pure


def test_a_pattern_may_begin_with_a_star() -> None:
    assert of("anybody.Net.from_pretrained").role is Role.MODEL
    assert of("transformers.AutoTokenizer.from_pretrained").role is None


def test_names_are_taken_out_of_a_pattern() -> None:
    assert of("torch.nn.functional.cross_entropy").role is Role.LOSS
    assert table.function("torch.nn.functional.NewFangledLoss") is None


def test_a_pattern_with_nothing_between_its_ends() -> None:
    assert of("transformers.AdamW").role is Role.OPTIMIZER
    assert of("transformers.optimization.AdamW").role is Role.OPTIMIZER


@pytest.mark.parametrize(
    ("name", "documented"),
    [
        ("torch.nn.modules.loss.CrossEntropyLoss", "torch.nn.CrossEntropyLoss"),
        ("torch.utils.data.dataloader.DataLoader", "torch.utils.data.DataLoader"),
        ("torch.random.manual_seed", "torch.manual_seed"),
        ("torch.cuda.random.manual_seed_all", "torch.cuda.manual_seed_all"),
        ("torch.functional.einsum", "torch.einsum"),
        ("torch.autograd.grad_mode.no_grad", "torch.autograd.no_grad"),
        ("pytorch_lightning.seed_everything", "lightning.pytorch.seed_everything"),
        ("gymnasium.make", "gym.make"),
        ("pylab.plot", "matplotlib.pyplot.plot"),
        ("cPickle.dump", "pickle.dump"),
        ("imageio.v2.imwrite", "imageio.imwrite"),
    ],
)
def test_other_names_of_the_same(name: str, documented: str) -> None:
    assert of(name) is of(documented)


def test_a_kind_has_the_members_of_what_it_is_based_on() -> None:
    assert of_member("dropout", "eval") is of_member("module", "eval")
    assert of_member("dropout", "forward").effects == {Effect.DRAWS_IN_TRAINING}
    assert of_member("deque", "append").keeps == ("0",)
    assert of_member("counter", "update").keeps == ("0",)
    assert table.is_kind("dropout", "module")
    assert not table.is_kind("module", "dropout")
    assert not table.is_kind(None, "module")


def test_methods_of_tensors_that_end_in_an_underscore_change_it() -> None:
    for name in ("add_", "uniform_", "copy_", "some_future_method_"):
        assert "self" in of_member("tensor", name).mutates
        assert of_member("tensor", name).returns == "self"
    assert of_member("tensor", "add").mutates == ()


def test_members_of_any_kind() -> None:
    assert {row.mutates for row in table.members("append")} == {("self",), ()}  # a table gives another
    assert any(row.keeps for row in table.members("update"))
    assert any(not row.keeps for row in table.members("update"))


def test_what_a_row_holds_is_in_what_it_returns_or_in_the_object_itself() -> None:
    assert of_member("list", "insert").keeps == ("1",)
    assert of_member("dict", "setdefault").keeps == ("1",)
    assert of_member("queue", "put").keeps == ("0",)
    assert of("torch.optim.SGD").keeps == ("0",)


def test_whether_the_result_is_the_same_follows_from_the_effects() -> None:
    assert of("torch.rand").same is Same.DRAW
    assert of("time.time").same is Same.NO
    assert of("torch.add").same is Same.ARGUMENTS
    assert of("torch.distributed.get_rank").same is Same.NO
    assert of("torch.distributed.all_reduce").same is Same.YES


def test_rows_of_a_batch() -> None:
    assert of("torch.sum").rows is Rows.SUM
    assert of_member("tensor", "mean").rows is Rows.MEAN
    assert of("torch.cat").rows is Rows.CONCATENATES
    assert of("torch.nn.functional.cross_entropy").rows is Rows.MEAN
    assert of("random.shuffle").rows is Rows.SHUFFLES


def test_names_by_what_is_asked_of_their_rows() -> None:
    seeds = set(table.names(lambda row: row.role is Role.SEED))
    assert {"torch.manual_seed", "numpy.random.seed", "random.seed", "transformers.set_seed"} <= seeds
    assert "torch.zeros" not in seeds


def test_more_facts_on_a_name_that_has_a_row() -> None:
    detach = of_member("tensor", "detach")
    assert {Trait.SAME_VALUES, Trait.LEAVES_GRAPH, Trait.VIEW} <= detach.traits
    assert detach.rows is Rows.EACH


def test_the_kind_that_a_call_returns() -> None:
    assert table.kind_made_by("torch.zeros") == "tensor"
    assert table.kind_made_by("torch.compile") is None
    assert table.kind_made_by("mylib.make") is None


# The data.


def test_more_facts_are_said_only_of_names_that_have_a_row() -> None:
    for place, facts, words, _source in table.lines():
        if facts[0] == "+":
            others = {w for p, f, each, _ in table.lines() if p == place and f[0] != "+" for w in each.split()}
            assert set(words.split()) <= others, place
            assert "*" not in words, "a pattern's facts stand in one place"


def test_every_row_can_be_read() -> None:
    for facts in {facts for _name, facts, _source in table.entries()}:
        row_of(facts)


def test_no_name_stands_twice() -> None:
    counts = Counter(name for name, _facts, _source in table.entries())
    assert [name for name, count in counts.items() if count > 1] == []


def test_a_mistake_in_the_data_is_an_error() -> None:
    for facts in ("colour=red", "role=king", "effects=prints+sings", "rows=all", "traits=big"):
        with pytest.raises(ValueError, match=r".+"):
            row_of(facts)


def test_every_kind_that_is_returned_or_based_on_is_known() -> None:
    known = {place[1:-1] for place, *_ in table.lines() if place[0] == "<"} | kinds.BASED_ON.keys()
    known |= {"self", "argument", "context"}
    rows = [row_of(facts) for _name, facts, _source in table.entries()]
    returned = {row.returns for row in rows if row is not None} - {None}
    assert returned | set(kinds.BASED_ON.values()) <= known
