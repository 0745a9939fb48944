"""Synchronous training: the ranks of a job step together, and each owns the rows of a range of hashes."""

from monolith.parallel.ranks.exchange import Exchange
from monolith.parallel.ranks.rank_group import RankGroup, RankPlace
from monolith.parallel.ranks.rank_tables import RankTables
from monolith.parallel.ranks.served_rank_tables import ServedRankTables

__all__ = ["Exchange", "RankGroup", "RankPlace", "RankTables", "ServedRankTables"]
