"""Made-up events: worlds in which the best possible prediction is known, the same at every reading."""

from monolith.data.synthetic.criteo_events import CRITEO_SCHEMA, CriteoEvents
from monolith.data.synthetic.movie_events import MOVIE_SCHEMA, MovieEvents
from monolith.data.synthetic.paced_append import EventMaker, append_forever
from monolith.data.synthetic.synthetic_source import SyntheticSource
from monolith.data.synthetic.tf_example_bytes import tf_example_bytes

__all__ = [
    "CRITEO_SCHEMA",
    "MOVIE_SCHEMA",
    "CriteoEvents",
    "EventMaker",
    "MovieEvents",
    "SyntheticSource",
    "append_forever",
    "tf_example_bytes",
]
