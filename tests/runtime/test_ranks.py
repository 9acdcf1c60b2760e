"""What several processes do together."""

from tests.runtime.processes import together

test_two = together(
    "random_states",  # which begins with ranks that nobody has seeded
    *("collectives", "gradients", "loaders", "saving", "evaluation_shards", "tracking", "uncommon"),
    *("uneven_inputs", "accumulation"),
    "own_numbers",
    "divergence",
)
test_two_that_part = together("unowned")  # its last check leaves ranks that cannot go on together
test_three = together("three_ranks", processes=3)
