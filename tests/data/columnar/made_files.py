"""A made-up table, and files of it in each format."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZES = (23, 10, 0, 1)


def made_table(rows, seed=0):
    draw = np.random.default_rng(seed)
    lengths = draw.integers(0, 4, rows)
    return pa.table(
        {
            "uid": pa.array(draw.integers(0, 100, rows), pa.int32()),
            "price": pa.array(draw.random(rows), pa.float64()),
            "fid": pa.array(draw.integers(0, 2**64, rows, dtype=np.uint64)),
            "tags": pa.array([draw.integers(-9, 9, n).tolist() for n in lengths], pa.list_(pa.int64())),
            "scores": pa.array([draw.random(n).tolist() for n in lengths[::-1]], pa.large_list(pa.float32())),
            "query": pa.array(["ä" * int(n) for n in draw.integers(0, 4, rows)], pa.string()),
            "dense": pa.array(draw.random((rows, 3)).astype("f4").tolist(), pa.list_(pa.float32(), 3)),
            "city": pa.array([f"c{n}" for n in draw.integers(0, 3, rows)]).dictionary_encode(),
            "__LABEL__": pa.array(draw.integers(0, 2, rows), pa.bool_()),
        }
    )


def write_parquet(table, path):
    pq.write_table(table, path, row_group_size=4)


def write_arrow(table, path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, 4)


def write_stream(table, path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, 4)


def write_json(table, path):
    rows = table.select(["uid", "price", "tags", "scores", "query", "dense"]).to_pylist()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_csv(table, path):
    cells = [
        [str(row["uid"]), repr(row["price"]), "|".join(map(str, row["tags"])), f'"{row["query"]}, ""x"""']
        for row in table.to_pylist()
    ]
    path.write_text("uid,price,tags,query\n" + "".join(",".join(line) + "\n" for line in cells))


def events_of(source):
    """Return all events as dicts of plain values; float32 as the float it is."""
    events = []
    for batch in source:
        columns = {name: c.to_list() if hasattr(c, "to_list") else c.tolist() for name, c in batch.columns.items()}
        events += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return events


def plain(value):
    """Return a value of a table as an event has it."""
    if isinstance(value, str):
        return list(value.encode())
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(np.float32(value))
    return int(np.uint64(value).view(np.int64)) if value >= 2**63 else value
