"""Types of the dense messages; docs/formats.md, "Dense messages", has every one."""

from enum import IntEnum
from typing import Final

PROTOCOL: Final = 1
"""Version of the dense messages; both sides must have the same."""

REFUSED: Final = "refused"
"""Key of a reply of a parameter server that cannot answer now, or not this client: `not_ready` or `generation`."""


class DenseRequest(IntEnum):
    """Type of a request."""

    CREATE = 90
    JOIN = 91
    FETCH = 92
    STEP = 93
    TENSORS = 94
    VARIABLE_MAKE = 95
    VARIABLE_READ = 96
    VARIABLE_CHANGE = 97
