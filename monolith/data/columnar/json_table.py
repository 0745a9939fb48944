"""JSON objects as an Arrow table, with the types that a schema asks for."""

import re
from typing import Any

from monolith.data.columnar.arrow import arrow
from monolith.data.schema import ColumnType, Schema

_NUMBER_FOR_TEXT = re.compile(r"Column\(/(.*?)(?:/\[\])?\) changed from string to number")


def json_fields(schema: Schema) -> Any:
    """Return the Arrow schema that JSON values of these columns are read with."""
    return arrow().schema([(name, _value_type(kind)) for name, kind in schema.types.items()])


def read_objects(text: bytes, schema: Schema) -> Any:
    """Return the objects of some lines as a table; numbers in a column of type "hash" are whole.

    Raises:
        ArrowInvalid: A value has another type, or the text is no JSON. The caller has to call with fewer lines: those
            of one column of type "hash" may be text and numbers by turns, but not in one table.
    """
    json, pa = arrow("json"), arrow()
    reading = json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    fields = json_fields(schema)
    while True:
        parsing = json.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore")
        try:
            return json.read_json(pa.BufferReader(text), reading, parsing)
        except pa.ArrowInvalid as error:
            found = _NUMBER_FOR_TEXT.search(str(error))
            place = fields.get_field_index(found[1]) if found else -1
            if place < 0 or not schema.types[fields.names[place]].is_hash or _is_number(fields.types[place]):
                raise
            kind = schema.types[fields.names[place]]
            number = pa.list_(pa.int64()) if kind.is_list else pa.int64()
            fields = fields.set(place, pa.field(fields.names[place], number))


def _is_number(found: Any) -> bool:
    types = arrow().types
    is_integer: bool = types.is_integer(found.value_type if types.is_list(found) else found)
    return is_integer


def _value_type(kind: ColumnType) -> Any:
    pa = arrow()
    if kind.item == "uint8":
        return pa.string()
    item = pa.string() if kind.is_hash else pa.int64() if kind.item == "int64" else pa.float32()
    return pa.list_(item) if kind.is_list else item
