"""How often processes are killed, and where it is written down."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=None, help="kill -9 so often; by default a few times")
    parser.addoption("--kills-seed", type=int, default=0, help="which random instants")
    parser.addoption("--kills-report", default=None, help="write what was done and found to this JSON file")
