from tests.runtime.world import together

test_uneven = together("uneven")
