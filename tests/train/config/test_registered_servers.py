"""Settings of a realtime run that finds its servers in ZooKeeper."""

import pytest

import monolith as mono
from monolith.train.config import RunConfig, RunnerConfig
from monolith.train.config.run_settings import RunSettings

REALTIME = {"enable_realtime_training": True, "bzid": "bz", "base_name": "movie"}


def targets(**settings):
    return RunSettings.of(RunnerConfig(model_dir="m", **settings), mono.MonolithModel()).live.sync_targets


def test_servers_are_found_under_the_business_and_the_name_of_the_model():
    assert targets(**REALTIME, zk_server="h:1,h:2") == ("agents:h:1,h:2/bz/movie",)
    assert targets(**REALTIME, zk_server="h:1", unified_serving=True) == ("containers:h:1/bz/movie",)
    both = targets(**REALTIME, zk_server="h:1", sync_targets="127.0.0.1:1,127.0.0.1:2")
    assert both == ("127.0.0.1:1", "127.0.0.1:2", "agents:h:1/bz/movie")


def test_the_environment_says_where_zookeeper_is_unless_a_setting_does(monkeypatch):
    monkeypatch.delenv("zk_servers", raising=False)
    with pytest.raises(ValueError, match="bzid='bz': servers are found in ZooKeeper, and none is named; set zk_server"):
        targets(**REALTIME)
    monkeypatch.setenv("zk_servers", "site:2181")
    assert targets(**REALTIME) == ("agents:site:2181/bz/movie",)
    assert targets(**REALTIME, zk_server="h:1") == ("agents:h:1/bz/movie",)
    config = RunConfig(model_dir="m", enable_parameter_sync=True, bzid="bz", base_name="movie").to_runner_config()
    assert RunSettings.of(config, mono.MonolithModel()).live.sync_targets == ("agents:site:2181/bz/movie",)


def test_a_realtime_run_without_its_names_is_refused():
    for missing, words in {"bzid": "Business id cannot be none", "base_name": "Base name cannot be none"}.items():
        with pytest.raises(ValueError, match=words):
            targets(**{**REALTIME, missing: None}, zk_server="h:1")
    with pytest.raises(ValueError, match="Business id cannot be none"):
        targets(**{**REALTIME, "bzid": None}, sync_targets="127.0.0.1:1", unified_serving=True)


@pytest.mark.parametrize("setting", [{"bzid": "bz"}, {"unified_serving": True}])
def test_what_only_a_realtime_run_reads_is_warned_about_elsewhere(setting):
    with pytest.warns(UserWarning, match=f"{next(iter(setting))} has no effect without enable_realtime_training"):
        assert targets(export_base="exports", **setting) == ()
