"""The settings of a run: from code, from the command line, or by default."""

from monolith.train.config.command_line import (
    LinkDataclassToFlags,
    UnknownFlagError,
    command_line,
    flag_kinds,
    flag_name,
    parse_flags,
)
from monolith.train.config.run_config import RunConfig
from monolith.train.config.runner_config import RunnerConfig, ServiceDiscoveryType
from monolith.train.config.setting import setting, setting_help
from monolith.train.config.training_config import CpuTrainingConfig, DistributedCpuTrainingConfig, is_chief

__all__ = [
    "CpuTrainingConfig",
    "DistributedCpuTrainingConfig",
    "LinkDataclassToFlags",
    "RunConfig",
    "RunnerConfig",
    "ServiceDiscoveryType",
    "UnknownFlagError",
    "command_line",
    "flag_kinds",
    "flag_name",
    "is_chief",
    "parse_flags",
    "setting",
    "setting_help",
]
