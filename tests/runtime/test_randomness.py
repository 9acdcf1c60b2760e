from tests.runtime.world import together

test_randomness = together("random_states")
