"""Code that only a stranger names."""

from tests.data_service.numbered_input import make_source

__all__ = ["make_source"]
