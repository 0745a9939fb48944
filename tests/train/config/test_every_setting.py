"""A setting that does nothing is a lie: each one reaches the code that reads it, or says why not."""

import ast
import warnings
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import monolith
import monolith as mono
from monolith.train.config import RunConfig, RunnerConfig
from monolith.train.config.readers import READERS
from monolith.train.config.run_settings import RunSettings
from monolith.train.config.runner_config import runner_defaults
from monolith.train.config.settings_page import settings_page
from monolith.train.config.unread import UNREAD

ROOT = Path(monolith.__file__).parent

OWNERS = {
    "SavingConfig": "monolith.train.saving.saving_config",
    "TideConfig": "monolith.checkpoint.keep.tide_window",
    "RestoreConfig": "monolith.train.state.restore_config",
    "StateConfig": "monolith.train.state.train_state",
    "AdmissionConfig": "monolith.embedding.admission",
    "LoopConfig": "monolith.train.loop",
    "WatchConfig": "monolith.train.hooks.standard",
    "LiveConfig": "monolith.train.live.live_config",
    "InputConfig": "monolith.data.input_config",
    "ProcessConfig": "monolith.train.process_config",
    "JobConfig": "monolith.train.job_config",
}

NIGHT = {"tide_start_hour": 22, "tide_start_minute": 30, "tide_end_hour": 6, "tide_end_minute": 15}
PEM = {"tls_cert": "cert", "tls_key": "key", "tls_ca": "ca"}
LIVE = {"sync_targets": ["127.0.0.1:1"], "base_name": "name"}
REALTIME = {**LIVE, "enable_realtime_training": True, "zk_server": "h:2181"}

# What a setting needs beside it to be accepted, and values that its type does not give away.
COMPANY: dict[str, dict[str, Any]] = {
    **dict.fromkeys(NIGHT, NIGHT),
    "tide_save_secs": NIGHT,
    "continue_training": {"clear_nn": True},
    **dict.fromkeys(PEM, {**LIVE, **PEM}),
    **dict.fromkeys(
        ("base_name", "sync_every_seconds", "export_every_seconds", "exports_max_to_keep", "export_mode"),
        {"export_base": "exports"},
    ),
    "export_num_shards": {"export_base": "exports", "export_mode": "distributed"},
    **dict.fromkeys(("skip_zero_embedding_when_serving", "warmup_file"), {"export_base": "exports"}),
    "enable_realtime_training": LIVE,
    "bzid": REALTIME,
    "unified_serving": {**REALTIME, "bzid": "bz"},
    "use_dataservice": {"data_service_dispatcher": "127.0.0.1:1"},
    "num_extra_dsworker_on_gpu_worker": {"num_ps": 1, "use_dataservice": True},
    "enable_dynamic_sharding": {"num_ps": 1, "use_dataservice": True},
}
VALUES: dict[str, Any] = {
    "server_type": "ps",
    "sync_row_gradients": "sum",
    "export_mode": "distributed",
    "filter_type": "probabilistic_filter",
    "data_type": "Example",
    "enable_alias_map_auto_gen": False,
    "tide_start_hour": 21,
    "tide_start_minute": 31,
    "tide_end_hour": 7,
    "tide_end_minute": 16,
    "sync_targets": ["127.0.0.1:2"],
    "reload_alias_map": {"new": "old"},
    **dict.fromkeys(("monolith_alert_proto", "monolith_chief_alert_proto"), "training_alert {}"),
    **{name: f"other_{path}" for name, path in PEM.items()},
}
SEEN_ELSEWHERE = {
    "discovery": "tests/train/job/test_place.py",
    "listen": "tests/train/job/test_place.py",
    "insecure": "tests/train/job/test_place.py",
    "discovery_type": "tests/train/roles/test_discovery.py",
    "tf_config": "tests/train/roles/test_discovery.py",
    "zk_server": "tests/train/roles/test_discovery.py and tests/train/config/test_registered_servers.py",
    "uuid": "tests/train/roles/test_discovery.py",
    "seed": "tests/train/test_modes_of_running.py",
    "params_override": "tests/train/config/test_config.py",
    "task": "tests/train/config/test_task_setting.py",
    "tf_grpc_worker_cache_threads": "tests/train/config/test_config.py",
    "monolith_grpc_worker_service_handler_multiplier": "tests/train/config/test_config.py",
}


class Model(mono.MonolithModel):
    """Never trained."""


def another(name: str, default: Any) -> Any:
    if name in VALUES:
        return VALUES[name]
    if isinstance(default, bool):
        return not default
    if isinstance(default, Enum):
        return next(one for one in type(default) if one is not default)
    if isinstance(default, int | float):
        return default + 1
    hints = {one.name: str(one.type) for one in fields(RunnerConfig)}[name]
    if default is None and ("int" in hints or "float" in hints):
        return 7
    return True if "bool" in hints else f"another {name}"


