"""The option that rewrites the expected files of `fixtures/`."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-fixtures",
        action="store_true",
        help="write what comes out now as the expected files of fixtures/; read that diff like code",
    )


@pytest.fixture
def update_fixtures(request: pytest.FixtureRequest) -> bool:
    """Whether expected files are to be written instead of compared."""
    return bool(request.config.getoption("--update-fixtures"))
