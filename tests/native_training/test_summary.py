"""Summaries, read back with TensorBoard's own reader."""

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.data.provider import RunTagFilter

from monolith.native_training.summary.summary_ops import feature_insight, feature_insight_data, nas_data
from monolith.native_training.summary.utils import SummaryType, prepare_head
from monolith.observe.summary import PLUGIN_NAME
from monolith.observe.summary.event_files import SummaryWriter, create_summary_metadata

NAMES, SIZES = ["f1", "f2", "f3"], [3, 5, 9]
GROUPS = [["f1", "f2"], ["f3", "f4"], ["f5", "f6"]]
GATING = (
    '{"tag_type": "gating", "segment_names": ["f1", "f2", "f3"], "segment_sizes": [3, 5, 9], "group_index": [0, 0, 1]}'
)
SELECTING = (
    '{"tag_type": "selecting", "segment_names": ["f1", "f2", "f3"], "segment_sizes": [[3, 6], [5, 10], [4, 8, 16]]}'
)
INSIGHT = (
    '{"tag_type": "fi_train", "segment_names": ["f1", "f2", "f3"], "segment_sizes": [2, 2, 2], '
    '"group_index": [0, 1, 2], "label_size": 1}'
)


def test_heads_of_gating_and_selecting():
    head, kind = prepare_head(NAMES, SIZES, GROUPS)
    assert (kind, bytes(head.tolist()).decode()) == (SummaryType.GATING, GATING)
    head, kind = prepare_head(NAMES, [[3, 6], [5, 10], [4, 8, 16]], out_type="json")
    assert (kind, head) == (SummaryType.SELECTING, SELECTING)
    assert prepare_head(None, None, raw_tag="simple", out_type="bytes") == (b"", "simple")
    with pytest.raises(ValueError, match="3 segment names for 2 sizes"):
        prepare_head(NAMES, [1, 2])


def test_groups_are_counted_in_their_order_and_strangers_come_last():
    head, _ = prepare_head(["x", "b", "a"], [1, 1, 1], [["unused"], ["a"], ["b"]], out_type="json")
    assert '"group_index": [2, 1, 0]' in head


def read(folder, tag):
    multiplexer = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    provider = MultiplexerDataProvider(multiplexer, str(folder))
    wanted = dict(experiment_id="0", plugin_name=PLUGIN_NAME, run_tag_filter=RunTagFilter(runs=["."], tags=[tag]))
    info = provider.list_tensors(RequestContext(), **wanted)["."][tag]
    data = provider.read_tensors(RequestContext(), downsample=100, **wanted)["."][tag]
    return info.plugin_content.decode(), data


def test_plugin_data_come_back_with_their_metadata(tmp_path):
    weight = torch.tensor([0.5, 0.8])
    inputs, matrix, label = torch.rand(3, 17), torch.rand(17, 2), torch.tensor([1.0, 0.0, 1.0])
    with SummaryWriter(tmp_path) as writer:
        for step in range(10):
            writer.add_summary(nas_data(weight, NAMES, SIZES, GROUPS), step)
            writer.add_summary(feature_insight_data(inputs, NAMES, SIZES, label=label, weight=matrix), step)
    content, data = read(tmp_path, "gating/monolith_nas_weight")
    assert content == GATING
    assert [one.step for one in data] == list(range(10))
    np.testing.assert_allclose(data[-1].numpy, weight)
    content, data = read(tmp_path, "fi_train/monolith_feature_insight")
    assert content == INSIGHT
    assert data[-1].numpy.shape == (3, 7)
    np.testing.assert_allclose(data[-1].numpy[:, 6], label)
    np.testing.assert_allclose(data[-1].numpy[:, 2:4], inputs[:, 3:8] @ matrix[3:8], rtol=1e-5)


def test_insight_of_segments_adds_up_to_the_layer():
    inputs, matrix = torch.rand(4, 17), torch.rand(17, 2)
    parts = feature_insight(inputs, matrix, SIZES).view(4, 3, 2)
    torch.testing.assert_close(parts.sum(1), inputs @ matrix)
    torch.testing.assert_close(feature_insight(inputs, matrix, SIZES, aggregate=True), parts.square().sum(2))
    with pytest.raises(ValueError, match="do not fit an input of width 17"):
        feature_insight(inputs, matrix, [3, 5])


def test_scalars_and_histograms(tmp_path):
    values = torch.tensor([0.0, 1.0, 1.0, float("nan"), 3.0])
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.25, 7)
        writer.add_histogram("norms", values, 7)
    events = EventAccumulator(str(tmp_path), size_guidance={"histograms": 0})
    events.Reload()
    (loss,), (spread,) = events.Scalars("loss"), events.Histograms("norms")
    assert (loss.step, loss.value) == (7, 0.25)
    values = spread.histogram_value
    assert (spread.step, values.num, values.min, values.max, sum(values.bucket)) == (7, 4, 0.0, 3.0, 4)


def test_metadata_may_be_text_or_bytes():
    assert create_summary_metadata("words", "{}") == create_summary_metadata("words", b"{}")
    assert create_summary_metadata().plugin_data.plugin_name == PLUGIN_NAME
