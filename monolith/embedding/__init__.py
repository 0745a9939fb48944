"""Ids to rows: tables, and what they are configured with.

The configuration classes of :mod:`monolith.embedding.entry` are at hand here too.
"""

from monolith.embedding import entry as _entry
from monolith.embedding.entry import *  # noqa: F403 - the list is entry.__all__

__all__ = _entry.__all__
