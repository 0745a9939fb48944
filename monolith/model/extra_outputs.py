"""Predictions beside the heads of a model; in an export, each set of them is a signature of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from torch import Tensor

SERVING_DEFAULT: Final = "serving_default"
"""The signature of a request that names none: the heads of the model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtraOutputs:
    """What one call of `MonolithModel.add_extra_output` adds."""

    outputs: Mapping[str, Tensor]
    """By the name that they have in their signature."""

    head_name: str | None = None
    """The head that they belong to, for those who read the metadata of an export."""

    head_type: str | None = None
    """What that head is, such as "classification"; for the same readers."""


def output_name(signature: str, output: str) -> str:
    """Return what an output of a signature is called among all predictions of the model.

    >>> output_name("vectors", "user"), output_name("score", "score")
    ('vectors/user', 'score')
    """
    return output if output == signature else f"{signature}/{output}"
