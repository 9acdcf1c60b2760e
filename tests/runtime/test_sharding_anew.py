"""An iterator that begins anew whenever it is asked for its iterator is dealt out once."""

from __future__ import annotations

from accelify.runtime.sharding import shard


class Anew:
    def __iter__(self) -> Anew:
        self.at = 0
        return self

    def __next__(self) -> int:
        if self.at == 6:
            raise StopIteration
        self.at += 1
        return self.at


def test_an_iterator_that_begins_anew_is_dealt_out_once() -> None:
    assert [list(shard(Anew(), rank, 2)) for rank in range(2)] == [[1, 3, 5], [2, 4, 6]]
