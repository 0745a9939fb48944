"""Commands whose flags are the settings of a run: parsed by `monolith.train.config`, without loading torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import typer

from monolith.cli.models.help_page import print_help
from monolith.train.config import RunnerConfig, flag_kinds, parse_flags, setting

Arguments = tuple[str, dict[str, Any], dict[str, Any]]

_HELP, _HELP_ALL = ("--help", "-h"), ("--help-all", "--help_all")


@dataclass(kw_only=True)
class ModelFlags(RunnerConfig):
    """Flags that all commands with a model have besides the settings."""

    params: str | None = setting(None, "JSON value that the model's class is called with.")


@dataclass(kw_only=True)
class TrainFlags(ModelFlags):
    """Flags of `monolith train` besides the settings."""

    steps: int | None = setting(None, "Steps to take in this run; to the end of the data if not given.")
    max_steps: int | None = setting(None, "Steps to take in all runs together.")


@dataclass(kw_only=True)
class LaunchFlags(TrainFlags):
    """Flags of `monolith launch` besides the settings."""

    engine: str = setting("local", "Where its processes run: local, ray, k8s, or external, which prints commands.")
    sync: bool = setting(False, "All workers take each step together; with --num-ps, servers hold the rows.")
    num_dsworkers: int = setting(0, "Processes that read the data for the workers; 0: workers read it themselves.")
    max_restarts: int = setting(3, "How often each process is started again after it died; 0 fails at once.")
    stop_seconds: float = setting(60.0, "How long an orderly end may take, after Ctrl-C or SIGTERM.")
    job_name: str = setting("", "Name of the job in its cluster; that of the model's folder if not given.")
    ps_cpus: float = setting(1.0, "CPUs that each parameter server asks of the cluster.")
    ps_memory_gb: float = setting(0.0, "Memory that each parameter server asks of the cluster; 0 asks for none.")
    worker_cpus: float = setting(1.0, "CPUs that each worker asks of the cluster.")
    worker_memory_gb: float = setting(0.0, "Memory that each worker asks of the cluster; 0 asks for none.")
    ray_address: str = setting("auto", "The Ray cluster, as ray.init takes it; auto is the one on this machine.")
    ray_runtime_env: str = setting("", "JSON object: what Ray prepares on every node, such as a working_dir.")
    dry_run: bool = setting(False, "Print the manifests of Kubernetes; monolith itself talks to no cluster.")
    image: str = setting("", "Image of Kubernetes' containers, with Monolith and the model's module.")
    volume_claim: str = setting("", "PersistentVolumeClaim for the model's folder, writable from many nodes.")
    tls_secret: str = setting("", "Secret of Kubernetes with what `monolith certs new` writes.")
    json: bool = setting(False, "Print the commands of --engine external as one JSON object.")


@dataclass(kw_only=True)
class EvaluateFlags(ModelFlags):
    """Flags of `monolith evaluate` besides the settings."""

    steps: int | None = setting(None, "Batches to look at; all there are if not given.")
    checkpoint_path: str | None = setting(None, "Folder of the snapshot; the newest in model_dir if not given.")
    group_by: str | None = setting(None, "Column of ids; adds the AUC within each of its groups.")
    json: bool = setting(False, "Print one JSON object instead of a table.")


@dataclass(kw_only=True)
class PredictFlags(ModelFlags):
    """Flags of `monolith predict` besides the settings."""

    output: str | None = setting(None, "File to write, a JSON object per event; standard output if not given.")
    checkpoint_path: str | None = setting(None, "Folder of the snapshot; the newest in model_dir if not given.")
    predict_keys: str | None = setting(None, "Heads to write, by comma; all if not given.")


@dataclass(kw_only=True)
class ExportFlags(ModelFlags):
    """Flags of `monolith export` besides the settings."""

    checkpoint_path: str | None = setting(None, "Folder of the snapshot; the newest in model_dir if not given.")
    dense_only: bool = setting(False, "Share the rows of the newest version, which --export-mode distributed wrote.")


COMMANDS: Mapping[str, type] = {
    "train": TrainFlags,
    "launch": LaunchFlags,
    "evaluate": EvaluateFlags,
    "predict": PredictFlags,
    "export": ExportFlags,
}
"""Each command with its flags: a subclass of RunnerConfig that adds the command's own."""


def parse_arguments(command: str, arguments: Sequence[str]) -> Arguments:
    """Return (the model, the settings, the command's own flags) that the arguments say.

    The first argument is the model, or `--task` among the flags.
    `--help`, `-h` and `--help-all` print the flags and end the command.
    """
    flags = COMMANDS[command]
    if any(one in (*_HELP, *_HELP_ALL) for one in arguments):
        print_help(command, flags, everything=any(one in _HELP_ALL for one in arguments))
        raise typer.Exit
    has_model = bool(arguments) and not arguments[0].startswith("-")
    if not has_model and not any(one.partition("=")[0] == "--task" for one in arguments):
        first = f", got {arguments[0]!r} there" if arguments else ""
        raise ValueError(
            f"the model comes first{first}: monolith {command} MODULE:CLASS [FLAGS], such as monolith {command} "
            "ranking:Ranking for the class Ranking in ranking.py"
        )
    found = parse_flags(arguments[1:] if has_model else arguments, flags)
    task = found.pop("task", None)
    if has_model and task is not None:
        raise ValueError(f"{arguments[0]} and --task {task} both name the model; leave one of them out")
    known = flag_kinds(RunnerConfig)
    settings = {name: value for name, value in found.items() if name in known}
    defaults = {one.name: one.default for one in fields(flags) if one.name not in known and one.init}
    own = {**defaults, **{name: one for name, one in found.items() if name not in known}}
    return arguments[0] if has_model else task, settings, own
