"""What several processes do together."""

from tests.runtime.processes import together

test_two = together(
    "random_states",  # which begins with ranks that nobody has seeded
    *("collectives", "gradients", "loaders", "unowned", "saving", "evaluation_shards", "tracking", "uncommon"),
    *("uneven_inputs", "accumulation"),
    "own_numbers",
    "divergence",
)
test_three = together("three_ranks", processes=3)
