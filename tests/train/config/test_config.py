"""Who wins: code, command line, default; and what a configuration refuses."""

import dataclasses
import getpass

import pytest
import torch

import monolith as mono
from monolith.model.hyper_params import Params
from monolith.train.config import (
    CpuTrainingConfig,
    LinkDataclassToFlags,
    RunConfig,
    RunnerConfig,
    ServiceDiscoveryType,
    UnknownFlagError,
    command_line,
    flag_kinds,
    is_chief,
    parse_flags,
)


def test_code_wins_over_the_command_line_and_that_over_the_default():
    flags = parse_flags(["--num_ps=4", "--checkpoints_max_to_keep=7", "--seed", "5"], RunnerConfig)
    with command_line(flags):
        for config in (
            RunnerConfig(num_ps=2, seed=0),
            RunConfig(num_ps=2, seed=0).to_runner_config(),
        ):
            # seed=0 is the default: saying it in code is saying nothing.
            assert (config.num_ps, config.checkpoints_max_to_keep, config.seed) == (2, 7, 5)
            assert config.log_step_count_steps == 100
            assert config.from_command_line == ["seed", "checkpoints_max_to_keep"] or "seed" in config.from_command_line
    assert RunnerConfig().num_ps == 0


def test_flags_have_the_types_of_their_fields():
    flags = parse_flags(
        ["--is_local", "--nosort_id", "--save-checkpoints-secs", "2.5", "--kafka_topics=a,b", "--discovery_type=ZK"]
        + ["--partial_recovery", "false", "--model_dir=x"],
        RunnerConfig,
    )
    assert flags == {
        "is_local": True,
        "sort_id": False,
        "save_checkpoints_secs": 2.5,
        "kafka_topics": "a,b",
        "discovery_type": ServiceDiscoveryType.ZK,
        "partial_recovery": False,
        "model_dir": "x",
    }
    with command_line(flags):
        assert RunnerConfig().kafka_topics == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--num_pss=1"], "there is no flag --num-pss; did you mean --num-ps"),
        (["model"], "'model' is no flag"),
        (["-num_ps=1"], "'-num_ps=1' is no flag; did you mean --num-ps"),
        (["--wibble"], "there is no flag --wibble; the closest one is --"),
        (["--num_ps"], "--num-ps needs a value, such as --num-ps 100"),
        (["--num_ps=two"], "--num-ps must be a whole number, got 'two'; write, for example, --num-ps 100"),
        (["--is_local=maybe"], "--is-local must be true or false, got 'maybe'"),
        (["--discovery_type=dns"], "--discovery-type must be one of primus, consul, zk, mlp, got 'dns'"),
        (["--device_fn=x"], "there is no flag --device-fn"),
    ],
)
def test_a_wrong_flag_says_what_to_do(arguments, error):
    with pytest.raises(ValueError, match=error) as raised:
        parse_flags(arguments, RunnerConfig)
    assert isinstance(raised.value, UnknownFlagError) == ("no flag" in error)


def test_every_setting_is_described_and_all_but_two_are_flags():
    hidden = {one.name for one in dataclasses.fields(RunnerConfig)} - set(flag_kinds(RunnerConfig))
    assert hidden == {"device_fn", "profile_save_steps_interval", "reload_alias_map", "from_command_line", "derived"}


def test_what_a_run_config_becomes():
    config = RunConfig(model_dir="m", enable_parameter_sync=True, base_name="b", max_retry_times=6).to_runner_config()
    assert (config.enable_realtime_training, config.base_name, config.model_dir) == (True, "b", "m")
    assert config.discovery_type is ServiceDiscoveryType.ZK
    assert (config.embedding_prefetch_capacity, config.enable_embedding_postpush) == (1, True)
    # 6 is the default of a RunConfig, so it was not said; a RunnerConfig has its own.
    assert config.max_retry_times == 0


