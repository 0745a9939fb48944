"""Data read by processes of its own: a dispatcher gives out splits, workers read them, trainers pull the batches.

`ServiceSource` says what is promised when processes die.
"""

from monolith.data_service.dispatch.dispatcher import Dispatcher, DispatcherConfig
from monolith.data_service.dispatch.ledger_file import DispatcherInUseError
from monolith.data_service.input_name import load_input
from monolith.data_service.status import end_service, service_status
from monolith.data_service.trainer.service_source import ServiceSource
from monolith.data_service.worker.data_worker import DataWorker, DataWorkerConfig

__all__ = [
    "DataWorker",
    "DataWorkerConfig",
    "Dispatcher",
    "DispatcherConfig",
    "DispatcherInUseError",
    "ServiceSource",
    "end_service",
    "load_input",
    "service_status",
]
