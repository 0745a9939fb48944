"""InputConfig: what the settings of a run say about its data, for sources whose code leaves it open."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from monolith.data.files import PbFraming, gen_patterns
from monolith.data.record_forms import RecordForm
from monolith.features.feature_list import default_feature_list
from monolith.wire import SharedSecret, TlsConfig

_FORMS: dict[str, RecordForm] = {"instance": "instance", "example": "example", "examplebatch": "example_batch"}


@dataclass(frozen=True, kw_only=True, slots=True)
class InputConfig:
    """What the settings of a run say about its data; functions such as `monolith.data.kafka` fall back on it.

    >>> InputConfig(input_path="logs", start_date="20240101", end_date="20240102").files
    ['logs/20240101/*']
    """

    kafka_topics: list[str] | str | None = None
    kafka_group_id: str | None = None
    kafka_servers: str | None = None
    input_path: str | None = None
    """Root of the input files."""

    is_hourly: bool = False
    wildcard: str | None = None
    start_date: str | None = None
    end_date: str | None = None
    start_hour: int | None = None
    end_hour: int | None = None
    data_type: str | None = None
    """Instance, Example or ExampleBatch."""

    feature_list: str | None = None
    """File of the feature list."""

    lagrangex_header: bool = False
    sort_id: bool = True
    kafka_dump: bool = False
    kafka_dump_prefix: bool = False
    use_dataservice: bool | None = None
    """Batches come from a data service instead of the model's own source."""

    dispatcher: str | None = None
    """Address of the data service's dispatcher."""

    tls: TlsConfig | None = None
    """Certificate of this process, if the data service has TLS."""

    secret: SharedSecret | None = None
    """Of the job that the data service belongs to."""

    num_extra_workers: int = 0
    """Data workers that run in the process of each trainer."""

    shares_splits: bool = False
    """Workers of a job take splits of the data service as they are free; without it, each has a part of its own."""

    splits_at_a_time: int = 1
    """Splits that a worker holds at a time if it shares them."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.data_type is not None and self.data_type.lower() not in _FORMS:
            raise ValueError(f"data_type must be Instance, Example or ExampleBatch, got {self.data_type!r}")
        for name, value, least in (
            ("num_extra_dsworker_on_gpu_worker", self.num_extra_workers, 0),
            ("max_task_num_per_worker", self.splits_at_a_time, 1),
        ):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        asked = {
            "num_extra_dsworker_on_gpu_worker": self.num_extra_workers > 0,
            "enable_dynamic_sharding": self.shares_splits,
        }
        for name in (name for name, is_asked in asked.items() if is_asked and not self.use_dataservice):
            raise ValueError(
                f"{name} needs a data service, which gives out the data: set use_dataservice, or start the job by "
                "`monolith launch` with --num-dsworkers"
            )

    @property
    def files(self) -> list[str] | None:
        """Patterns of the input files; None if no path is set."""
        if self.input_path is None:
            return None
        if self.start_date is None:
            return [f"{self.input_path}/{self.wildcard or '*'}"]
        return gen_patterns(
            self.input_path,
            self.start_date,
            self.start_hour,
            self.end_date,
            self.end_hour,
            self.is_hourly,
            self.wildcard or "*",
        )

    @property
    def framing(self) -> PbFraming:
        """How records stand in files of the original's PB streams."""
        return PbFraming(
            has_sort_id=self.sort_id,
            kafka_dump=self.kafka_dump,
            kafka_dump_prefix=self.kafka_dump_prefix,
            lagrangex_header=self.lagrangex_header,
        )

    @property
    def record_form(self) -> RecordForm | None:
        """The form of records that `data_type` names; None if it names none."""
        return None if self.data_type is None else _FORMS[self.data_type.lower()]


_CURRENT: ContextVar[InputConfig] = ContextVar("input", default=InputConfig())  # noqa: B039  it is frozen


def current_input() -> InputConfig:
    """Return the settings that are in force where sources are made."""
    return _CURRENT.get()


@contextmanager
def input_settings(config: InputConfig) -> Iterator[None]:
    """Let sources that are made in the block fall back on these settings."""
    token = _CURRENT.set(config)
    try:
        with default_feature_list(config.feature_list):
            yield
    finally:
        _CURRENT.reset(token)
