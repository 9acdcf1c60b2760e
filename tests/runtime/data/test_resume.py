"""A resumed run is the uninterrupted one, bit for bit; on another number of processes it sees what is left, once."""

import collections
import json
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from accelify.runtime import Accelerator, Environment
from tests.runtime import generators
from tests.runtime.processes import launch_forked, together
from tests.runtime.training import loader_of, seed, train

KINDS = (
    "sequential",
    "shuffle",
    "generator",
    "subset",
    "weighted",
    "replacement",
    "drop_last",
    "drawing",
    "iterable",
    "pairs",
)

test_two_processes_resume = together("resuming")


def alone():
    return Accelerator(cpu=True, environment=Environment())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("resumes", [[3], [7], [10], [3, 5], [4, 11]])
def test_one_process_resumes_bit_for_bit(kind, resumes, tmp_path):
    check_resumes(kind, 0, resumes, tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "drawing"])
def test_one_process_resumes_bit_for_bit_with_workers(kind, tmp_path):
    check_resumes(kind, 2, [4, 11], tmp_path)


@pytest.mark.parametrize("kind", ["shuffle", "generator", "pairs"])
@pytest.mark.parametrize("resumes", [[8], [11, 13]])
def test_one_process_resumes_bit_for_bit_with_workers_that_live_on(kind, resumes, tmp_path):
    """8 is the last batch of an epoch."""
    check_resumes(kind, "persistent", resumes, tmp_path, epochs=3)


