"""Data read by processes of its own: a dispatcher gives out splits, workers read them, trainers pull the batches.

`ServiceSource` says what is promised when processes die.
"""

from monolith.data.service.dispatch.dispatcher import Dispatcher, DispatcherConfig
from monolith.data.service.dispatch.ledger_file import DispatcherInUseError
from monolith.data.service.input_name import load_input
from monolith.data.service.status import service_status
from monolith.data.service.trainer.service_source import ServiceSource
from monolith.data.service.worker.data_worker import DataWorker, DataWorkerConfig

__all__ = [
    "DataWorker",
    "DataWorkerConfig",
    "Dispatcher",
    "DispatcherConfig",
    "DispatcherInUseError",
    "ServiceSource",
    "load_input",
    "service_status",
]
