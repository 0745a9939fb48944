"""What requests to an export have: the columns of the training source, or those that the user names."""

from collections.abc import Callable
from dataclasses import dataclass

from monolith.data import Schema


@dataclass(frozen=True, slots=True)
class ServingInputReceiver:
    """The columns of requests, any number of examples at a time.

    >>> ServingInputReceiver(Schema.of(uid="int64", title="hash")).features.names
    ('uid', 'title')
    """

    features: Schema
    """What `model_fn` may read to predict. Inputs are those of them that it does read. The schema of a source of
    serialized records lets requests have such records too."""

    def __post_init__(self) -> None:
        """Reject what would fail only when it is traced."""
        if not isinstance(self.features, Schema):
            raise TypeError(
                f"ServingInputReceiver takes a Schema, got {type(self.features).__name__}; write "
                "Schema.of(uid='int64', ...), or take the schema of a source"
            )


ServingInputReceiverFn = Callable[[], ServingInputReceiver | None]


def requests_schema(
    own: ServingInputReceiverFn, source_schema: Callable[[], Schema], given: ServingInputReceiverFn | None = None
) -> Schema:
    """Return the columns of requests: those that a caller's function names, else the model's own, else the source's.

    Args:
        own: `MonolithModel.serving_input_receiver_fn` of the model; None stands for the source.
        source_schema: returns the columns of the training source; called only if they are needed.
        given: the caller's function; a ValueError if it does not say.
    """
    found = own() if given is None else given()
    if found is None and given is None:
        return source_schema()
    if not isinstance(found, ServingInputReceiver):
        raise ValueError(
            f"serving_input_receiver_fn must return a monolith.model.ServingInputReceiver, got {found!r}; an export "
            "needs to know the columns of requests"
        )
    return found.features