def test_every_setting_is_in_one_table():
    names = set(runner_defaults()) | {one.name for one in fields(RunConfig)} - {"enable_parameter_sync"}
    assert names == set(READERS) | set(UNREAD)
    assert not set(READERS) & set(UNREAD)


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_setting_that_is_read_arrives_where_the_table_says(name):
    owner, _, field = READERS[name].partition(".")
    if name in SEEN_ELSEWHERE:
        return
    company = COMPANY.get(name, {})
    before = RunSettings.of(RunnerConfig(**{"model_dir": "m", **company}), Model())
    changed = another(name, runner_defaults()[name])
    config = RunnerConfig(**{"model_dir": "m", **company, name: changed})
    after = RunSettings.of(config, Model())
    assert before != after, f"{name}={changed!r} changes nothing"
    if field:
        module = import_module(OWNERS[owner])
        owned = getattr(module, owner)
        assert is_dataclass(owned)
        assert field in {one.name for one in fields(owned)}


@pytest.mark.parametrize("owner", sorted(OWNERS))
def test_every_field_of_an_owner_is_read_by_code(owner):
    """As an attribute, in a file of the package other than the one that fills it in."""
    wanted = {reader.partition(".")[2] for reader in READERS.values() if reader.startswith(f"{owner}.")}
    read: set[str] = set()
    for path in ROOT.rglob("*.py"):
        if path.name == "run_settings.py" or "protos" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                read.add(node.attr)
    assert not wanted - read


@pytest.mark.parametrize("name", sorted(set(UNREAD) & set(runner_defaults())))
def test_a_setting_that_nothing_reads_says_so(name, tmp_path):
    unread, value = UNREAD[name], another(name, runner_defaults()[name])
    value = {"mode": "eval", "zk_watch_address_family": "ipv6"}.get(name, value)
    config = RunnerConfig(**{"model_dir": tmp_path, name: value})
    if unread.changes_result:
        with pytest.raises(
            (NotImplementedError, ValueError), match=f"{name}=.* has no effect: .*leave it at its default"
        ):
            mono.Estimator(Model, config)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mono.Estimator(Model, config)
    said = [str(one.message) for one in caught]
    # Of these, either value is what happens anyway.
    silent = name in ("force_shutdown_ps", "use_estimator", "use_native_multi_hash_table", "enable_fid_dedup")
    assert any(unread.reason in one for one in said) != (silent or name == "enable_variable_prefetch")


def test_profiling_of_local_runs_begins_with_the_first_step():
    for config in (
        RunConfig(enable_local_profiling=True).to_runner_config(),
        RunnerConfig(enable_local_profiling=True),
    ):
        assert RunSettings.of(config, Model()).watch.profile_from == 0
    assert (
        RunSettings.of(RunnerConfig(enable_local_profiling=True, profile_some_steps_from=7), Model()).watch.profile_from
        == 7
    )


def test_what_follows_from_other_settings_is_not_warned_about(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mono.Estimator(Model, RunConfig(model_dir=tmp_path))


def test_what_the_page_says_of_recovery_and_limits_is_what_applies():
    live = {"base_name": "name", "sync_targets": ["127.0.0.1:1"]}
    jobs = {
        "left alone": RunConfig(),
        "live": RunConfig(enable_parameter_sync=True, **live),
        "live, not partial": RunnerConfig(enable_realtime_training=True, partial_recovery=False, **live),
    }
    found = {
        name: RunSettings.of(one if isinstance(one, RunnerConfig) else one.to_runner_config(), Model()).job
        for name, one in jobs.items()
    }
    assert {name: bool(one.partial_recovery) for name, one in found.items()} == {
        "left alone": False, "live": True, "live, not partial": False,
    }  # fmt: skip
    assert {name: one.num_retries for name, one in found.items()} == {
        "left alone": 0, "live": 6, "live, not partial": 0,
    }  # fmt: skip
    assert {one.retry_wait_seconds for one in found.values()} == {30}
    assert {one.call_retry.deadline_seconds for one in found.values()} == {30}
    rows = dict(line.split(" | ")[0::3] for line in settings_page().splitlines() if line.startswith("| `"))
    assert "A `RunConfig` shows `6`; left so, `0` applies." in rows["| `max_retry_times` *"]
    assert "A `RunConfig` shows `5`; left so, `30` applies." in rows["| `retry_wait_in_secs` *"]
    assert "None: only in real-time training" in rows["| `partial_recovery` *"]
    assert "30 seconds for a PS, half an hour for a rank" in rows["| `operation_timeout_in_ms` *"]


def test_the_page_is_up_to_date():
    """`python -m monolith.train.config.settings_page > docs/settings.md` brings it up to date."""
    assert (ROOT.parent / "docs" / "settings.md").read_text() == settings_page()
