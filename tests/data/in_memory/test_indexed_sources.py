"""Arrays and frames give the rows they hold, as the schema types them."""

import numpy as np
import pytest
import torch

from monolith.data import OffsetError, Schema, assert_resume_is_exact
from monolith.data.columnar import ColumnError
from monolith.data.in_memory import ArraySource, FrameSource
from monolith.tensors import Ragged

DATA = {
    "uid": list(range(10)),
    "price": [i / 2 for i in range(10)],
    "tags": [list(range(i % 3)) for i in range(10)],
    "query": ["ä" * (i % 3) for i in range(10)],
}


def pandas_frame(data):
    return pytest.importorskip("pandas").DataFrame(data)


def polars_frame(data):
    return pytest.importorskip("polars").DataFrame(data)


def arrays(data):
    return {name: np.array(v) if name in ("uid", "price") else v for name, v in data.items()}


MAKERS = {
    "pandas": lambda data, *args, **options: FrameSource(pandas_frame(data), *args, **options),
    "polars": lambda data, *args, **options: FrameSource(polars_frame(data), *args, **options),
    "arrays": lambda data, *args, **options: ArraySource(arrays(data), *args, **options),
    "lists": ArraySource,
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_rows_are_those_given(make):
    source = make(DATA, 4)
    assert dict(source.schema) == {"uid": "int64", "price": "float32", "tags": "int64[]", "query": "bytes"}
    batches = list(source)
    assert [(batch.first, batch.last) for batch in batches] == [(0, 4), (4, 8), (8, 10)]
    assert [uid for batch in batches for uid in batch.columns["uid"].tolist()] == DATA["uid"]
    assert [price for batch in batches for price in batch.columns["price"].tolist()] == DATA["price"]
    assert [tags for batch in batches for tags in batch.columns["tags"].to_list()] == DATA["tags"]
    assert [bytes(q).decode() for b in batches for q in b.columns["query"].to_list()] == DATA["query"]
    assert [len(batch) for batch in make(DATA, 4, drop_remainder=True)] == [4, 4]


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_resuming_is_exact(make, batch_size):
    assert_resume_is_exact(lambda: make(DATA, batch_size))
    assert_resume_is_exact(lambda: make(DATA, batch_size).shard(2, 0))


@pytest.mark.parametrize("splits", [(2,), (3, 2), (20,)])
def test_shards_share_nothing_and_are_the_whole(make, splits):
    parts = [make(DATA, 1)]
    for split in splits:
        parts = [part.shard(split, index) for part in parts for index in range(split)]
    assert sorted(batch.first for part in parts for batch in part) == list(range(10))


def test_batches_have_their_own_memory(make):
    source = make(DATA, 5)
    for batch in source:
        batch.columns["uid"].zero_()
        batch.columns["tags"].values.zero_()
    source.restore({"row": 0})
    assert [uid for batch in source for uid in batch.columns["uid"].tolist()] == DATA["uid"]


def test_a_schema_selects_orders_and_types(make):
    (batch,) = make(DATA, 10, Schema.of(price="float32", uid="float32"))
    assert list(batch.columns) == ["price", "uid"]
    assert batch.columns["uid"].dtype == torch.float32


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"clicks": "int64"}, "no column 'clicks'; there are uid, price, tags, query"),
        ({"price": "int64"}, "'price'.*'int64'"),
        ({"tags": "int64"}, "'tags'"),
        ({"tags": "int64[2]"}, "'tags' .*0 values where"),
        ({"query": "float32"}, "'query'"),
        ({"uid": "bytes"}, "'uid'"),
        ({"uid": "int64[]"}, "'uid'"),
    ],
)
def test_what_does_not_fit_is_refused(make, schema, message):
    with pytest.raises(ValueError, match=message):
        make(DATA, 4, Schema.of(**schema))


