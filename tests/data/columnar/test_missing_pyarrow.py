"""Without pyarrow, JSON is refused where a source is made, not at the first record: that may come hours later."""

import sys

import pytest

from monolith.data import Schema
from monolith.data.columnar import JsonLinesSource
from monolith.data.columnar.json_records import JsonParser

MAKERS = {
    "parser": lambda: JsonParser(Schema.of(uid="int64")),
    "lines": lambda: JsonLinesSource("clicks.jsonl", Schema.of(uid="int64")),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_json_is_refused_at_once(maker, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"JSON .* 'pyarrow', .* pip install 'monolith-recsys\[columnar\]'"):
        MAKERS[maker]()
