"""Settings of the original that nothing reads here: the reason for each, and what happens if it is set."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Unread:
    """Why a setting has no reader."""

    reason: str
    """Completes "NAME=VALUE has no effect: ..."."""

    refused_by: type[Exception] | None = None
    """The error where another value asks for another result; None only warns."""

    happens_anyway: bool = False
    """Either value is what happens, so nothing is said."""

    @property
    def changes_result(self) -> bool:
        """Another value asks for another result, so it is refused."""
        return self.refused_by is not None

    @property
    def outcome(self) -> str:
        """What another value than the default brings about."""
        return "error" if self.changes_result else "nothing" if self.happens_anyway else "warning"


def _later(capability: str, *, refused: bool = False) -> Unread:
    return Unread(f"{capability} will read it, and is not there yet", NotImplementedError if refused else None)


_GPU = "training on a GPU"
_ITEMS = Unread("item rows are read from an export; write one with `monolith export`", ValueError)
_FOUNTAIN = Unread("no public system has this name; read from a data service instead")

UNREAD: Mapping[str, Unread] = {
    "enable_variable_prefetch": Unread("workers always keep copies of the dense weights", happens_anyway=True),
    "enable_variable_partition": Unread("a dense weight is whole on one parameter server; they are spread by size"),
    "force_shutdown_ps": Unread("parameter servers always end with their job", happens_anyway=True),
    "zk_watch_address_family": Unread("a server is reached by its IPv4 address, else by its IPv6 one"),
    "dc_aware": Unread("agents register the servers of all data centres in one place"),
    "merge_sync_training_ckpt": Unread("all ranks share one model_dir and write one checkpoint", ValueError),
    "enable_gpu_training": _later(_GPU, refused=True),
    "processes_per_gpu": _later(_GPU),
    "device_fn": _later(_GPU, refused=True),
    "max_rpc_deadline_millis": Unread("entries have it: `monolith serve --rpc-deadline-millis`"),
    "ps_replica_num": Unread("each `monolith serve-shard` is a replica; start as many as wanted"),
    "mode": Unread("an Estimator's methods say what it does: train, evaluate or predict", ValueError),
    "only_feature_engineering": Unread("write parsed features with a pipeline of monolith.data", ValueError),
    "use_estimator": Unread("the Estimator is the only way", happens_anyway=True),
    "use_native_multi_hash_table": Unread("one native call always serves all tables", happens_anyway=True),
    "enable_fid_dedup": Unread("the ids of a batch are always made unique", happens_anyway=True),
    "reorder_fids_in_data_pipeline": Unread("ids need no order: lookups plan each batch natively"),
    "containers_ready_time_secs": Unread("no metric of the specification uses it"),
    "fountain_zk_host": _FOUNTAIN,
    "fountain_model_name": _FOUNTAIN,
    "enable_resource_constrained_roughsort": _ITEMS,
    "roughsort_candidate_items_path": _ITEMS,
    "roughsort_items_use_parquet": _ITEMS,
    "items_input_lagrangex_header": _ITEMS,
    "items_input_has_sort_id": _ITEMS,
    "items_input_kafka_dump": _ITEMS,
    "items_input_kafka_dump_prefix": _ITEMS,
}


def check_unread(values: Mapping[str, Any], changed: Iterable[str]) -> None:
    """Refuse, or warn about, changed settings that nothing reads.

    Raises:
        NotImplementedError: the setting asks for something that does not exist yet.
        ValueError: another way to ask for it exists; the message names it.
    """
    for name in changed:
        unread = UNREAD.get(name)
        if unread is None or unread.happens_anyway:
            continue
        message = f"{name}={values[name]!r} has no effect: {unread.reason}"
        if unread.refused_by is not None:
            raise unread.refused_by(f"{message}; leave it at its default")
        warnings.warn(message, stacklevel=3)