def test_json_both_ways():
    config = RunConfig(model_dir="m", save_checkpoints_steps=3, kafka_topics=["a"])
    assert RunConfig.from_json(config.to_json()) == config
    assert set(config.changed()) == {"model_dir", "save_checkpoints_steps", "kafka_topics"}
    with pytest.raises(ValueError, match="no settings num_parameter_servers"):
        RunConfig.from_json('{"num_parameter_servers": 3}')


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (
            dict(save_checkpoints_secs=1, save_checkpoints_steps=1),
            "Can not provide both save_checkpoints_secs and save_checkpoints_steps.",
        ),
        (dict(save_checkpoints_steps=0), "save_checkpoints_steps must be positive, got 0"),
        (dict(checkpoints_max_to_keep=0), "checkpoints_max_to_keep must be at least 1, got 0"),
        (dict(num_workers=0), "num_workers must be at least 1, got 0"),
        (dict(log_step_count_steps=-1), "log_step_count_steps must be at least 0, got -1"),
    ],
)
def test_values_that_could_only_fail_later_are_refused(settings, error):
    for config_class in (RunConfig, RunnerConfig):
        with pytest.raises(ValueError, match=error):
            config_class(**settings)


def test_the_address_family_is_checked():
    with pytest.raises(ValueError, match="zk_watch_address_family must be one of"):
        RunnerConfig(zk_watch_address_family="ipx")


def test_the_chief_is_worker_zero():
    assert is_chief(CpuTrainingConfig())
    assert not is_chief(CpuTrainingConfig(index=1))
    assert not is_chief(CpuTrainingConfig(server_type="ps"))
    full = CpuTrainingConfig(enable_sync_training=True)
    assert full.enable_full_sync_training
    assert not dataclasses.replace(full, enable_partial_sync_training=True).enable_full_sync_training


def test_other_dataclasses_can_follow_flags():
    @LinkDataclassToFlags(linked_list=["topics"], linked_map={"use_service": "use_dataservice"})
    @dataclasses.dataclass
    class Reading:
        topics: str = "none"
        use_service: bool | None = None

    with command_line({"topics": "a", "use_dataservice": True}):
        assert (Reading().topics, Reading().use_service) == ("a", True)
        assert Reading(topics="mine").topics == "mine"
    with pytest.raises(AttributeError, match="speed is not a valid attribute"):
        LinkDataclassToFlags(linked_list=["speed"])(Reading)


class Small(mono.MonolithModel):
    def __init__(self, params=None):
        super().__init__(params)
        values = dict(params.iter_params()) if isinstance(params, Params) else params or {"units": 3}
        self.net = torch.nn.Linear(1, values["units"])


def test_the_estimator_overrides_parameters_and_finds_a_folder():
    held = Params()
    held.define("units", 3, "")
    estimator = mono.Estimator(Small(held), RunConfig(), params=None)
    assert estimator.config.model_dir.parts[-2:] == (getpass.getuser(), "Small")
    # Before the model is made: its layers have that many units, whichever way it is given.
    override = RunnerConfig(params_override='{"units": 8}')
    for model, params in ((Small(held), None), (Small, held), (Small, {"units": 3})):
        assert mono.Estimator(model, override, params=params).model.net.out_features == 8
    assert held.units == 3
    for params in (held, {"units": 3}):
        with pytest.raises(ValueError, match="there is no parameter 'width'"):
            mono.Estimator(Small, RunnerConfig(params_override='{"width": 8}'), params=params)
    with pytest.raises(ValueError, match="changes the parameters of a model, and this one has None"):
        mono.Estimator(Small, override)
    with pytest.raises(ValueError, match="must be a JSON object"):
        mono.Estimator(Small(held), RunnerConfig(params_override="units=8"))
    with pytest.raises(NotImplementedError, match="enable_gpu_training=True has no effect: training on a GPU will"):
        mono.Estimator(Small, RunnerConfig(enable_gpu_training=True))
    with pytest.raises(TypeError, match="takes a MonolithModel, its class or its parameters"):
        mono.Estimator(print, RunConfig())