@pytest.mark.parametrize("workers", [2, "persistent"])
def test_what_workers_draw_is_drawn_again(workers, tmp_path):
    check_resumes("augmented", workers, [3, 6], tmp_path, epochs=1 if workers == "persistent" else 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_goes_on_where_its_state_was_taken(workers):
    torch.manual_seed(3)
    loader = alone().prepare(DataLoader(range(12), batch_size=2, shuffle=True, num_workers=workers))
    seen, state = [], {}
    for batch in loader:
        seen.append(batch.tolist())
        if len(seen) == 2:
            state = loader.state_dict()
    torch.manual_seed(4)
    other = alone().prepare(DataLoader(range(12), batch_size=2, shuffle=True, num_workers=workers))
    other.load_state_dict(state)
    assert [batch.tolist() for batch in other] == seen[2:]
    assert len(list(other)) == 6


class Counted(torch.utils.data.Dataset):
    """Notes in a file what is fetched, in whichever process."""

    def __init__(self, path, draws):
        self.path, self.draws = path, draws

    def __len__(self):
        return 60

    def __getitem__(self, index):
        with self.path.open("a") as file:
            file.write(f"{index}\n")
        if self.draws:
            torch.rand(1)
        return index


@pytest.mark.parametrize("draws", [False, True])
def test_what_draws_nothing_is_not_fetched_again(draws, tmp_path):
    def loader(accelerator):
        data = Counted(tmp_path / "fetched", draws)
        started = lambda worker: worker_sees.append(torch.utils.data.get_worker_info().dataset is data)  # noqa: E731
        worker_sees = []
        return accelerator.prepare(DataLoader(data, batch_size=2, num_workers=2, worker_init_fn=started))

    accelerator = alone()
    for number, _ in enumerate(loader(accelerator), 1):
        if number == 25:
            accelerator.save_state(tmp_path / "checkpoint")
            break
    (tmp_path / "fetched").unlink()
    accelerator = alone()
    rest = loader(accelerator)
    accelerator.load_state(tmp_path / "checkpoint")
    assert [batch.tolist() for batch in rest] == [[i, i + 1] for i in range(50, 60, 2)]
    fetched = [int(line) for line in (tmp_path / "fetched").read_text().split()]
    assert set(range(50, 60)) <= set(fetched)
    assert len(fetched) == 60 if draws else len(fetched) <= 24


def test_workers_that_have_drawn_in_earlier_epochs_cannot_be_brought_back(tmp_path):
    train(alone(), "augmented", "persistent", 2, [(11, str(tmp_path))], 11)
    with pytest.warns(UserWarning, match="draws random numbers in workers that live on"):
        train(alone(), "augmented", "persistent", 2, load=str(tmp_path))


def test_workers_that_live_on_cannot_be_brought_back_to_a_stream(tmp_path):
    accelerator = alone()
    loader = accelerator.prepare(DataLoader(generators.Stream(), batch_size=2, num_workers=1, persistent_workers=True))
    list(loader)
    accelerator.save_state(str(tmp_path / "here"))
    with pytest.warns(UserWarning, match="persistent_workers"):
        accelerator.load_state(str(tmp_path / "here"))


@pytest.mark.parametrize("kind", generators.LOADERS)
def test_generators_of_their_own_go_on(kind, tmp_path):
    generators.assert_goes_on(kind, alone, tmp_path)


def check_resumes(kind, workers, resumes, folder, epochs=2):
    whole = train(alone(), kind, workers, epochs)
    parts, load = [], None
    for number, step in enumerate(resumes):
        target = str(folder / str(step))
        # Seeded differently, so that nothing but the checkpoint can bring the states back.
        part = train(alone(), kind, workers, epochs, [(step, target)], step, load, seeded=number)
        parts += part["seen"]
        load = target
    last = train(alone(), kind, workers, epochs, load=load, seeded=9)
    assert parts + last["seen"] == whole["seen"]
    assert {**last, "seen": None} == {**whole, "seen": None}


RESIZED = ("shuffle", "weighted", "pairs", "iterable", "by hand")


def counts(*results):
    return collections.Counter(sample for result in results for _, _, batch in result["seen"] for sample in batch)


def on_two(folder, runs):
    """What each of these runs gave on both ranks."""
    done = launch_forked(["-m", "tests.runtime.training", json.dumps({"runs": runs, "out": str(folder)})], 2, folder)
    assert [status for status, _ in done] == [0, 0], done
    return list(zip(*(json.loads(Path(folder, str(rank)).read_text()) for rank in range(2)), strict=True))


def run_of(kind, folder, **options):
    return {"kind": kind, "workers": 0, "epochs": 1, "load" if "seeded" in options else "saves": folder, **options}


def test_one_process_goes_on_where_two_were_and_two_where_one_was(tmp_path):
    ones, twos = ({kind: str(tmp_path / f"{kind} {count}") for kind in RESIZED} for count in (1, 2))
    epochs = [train(alone(), **run_of(kind, ())) for kind in RESIZED]
    of_one = []
    for kind, target in ones.items():
        # A DistributedSampler's ranks can begin only where all of them would.
        step = 4 if kind == "by hand" else 5
        of_one.append(train(alone(), **run_of(kind, [(step, target)], stop=step)))
    begun = [run_of(kind, [(2, target)], stop=2) for kind, target in twos.items()]
    of_two = on_two(tmp_path, [*begun, *(run_of(kind, target, seeded=3) for kind, target in ones.items())])

    for (kind, target), epoch, before in zip(twos.items(), epochs, of_two, strict=False):
        after = train(alone(), **run_of(kind, target, seeded=3))
        assert counts(*before, after) == counts(epoch), kind
    for kind, epoch, before, after in zip(RESIZED, epochs, of_one, of_two[len(RESIZED) :], strict=True):
        seen, whole = counts(before, *after), counts(epoch)
        assert seen >= whole, kind
        # A few rows make the shares of the last step equal, as at any epoch's end.
        assert (seen - whole).total() <= 3, kind


def test_two_loaders_side_by_side_resume_bit_for_bit(tmp_path):
    """Each draws its workers' seed when it begins, and its order at the first batch: the two take turns."""

    def run(stop=None, load=None):
        seed(0 if load is None else 3)
        accelerator = alone()
        first, second = accelerator.prepare(loader_of("shuffle", 0), loader_of("weighted", 0))
        if load is not None:
            accelerator.load_state(load)
        seen = []
        for epoch in range(first.iteration, 2):
            for (a, _), (b, _) in zip(first, second, strict=True):
                seen.append((epoch, a.tolist(), b.tolist()))
                if stop is not None and len(seen) == stop:
                    accelerator.save_state(tmp_path / "checkpoint")
                    return seen
        return seen

    whole = run()
    assert run(stop=11) + run(load=tmp_path / "checkpoint") == whole


def test_skipping_by_hand_does_not_skip_twice(tmp_path):
    whole = train(alone(), "shuffle", 0, 1)["seen"]
    target = str(tmp_path / "checkpoint")
    train(alone(), "shuffle", 0, 1, [(3, target)], 3)
    accelerator = alone()
    loader, counter, model = load_by_hand(accelerator, target)
    rest = [index.tolist() for index, _ in accelerator.skip_first_batches(loader, 3)]
    assert rest == [batch for _, _, batch in whole[3:]]
    assert counter.steps == 3
    assert model is not None


def test_saved_at_the_last_batch_and_counted_by_hand_no_epoch_is_lost(tmp_path):
    whole = train(alone(), "shuffle", 0, 2)["seen"]
    steps = len(whole) // 2
    target = str(tmp_path / "checkpoint")
    train(alone(), "shuffle", 0, 2, [(steps, target)], steps)
    accelerator = alone()
    loader, counter, _ = load_by_hand(accelerator, target)
    epoch, rest = divmod(counter.steps, len(loader))
    assert (epoch, rest) == (1, 0)
    assert len(list(accelerator.skip_first_batches(loader, rest))) == steps
    assert loader.iteration == 2


def load_by_hand(accelerator, target):
    import torch

    from tests.runtime.training import Counter, loader_of

    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
    )
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    *_, loader = accelerator.prepare(model, optimizer, scheduler, loader_of("shuffle", 0))
    counter = Counter()
    accelerator.register_for_checkpointing(counter)
    accelerator.load_state(target)
    return loader, counter, model
