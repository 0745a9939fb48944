"""Look into snapshots without a model: sizes, rows, differences; take rows out, and bring foreign ones in."""

from monolith.checkpoint.inspect.differences import SnapshotDifference, TableDifference, diff_snapshots
from monolith.checkpoint.inspect.snapshot_summary import SnapshotSummary, TableSummary, summarize
from monolith.checkpoint.inspect.table_files import Rows, TableFiles

__all__ = [
    "Rows",
    "SnapshotDifference",
    "SnapshotSummary",
    "TableDifference",
    "TableFiles",
    "TableSummary",
    "diff_snapshots",
    "summarize",
]
