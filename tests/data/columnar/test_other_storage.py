"""Files of other storage are listed, read and returned to like those of this machine."""

import fsspec
import pytest

from monolith.data import Schema, assert_resume_is_exact
from monolith.data.columnar import CsvSource, ParquetSource

pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")


@pytest.fixture
def storage():
    storage = fsspec.filesystem("memory")
    storage.mkdirs("/columnar", exist_ok=True)
    yield storage
    storage.rm("/columnar", recursive=True)


def test_parquet(storage):
    for name, uids in {"a": [1, 2, 3], "b": [4]}.items():
        with storage.open(f"/columnar/{name}.parquet", "wb") as file:
            pq.write_table(pa.table({"uid": uids}), file, row_group_size=2)
    source = ParquetSource("memory://columnar/*.parquet", 2)
    assert source.files == ("memory:///columnar/a.parquet", "memory:///columnar/b.parquet")
    assert [batch.columns["uid"].tolist() for batch in source] == [[1, 2], [3], [4]]
    assert_resume_is_exact(lambda: ParquetSource("memory://columnar/*.parquet", 2))


def test_csv(storage):
    with storage.open("/columnar/a.csv", "wb") as file:
        file.write(b"uid\n1\n2\n3\n")
    schema = Schema.of(uid="int64")
    assert_resume_is_exact(lambda: CsvSource("memory://columnar/a.csv", schema, batch_size=2))
    with pytest.raises(FileNotFoundError, match="memory://columnar/b.csv"):
        CsvSource("memory://columnar/b.csv", schema)
