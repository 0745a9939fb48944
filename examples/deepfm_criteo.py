"""DeepFM on files of clicks: python examples/deepfm_criteo.py.

Made-up clicks with the columns of the Criteo data sets are written as tf.Example records to TFRecord files; the model
is trained on some files and tested on the last one. Put your own files and columns in `read`.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

import monolith as mono
from monolith.data import CriteoEvents, Pipeline, TFRecordWriter
from monolith.model.zoo.click_model import CATEGORIES, NUM_DENSE
from monolith.model.zoo.deepfm import DeepFM
from monolith.protos.tf_example_pb2 import Example

NUM_FILES = 4


def write(path: Path, world: CriteoEvents, first: int, count: int) -> None:
    """Write events `first` to `first + count - 1` as one TFRecord file."""
    columns = world.events(first, count)
    with TFRecordWriter(str(path)) as writer:
        for row in range(count):
            example = Example()
            feature = example.features.feature
            feature["label"].float_list.value.append(columns["label"][row])
            feature["dense"].float_list.value.extend(columns["dense"][row])
            for name in CATEGORIES:
                feature[name].int64_list.value.append(columns[name][row])
            writer.write(example.SerializeToString())


def read(files: Sequence[str], batch_size: int) -> Pipeline:
    """Return the columns of the files."""
    ids = dict.fromkeys(CATEGORIES, "int64")
    records = mono.data.tfrecord(files, batch_size=batch_size)
    return records.parse("tf_example", label="float32", dense=f"float32[{NUM_DENSE}]", **ids).prefetch()


def main(folder: Path, num_events: int, batch_size: int = 512) -> dict[str, float]:
    """Write the files, train on all but the last, and test on that one."""
    torch.set_num_threads(1)  # the batches are small: a second thread would mostly wait
    world, share = CriteoEvents(0, num_ids=10_000, new_ids_per_second=0, drift_seconds=float("inf")), num_events // 4
    files = [folder / f"clicks-{number}.tfrecord" for number in range(NUM_FILES)]
    for number, path in enumerate(files):
        write(path, world, number * share, share)
    size = sum(path.stat().st_size for path in files)
    print(f"wrote {NUM_FILES} files of {share:,} clicks each, {size / 2**20:.1f} MiB")

    params = DeepFM.params()
    params.set(
        dim=8,
        hidden=(64, 32),
        source=lambda mode: read([str(one) for one in (files[:-1] if mode == mono.TRAIN else files[-1:])], batch_size),
    )
    estimator = mono.Estimator(params, mono.RunConfig(model_dir=folder / "model", log_step_count_steps=0))
    trained = estimator.train()
    tested = estimator.evaluate()
    best = world.planted_auc((NUM_FILES - 1) * share, share)
    print(f"{trained.global_step:,} steps on {(NUM_FILES - 1) * share:,} clicks; snapshots in {folder / 'model'}")
    print(f"AUC of the {tested['num_events']:,.0f} clicks after them: {tested['auc']:.3f}; no model passes {best:.3f}")
    return tested


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000, help="clicks in all files together")
    parser.add_argument("--folder", type=Path, help="where files and model live; by default a new temporary folder")
    arguments = parser.parse_args()
    main(arguments.folder or Path(tempfile.mkdtemp(prefix="deepfm_")), arguments.events)
