"""The tasks of the specification's tests of synchronous training, and how a rank trains them."""

import itertools
import os

import torch
from torch import nn

import monolith as mono
from monolith.embedding import AdagradOptimizer, ConstantsInitializer, Fp32Compressor
from monolith.embedding.combiners import FirstN
from monolith.model.native_task import FeatureColumnV1, FeatureSlotConfig, NativeTask, TaskSpec
from monolith.native_training.cpu_training import (
    CpuTraining,
    distributed_sync_train,
    get_req_time,
    init_sync_train_and_update_conf,
)
from monolith.native_training.save_utils import NoFirstSaveCheckpointSaverHook
from monolith.native_training.sync_training_hooks import (
    EofAwareTask,
    ReqTimeControlDumpHook,
    SyncTrainingForceDumpHook,
    SyncTrainingInfoHook,
    SyncTrainingSaverControlHook,
)
from monolith.tensors import Ragged
from tests.train.job.counting_job import BATCH as EVENTS
from tests.train.job.counting_job import Counting, events_source
from tests.train.ranks.sync_model import config_of

IDS = [1, 2, 3, 4]
NUM_BATCHES = 5


def repeated(num_batches=NUM_BATCHES, **columns):
    """One event, with the ids of all four, again and again: each of two ranks reads that many batches of one event."""
    many = num_batches * 2
    ids = Ragged.from_lists([IDS] * many)
    columns = {name: torch.tensor([value] * many) for name, value in columns.items()}
    return mono.data.arrays({"ids": ids, "label": torch.ones(many), **columns}, batch_size=1)


def rows_of(task, *, combiner=None, column="ids"):
    """Return the looked-up rows of the ids."""
    config = FeatureSlotConfig(
        name=column,
        default_vec_initializer=ConstantsInitializer(0.0),
        default_vec_optimizer=AdagradOptimizer(0.1, initial_accumulator_value=1.0),
        default_vec_compressor=Fp32Compressor(),
    )
    slot = task.ctx.create_feature_slot(config)
    return FeatureColumnV1(slot, column, combiner).embedding_lookup(slot.add_feature_slice(5))


class FeatureTask(NativeTask):
    """Its loss is the sum of the rows; it applies the gradients of the rows itself."""

    columns: dict[str, float] = {}
    combiner = None

    def create_input_fn(self, mode):
        return lambda: repeated(**self.columns)

    def predictions(self, features, rows):
        return rows.flatten(1).sum(1)

    def create_model_fn(self):
        def model_fn(features, mode, config):
            rows = rows_of(self, combiner=self.combiner)
            loss = rows.sum()
            if mode == mono.TRAIN:
                self.ctx.apply_embedding_gradients(zip(torch.autograd.grad(loss, [rows]), [rows], strict=True))
            return TaskSpec(predictions=self.predictions(features, rows), loss=loss, label=features["label"])

        return model_fn


class FloatFeatureTask(FeatureTask):
    """Predicts from a column of floats alone."""

    columns = {"number": 2.5}

    def predictions(self, features, rows):
        return features["number"] * 2


class SequenceFeatureTask(FeatureTask):
    """Reads the rows of the first two ids as a sequence."""

    combiner = FirstN(2)

    def predictions(self, features, rows):
        assert rows.shape[1:] == (2, 5)
        ids = features["ids"]
        return torch.zeros(len(rows)).index_add(0, ids.value_rowids(), ids.values.float())


class EmbeddingUpdateTask(NativeTask):
    """Trains rows and a torch.nn.Embedding on the same loss; both must stay the same."""

    def __init__(self, params=None):
        super().__init__(params)
        self.embedding = nn.Embedding(5, 5)
        nn.init.zeros_(self.embedding.weight)
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.1, initial_accumulator_value=1.0, eps=0.0)

    def create_input_fn(self, mode):
        return lambda: repeated(num_batches=10)

    def create_model_fn(self):
        def model_fn(features, mode, config):
            rows = rows_of(self)
            ids = features["ids"]
            same = nn.functional.embedding_bag(ids.values, self.embedding.weight, ids.row_splits[:-1], mode="sum")
            torch.testing.assert_close(rows, same, rtol=1e-6, atol=1e-7)
            aim = torch.arange(5.0)
            loss = ((rows - aim) ** 2).sum() + ((same - aim) ** 2).sum()
            return TaskSpec(predictions=rows.sum(1), loss=loss, label=features["label"], optimizer=self.optimizer)

        return model_fn


class NonFeatureTask(NativeTask):
    """Looks no row up; it fits a number to the label."""

    def __init__(self, params=None):
        super().__init__(params)
        self.weight = nn.Parameter(torch.zeros(()))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.25)

    def create_input_fn(self, mode):
        return lambda: repeated()

    def create_model_fn(self):
        def model_fn(features, mode, config):
            predictions = self.weight.expand(len(features["label"]))
            loss = ((predictions - features["label"]) ** 2).mean()
            return TaskSpec(predictions=predictions, loss=loss, label=features["label"], optimizer=self.optimizer)

        return model_fn


