from tests.runtime.world import together

test_loose = together("loose")
