"""How many rounds, and where it is written down."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=20, help="train and compare so often")
    parser.addoption("--rounds-seed", type=int, default=0, help="which random rounds")
    parser.addoption("--rounds-report", default=None, help="write what was done and found to this JSON file")
