"""Event files that TensorBoard reads; the one module that needs the `tensorboard` package."""

import os
import socket
import time

import numpy as np
import torch
from torch import Tensor

try:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_TENSOR, HistogramProto, Summary, SummaryMetadata
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util.tensor_util import make_tensor_proto
except ImportError as error:
    raise ImportError(
        "summaries need the tensorboard package: pip install 'monolith-recsys[tensorboard]', or set "
        "save_summary_steps=0"
    ) from error

from monolith.closing import Closing
from monolith.observe.summary import PLUGIN_NAME
from monolith.observe.summary.plugin_tensor import PluginTensor

NUM_HISTOGRAM_BUCKETS = 30


def create_summary_metadata(description: str | None = None, meta_content: bytes | str = b"") -> SummaryMetadata:
    """Return metadata that hands a tensor to the `monolith` plugin."""
    content = meta_content.encode() if isinstance(meta_content, str) else meta_content
    return SummaryMetadata(
        summary_description=description or "",
        data_class=DATA_CLASS_TENSOR,
        plugin_data=SummaryMetadata.PluginData(plugin_name=PLUGIN_NAME, content=content),
    )


def _plugin_summary(one: PluginTensor) -> Summary:
    values = one.values.cpu()
    if values.dtype == torch.bfloat16:  # numpy has no such type
        values = values.float()
    metadata = create_summary_metadata(one.description, one.content)
    return Summary(value=[Summary.Value(tag=one.tag, tensor=make_tensor_proto(values.numpy()), metadata=metadata)])


class SummaryWriter(Closing):
    """Writes summaries of steps to a new event file in a folder.

    Several runs may write to one folder, each to a file of its own.
    """

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        """Make the folder if need be; the file's name has time, host and process in it."""
        os.makedirs(log_dir, exist_ok=True)
        suffix = f".{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self._writer = EventFileWriter(os.fspath(log_dir), filename_suffix=suffix)

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Write one number."""
        self.add_summary(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), step)

    def add_histogram(self, tag: str, values: Tensor, step: int) -> None:
        """Write how values are spread; those that are not finite are left out."""
        array = values.detach().reshape(-1).double().cpu().numpy()
        array = array[np.isfinite(array)]
        if not len(array):
            return
        counts, edges = np.histogram(array, NUM_HISTOGRAM_BUCKETS)
        proto = HistogramProto(
            min=array.min(),
            max=array.max(),
            num=len(array),
            sum=array.sum(),
            sum_squares=np.square(array).sum(),
            bucket_limit=edges[1:].tolist(),
            bucket=counts.tolist(),
        )
        self.add_summary(Summary(value=[Summary.Value(tag=tag, histo=proto)]), step)

    def add_summary(self, summary: Summary | PluginTensor, step: int) -> None:
        """Write a summary that is already made."""
        if isinstance(summary, PluginTensor):
            summary = _plugin_summary(summary)
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def flush(self) -> None:
        """Bring everything to the file."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is left and close the file."""
        self._writer.close()
