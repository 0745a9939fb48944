"""Rows of a file that nobody vouches for, checked before anything reads them."""

from collections.abc import Iterable
from typing import Any

from monolith.data.columnar.arrow import arrow


def check_sound(piece: Any, columns: Iterable[str]) -> None:
    """Check that these columns of a record batch stay within their buffers and count their nulls right.

    pyarrow checks little when it reads: a list that ends behind its values ends the process, or reads memory of others.
    Text need not be UTF-8, for batches have it as bytes.

    Raises:
        ArrowInvalid: An array is damaged.
    """
    for name in columns:
        _check(piece.column(name))


def _check(array: Any) -> None:
    pa = arrow()
    array.validate()  # lengths of buffers: without it the parts of an array cannot be looked at
    if isinstance(array, pa.ExtensionArray):
        _check(array.storage)
    elif isinstance(array, pa.DictionaryArray):
        _check(array.dictionary)
        _check(array.indices)
        pa.DictionaryArray.from_arrays(array.indices, pa.nulls(len(array.dictionary)), safe=True)
    else:
        _as_bytes(array).validate(full=True)


def _as_bytes(array: Any) -> Any:
    """Return text as bytes, which need not be UTF-8; other arrays as they are."""
    pa = arrow()
    for text, plain in (
        (pa.string(), pa.binary()),
        (pa.large_string(), pa.large_binary()),
        (pa.string_view(), pa.binary_view()),
    ):
        if array.type == text:
            return array.view(plain)
    return array
