from tests.runtime.world import together

test_shares = together("shares")