def test_positions_that_cannot_be(make):
    source = make(DATA, 4)
    with pytest.raises(OffsetError, match="row 11, there are 10 rows"):
        source.restore({"row": 11})
    for state in ({}, {"row": -1}, {"row": "1"}, {"row": 1, "more": 1}):
        with pytest.raises(ValueError, match="the state of"):
            source.restore(state)
    with pytest.raises(ValueError, match="batch_size"):
        make(DATA, 0)


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_missing_values_of_a_frame(name):
    data = {"uid": [1, 2, 3], "price": [0.5, 1.5, None]}
    with pytest.raises(ColumnError, match="row 2: column 'price' has no value"):
        MAKERS[name](data)
    (batch,) = MAKERS[name](data, fill_missing={"price": -1})
    assert batch.columns["price"].tolist() == [0.5, 1.5, -1]
    assert dict(MAKERS[name](data, columns=["uid"]).schema) == {"uid": "int64"}


def test_a_pandas_frame_with_an_index_categories_and_arrays():
    frame = pandas_frame({"uid": [5, 6], "dense": list(np.eye(2, dtype="f4")), "label": [True, False]})
    frame["city"] = frame["uid"].map({5: "a", 6: "b"}).astype("category")
    (batch,) = FrameSource(frame.set_index("uid"), 4, Schema.of(dense="float32[2]", city="bytes", label="float32"))
    assert batch.columns["dense"].tolist() == [[1, 0], [0, 1]]
    assert batch.columns["city"].to_list() == [[97], [98]]
    assert batch.columns["label"].tolist() == [1, 0]


def test_what_is_no_frame_is_refused():
    pytest.importorskip("pyarrow")
    with pytest.raises(TypeError, match="got dict; ArraySource takes a dict"):
        FrameSource(DATA)
    with pytest.raises(ColumnError, match="mixed types"):
        FrameSource(pandas_frame({"a": [1, "x"]}))


def test_tensors_and_ragged_columns():
    columns = {
        "half": torch.arange(3).to(torch.bfloat16),
        "dense": torch.ones(3, 2, dtype=torch.float64),
        "ids": np.array([2**64 - 1, 0, 1], np.uint64),
        "flags": torch.tensor([True, False, True]),
        "tags": Ragged.from_lists([[1], [], [2, 3]]),
        "names": np.array(["a", "bc", ""]),
        "arrays": [np.array([1.0]), torch.tensor([]), [2.0, 3.0]],
    }
    schema = Schema.of(
        half="float32",
        dense="float32[2]",
        ids="int64",
        flags="int64",
        tags="int64[]",
        names="bytes",
        arrays="float32[]",
    )
    source = ArraySource(columns, 2, schema)
    assert_resume_is_exact(lambda: ArraySource(columns, 2, schema))
    assert dict(ArraySource({n: c for n, c in columns.items() if n != "arrays"}).schema) == dict(
        schema.without("arrays")
    )
    first, second = source
    assert first.columns["ids"].tolist() == [-1, 0]
    assert second.columns["tags"].to_list() == [[2, 3]] and second.columns["dense"].tolist() == [[1, 1]]
    assert second.columns["arrays"].to_list() == [[2, 3]]


def test_columns_that_cannot_be():
    with pytest.raises(ValueError, match=r"one length, got \{'a': 1, 'b': 2\}"):
        ArraySource({"a": [1], "b": [1, 2]})
    with pytest.raises(ValueError, match="event 1 has no value"):
        ArraySource({"a": [1, None]}, 4, Schema.of(a="int64"))
    with pytest.raises(ValueError, match="'a' is empty and says nothing"):
        ArraySource({"a": []})
    with pytest.raises(ValueError, match=r"shape \(1, 1, 1\)"):
        ArraySource({"a": np.zeros((1, 1, 1))})
    with pytest.raises(ValueError, match="holds complex128"):
        ArraySource({"a": np.zeros(1, complex)})
    with pytest.raises(ValueError, match="event 1 has no value"):
        ArraySource({"a": ["x", None]}, 4, Schema.of(a="bytes"))
    assert list(ArraySource({"a": []}, 4, Schema.of(a="int64[]"))) == []
