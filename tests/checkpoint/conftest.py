"""How often the power goes."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--power-losses", type=int, default=None, help="so many moments of a series of saves are tried")
    parser.addoption("--power-losses-seed", type=int, default=0, help="which moments")
