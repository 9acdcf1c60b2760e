from tests.runtime.world import together

test_collectives = together("collectives")
