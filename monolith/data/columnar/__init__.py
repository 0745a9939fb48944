"""Files of columns or of lines: Parquet, Arrow IPC, CSV and JSON lines.

Reading needs pyarrow, but for CSV: ``pip install 'monolith-recsys[columnar]'``. Importing this package does not.
"""

from monolith.data.columnar.arrow_source import ArrowSource
from monolith.data.columnar.column_error import ColumnError
from monolith.data.columnar.lines import CsvSource, JsonLinesSource
from monolith.data.columnar.parquet_source import ParquetSource

__all__ = ["ArrowSource", "ColumnError", "CsvSource", "JsonLinesSource", "ParquetSource"]
