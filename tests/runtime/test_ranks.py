"""What several processes do together."""

from tests.runtime.world import together

test_two = together(
    "random_states",  # which begins with ranks that nobody has seeded
    *("collectives", "gradients", "loaders", "loose", "saving", "shares", "tracking", "uncommon", "uneven", "windows"),
    "drift",
)
test_three = together("three", processes=3)
