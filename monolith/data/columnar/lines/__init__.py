"""Files in which every line is an event: CSV and JSON lines."""

from monolith.data.columnar.lines.csv_source import CsvSource
from monolith.data.columnar.lines.json_lines_source import JsonLinesSource

__all__ = ["CsvSource", "JsonLinesSource"]
