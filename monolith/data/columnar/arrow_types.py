"""Which column types Arrow types become, by themselves and on demand."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.column_error import ColumnError
from monolith.data.schema import ColumnType, Dtype, Schema

_SPECIAL = re.compile(r"__(.+)__")


def column_name(stored: str) -> str:
    """Return the name of a column in batches: `__LABEL__` and other fields of a LineId go without underscores.

    >>> column_name("__LABEL__"), column_name("__req_time__"), column_name("uid")
    ('label', 'req_time', 'uid')
    """
    special = _SPECIAL.fullmatch(stored)
    return special[1].lower() if special else stored


def stored_names(stored: Sequence[str], schema: Schema) -> dict[str, str]:
    """Return, for each column of a schema, the name it is stored under.

    >>> stored_names(["uid", "__LABEL__"], Schema.of(label="float32", uid="int64"))
    {'label': '__LABEL__', 'uid': 'uid'}
    """
    known = {column_name(name): name for name in stored} | {name: name for name in stored}
    missing = [name for name in schema.names if name not in known]
    if missing:
        raise ColumnError(f"there is no column {', '.join(map(repr, missing))}; there are {', '.join(stored)}")
    _check_single(stored, [known[name] for name in schema.names])
    return {name: known[name] for name in schema.names}


def infer_schema(fields: Any, columns: Sequence[str] | None = None) -> Schema:
    """Return the schema that an Arrow schema stands for, of all columns or of the named ones.

    Integers, booleans and times become int64, floats float32, text and binary bytes, lists "[]", lists of fixed size
    "[N]".

    Raises:
        ColumnError: A column is not there, or no type of a schema can hold it.
    """
    for name in columns or ():
        if name not in fields.names:
            raise ColumnError(f"there is no column {name!r}; there are {', '.join(fields.names)}")
    if not fields.names:
        raise ColumnError("there is no column at all")
    _check_single(fields.names, fields.names if columns is None else columns)
    chosen = [fields.field(name) for name in (fields.names if columns is None else columns)]
    return Schema(tuple((column_name(field.name), _infer(field.name, field.type)) for field in chosen))


def check_types(fields: Any, schema: Schema, stored: Mapping[str, str]) -> None:
    """Reject columns that cannot become what the schema says, before any row is read."""
    for name, kind in schema.types.items():
        found = fields.field(stored[name]).type
        if not _can_become(found, kind):
            raise ColumnError(
                f"column {stored[name]!r} holds {found}, which cannot be read as {dict(schema)[name]!r}; "
                f"{_advice(found)}"
            )


def plain_type(found: Any) -> Any:
    """Return the type of the values themselves, without a dictionary or an extension around them."""
    types = arrow().types
    if types.is_dictionary(found):
        return plain_type(found.value_type)
    return plain_type(found.storage_type) if isinstance(found, arrow().BaseExtensionType) else found


def is_list(found: Any) -> bool:
    """Return whether a type is a list of any kind."""
    types = arrow().types
    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    return any(kind(found) for kind in kinds)


def is_bytes(found: Any) -> bool:
    """Return whether a type is text or binary."""
    types = arrow().types
    kinds = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary)
    return any(kind(found) for kind in (*kinds, types.is_binary_view, types.is_fixed_size_binary))


def _check_single(stored: Sequence[str], wanted: Sequence[str]) -> None:
    twice = [name for name, count in Counter(stored).items() if count > 1 and name in wanted]
    if twice:
        raise ColumnError(f"there are several columns {', '.join(map(repr, twice))}; which one is meant?")


def _infer(name: str, found: Any) -> Dtype:
    plain = plain_type(found)
    if is_bytes(plain):
        return "bytes"
    item = _item_type(plain_type(plain.value_type) if is_list(plain) else plain)
    if item is None:
        raise ColumnError(f"column {name!r} holds {found}, which {_advice_of_lists(plain)}")
    if arrow().types.is_fixed_size_list(plain):
        return f"{item}[{plain.list_size}]"
    return f"{item}[]" if is_list(plain) else item


def _advice_of_lists(plain: Any) -> str:
    if is_list(plain) and is_bytes(plain_type(plain.value_type)):
        return "only 'hash[]' can hold: give a schema, or leave it out with columns="
    return "no column type can hold; leave it out with columns="


def _item_type(found: Any) -> str | None:
    types = arrow().types
    if types.is_integer(found) or types.is_boolean(found) or types.is_temporal(found):
        return "int64"
    return "float32" if types.is_floating(found) else None


def _can_become(found: Any, kind: ColumnType) -> bool:
    plain = plain_type(found)
    if arrow().types.is_null(plain):
        return True  # every value is missing: whether that is an error is for the rows to say
    if kind.item == "uint8":
        return is_bytes(plain)
    if is_list(plain) != kind.is_list:
        return False
    if kind.is_hash:
        text = plain_type(plain.value_type) if kind.is_list else plain
        return is_bytes(text) or arrow().types.is_integer(text) or arrow().types.is_null(text)
    item = _item_type(plain_type(plain.value_type) if kind.is_list else plain)
    return item is not None and (item == kind.item or kind.item == "float32")


def _advice(found: Any) -> str:
    plain = plain_type(found)
    if is_list(plain) and is_bytes(plain_type(plain.value_type)):
        return "say 'hash[]' in the schema"
    try:
        inferred = _infer("", found)
    except ColumnError:
        return "no column type can hold it"
    return f"say {inferred!r} in the schema" + (", or 'hash' for ids of texts" if inferred == "bytes" else "")
