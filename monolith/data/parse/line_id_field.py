"""The fields of a LineId as columns."""

from google.protobuf.descriptor import FieldDescriptor

from monolith.data.parse.column_request import ColumnRequest
from monolith.protos.line_id_pb2 import LineId

LINE_ID_FIELDS = frozenset(LineId.DESCRIPTOR.fields_by_name)
"""Names of all fields of a LineId."""


def line_id_column(name: str, width: int | None = None) -> ColumnRequest:
    """Return the request for a field of the line id.

    Without a width, a repeated field is ragged and another one a plain number or string. With one, numbers come as
    [rows, width], filled up with zeros.

    >>> line_id_column("actions").dtype, line_id_column("actions", 2).dtype, line_id_column("user_id").dtype
    ('int64[]', 'int64[2]', 'bytes')
    """
    field = LineId.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        raise ValueError(f"{name} is not in line id, pls check!")
    missing = 1.0 if name == "sample_rate" else 0.0
    if field.type == FieldDescriptor.TYPE_STRING:
        if width not in (None, 1):
            raise ValueError(f"{name} of the line id is one string, a shape of {width} is not possible")
        return ColumnRequest(name=name, dtype="bytes", source="line_id")
    item = "float32" if field.type == FieldDescriptor.TYPE_FLOAT else "int64"
    if width is not None:
        dtype = f"{item}[{width}]"
    else:
        dtype = f"{item}[]" if field.is_repeated else item
    return ColumnRequest(name=name, dtype=dtype, source="line_id", missing=missing)
