from tests.runtime.world import together

test_uncommon = together("uncommon")
