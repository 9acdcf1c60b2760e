from tests.runtime.world import together

test_three = together("three", processes=3)
