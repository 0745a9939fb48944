"""A realtime trainer: `python -m tests.launch.agent.realtime_trainer FOLDER ZK_SERVERS BZID agents|containers`.

It goes on until a file `stop` appears in its folder.
"""

import sys
from pathlib import Path

import monolith as mono
from monolith.train.config import RunnerConfig
from tests.serving.shards.live_trainer import NUM_SHARDS, Clicks, UntilFile


def realtime_config(folder: Path, **settings: object) -> RunnerConfig:
    return RunnerConfig(
        model_dir=folder / "model",
        export_base=str(folder / "base"),
        base_name="movie",
        export_mode="distributed",
        export_num_shards=NUM_SHARDS,
        export_every_seconds=3600.0,
        log_step_count_steps=0,
        save_summary_steps=0,
        **settings,
    )


def main() -> None:
    folder, zk_server, bzid, found_by = Path(sys.argv[1]), *sys.argv[2:]
    config = realtime_config(
        folder,
        enable_realtime_training=True,
        sync_every_seconds=0.2,
        zk_server=zk_server,
        bzid=bzid,
        unified_serving=found_by == "containers",
    )
    mono.Estimator(Clicks, config).train(hooks=[UntilFile(folder / "stop")])


if __name__ == "__main__":
    main()
