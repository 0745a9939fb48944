"""Which settings a run of one process cannot follow."""

from monolith.train.config.runner_config import RunnerConfig


def require_one_process(config: RunnerConfig) -> None:
    """Raise a NotImplementedError, which names the setting, if several processes or a GPU are asked for."""
    for name, single in (("num_ps", 0), ("num_workers", 1)):
        if getattr(config, name) != single and not config.is_local:
            raise NotImplementedError(
                f"{name}={getattr(config, name)}: training in several processes is not there yet; set is_local, or "
                f"leave {name} at {single}"
            )
    if config.enable_sync_training or config.enable_gpu_training:
        raise NotImplementedError("synchronous training and training on a GPU are not there yet; leave both off")