class CountingTask(NativeTask):
    """Its train operation adds each number that it reads to `global_step`; the rows that it has to look up stay."""

    def __init__(self, params=None, numbers=(1, 2, 3), column="1"):
        super().__init__(params)
        self.register_buffer("global_step", torch.zeros((), dtype=torch.int64))
        self.numbers, self.column = numbers, column

    def create_input_fn(self, mode):
        return lambda: mono.data.arrays({self.column: torch.tensor(self.numbers)}, batch_size=1)

    def create_model_fn(self):
        def model_fn(features, mode, config):
            number = features[self.column].sum()
            rows = rows_of(self, column=self.column)

            def train_step():
                self.global_step += number

            return TaskSpec(
                predictions=features[self.column].float(), loss=1.0 + 0.0 * rows.sum(), train_step=train_step
            )

        return model_fn


TASKS = {
    "feature": FeatureTask,
    "float": FloatFeatureTask,
    "sequence": SequenceFeatureTask,
    "embedding": EmbeddingUpdateTask,
    "non feature": NonFeatureTask,
}

DISTRIBUTED = {
    "basic": {},
    "sparse pipelining": {
        "enable_pipelined_fwda2a": True,
        "enable_pipelined_bwda2a": True,
        "embedding_prefetch_capacity": 0,
        "enable_embedding_postpush": True,
    },
    **{
        f"full sync {number}": {
            "enable_fused_layout": fused,
            "use_native_multi_hash_table": native,
            "filter_type": "probabilistic_filter",
            "enable_async_optimize": False,
        }
        for number, (fused, native) in enumerate(itertools.product([False, True], repeat=2))
    },
}
"""Settings of a run by its name."""


def train_all(folder):
    """Be a rank that trains every task through the original's functions; return the steps that it took."""
    found = {}
    for name, task in TASKS.items():
        config = sync_config(folder / name)
        training = CpuTraining(config, task())
        found[name] = distributed_sync_train(config, training.task).global_step
    for name, changes in DISTRIBUTED.items():
        config = sync_config(folder / name, **changes)
        found[name] = distributed_sync_train(config, FeatureTask.params()).global_step
    # Each rank reads every second batch: 1, 2 and 3.
    os.environ["MONOLITH_SAVE_SUMMARY_INTERVAL"] = "2"
    task = EofAwareTask(CountingTask(numbers=(1, 1, 2, 2, 3, 3)))
    steps = distributed_sync_train(sync_config(folder / "end"), task).global_step
    found["end"] = (steps, int(task.global_step))
    return found


def sync_config(folder, **changes):
    config = config_of(folder, save_checkpoints_steps=None, **changes)
    init_sync_train_and_update_conf(config)
    return config


class Dated(FeatureTask):
    """Batch n of both ranks was asked for at n."""

    def create_input_fn(self, mode):
        many = 40
        times = torch.arange(many) // 2
        return lambda: mono.data.arrays(
            {"ids": Ragged.from_lists([IDS] * many), "label": torch.ones(many), "req_time": times}, batch_size=1
        )


class Noted(mono.Hook):
    """Notes the times of the batches."""

    def __init__(self):
        self.times = []

    def after_run(self, context, values):
        self.times.append(get_req_time(values.batch.columns))


def steered(folder, case, door):
    """Be a rank that a file in the model's folder steers; return its steps, and when its last batch was asked for."""
    saver = NoFirstSaveCheckpointSaverHook(folder, save_steps=3)
    hooks = {
        "dump": lambda: SyncTrainingForceDumpHook(folder, saver.timer, step_interval=5),
        "stop": lambda: SyncTrainingForceDumpHook(folder, saver.timer, step_interval=5),
        "online": lambda: SyncTrainingSaverControlHook(folder, saver.timer, step_interval=1),
        "offline": lambda: SyncTrainingSaverControlHook(folder, saver.timer, step_interval=1),
        "limit": lambda: ReqTimeControlDumpHook(folder, saver.timer, step_interval=4),
    }
    noted = Noted()
    given = [hooks[case](), saver, SyncTrainingInfoHook(), noted]
    config = sync_config(folder)
    if door == "function":
        result = distributed_sync_train(config, Dated.params(), user_hooks=given)
    else:
        task = Dated()
        for hook in given:
            task.add_training_hook(hook)
        result = mono.Estimator(task, config).train()
    return result.global_step, noted.times[-1]


def steered_in_all_ways(folder, cases):
    """Be a rank that is steered in one way after another; rank 0 leaves the files."""
    found = {}
    for (case, door), (name, text) in cases.items():
        place = folder / f"{case}-{door}"
        place.mkdir(exist_ok=True)
        if name and os.environ["RANK"] == "0":
            (place / name).write_text(text)
        found[case, door] = steered(place, case, door)
    return found


SERVED = 48 * EVENTS
"""Events of the data service; in batches, those of each of its six splits are as many for both ranks."""


def served_events():
    """Return what the data service reads."""
    return events_source(SERVED)


def count_served(folder, dispatcher):
    """Be a rank that reads from a data service; return its steps and how it ended."""
    config = config_of(folder, sync_row_gradients="sum", use_dataservice=True, data_service_dispatcher=dispatcher)
    result = mono.Estimator(Counting, config, params={"events": 0}).train()
    return result.global_step, result.ending
