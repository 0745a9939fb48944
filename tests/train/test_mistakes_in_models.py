"""Mistakes in a model: said before the first step, with the thing, the value and the way out."""

import warnings

import pytest
import torch
from torch import nn

import monolith as mono

COLUMNS = {
    "uid": [1, 2, 3, 4],
    "genres": [[1, 2], [], [3], [4, 5, 6]],
    "label": [0.0, 1.0, 1.0, 0.0],
    "count": [1, 0, 2, 5],
}


class Small(mono.MonolithModel):
    """A model that is right, to be made wrong."""

    def __init__(self, params=None):
        super().__init__(params)
        self.tower = nn.Linear(8, 1)
        self.optimizer = torch.optim.Adam(self.parameters())

    def input_fn(self, mode):
        return mono.data.arrays({**COLUMNS, **(self.params or {})}, batch_size=2)

    def logit(self, features):
        user, genres = self.lookup_embedding_slice(["uid", "genres"], slice_dim=4)
        return self.tower(torch.cat([user, genres], 1)).squeeze(1)

    def label(self, features):
        return features["label"]

    def model_fn(self, features, mode):
        pred = self.logit(features).sigmoid()
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=pred)
        label = self.label(features)
        loss = nn.functional.binary_cross_entropy(pred, label)
        return mono.EstimatorSpec(label=label, pred=pred, loss=loss, optimizer=self.optimizer)


class Late(Small):
    def __init__(self, params=None):
        super().__init__(params)
        self.head = nn.Linear(1, 1)

    def logit(self, features):
        return self.head(super().logit(features)[:, None]).squeeze(1)


class Typing(Small):
    def label(self, features):
        return features["lable"]


class Classes(Small):
    """Its loss wants numbers of classes."""

    def model_fn(self, features, mode):
        logits = self.logit(features)[:, None].expand(-1, 2)
        loss = nn.functional.cross_entropy(logits, features["label"])
        return mono.EstimatorSpec(label=None, pred=logits[:, 0], loss=loss, optimizer=self.optimizer)


class ReadsLists(Small):
    def logit(self, features):
        return super().logit(features) + features["genres"].row_lengths()


class AsksForLists(Small):
    """An export must not take the way of data without the column."""

    def logit(self, features):
        genres = features.get("genres")
        return super().logit(features) + (0 if genres is None else genres.row_lengths())


class ReadsListsInTraining(Small):
    def label(self, features):
        return features["label"] + 0 * features["genres"].row_lengths()


class OnePrediction(Small):
    def model_fn(self, features, mode):
        spec = super().model_fn(features, mode)
        return spec._replace(pred=spec.pred.mean()) if mode == mono.PREDICT else spec


@pytest.fixture
def settings(tmp_path):
    return mono.RunConfig(model_dir=tmp_path / "model", log_step_count_steps=0)


def test_a_layer_made_after_the_optimizer_is_named(settings):
    with pytest.raises(
        ValueError,
        match=r"Late: the optimizer does not have the trainable weights head\.weight, head\.bias, so they would never "
        r"change\. Make the optimizer after all layers.*requires_grad_\(False\)",
    ):
        mono.Estimator(Late, settings).train()


def test_a_frozen_layer_needs_no_optimizer(settings):
    model = Late()
    model.head.requires_grad_(False)
    assert mono.Estimator(model, settings).train().global_step == 2


def test_a_model_that_steps_a_weight_itself_needs_no_optimizer_for_it(settings):
    class Stepping(Late):
        def dense_step(self, optimizer):
            super().dense_step(optimizer)
            with torch.no_grad():
                self.head.weight -= 0.1 * self.head.weight.grad

    assert mono.Estimator(Stepping, settings).train().global_step == 2


def test_a_column_with_a_typing_error_names_the_columns_the_closest_first(settings):
    with pytest.raises(KeyError, match="no column 'lable'; did you mean 'label'.* are label, uid, genres, count"):
        mono.Estimator(Typing, settings).train()


@pytest.mark.parametrize(
    ("model", "label", "message"),
    [
        (
            Small,
            [0, 1, 1, 0],
            r"column 'label' is int64; as float32 it works.*features\['label'\]\.to\(torch\.float32\)",
        ),
        (Classes, [0.0, 1.0, 1.0, 0.0], r"column 'label' is float32; as int64 it works.*\.to\(torch\.int64\)"),
    ],
)
def test_a_label_of_the_wrong_type_names_the_column(settings, model, label, message):
    with pytest.raises(ValueError, match=message) as caught:
        mono.Estimator(model, settings, params={"label": label}).train()
    assert caught.value.__cause__ is not None


def test_an_error_that_no_other_type_helps_stays_as_it_is(settings):
    class Wrong(Small):
        def label(self, features):
            return features["label"][:1].repeat(3) + features["count"][:1]

    with pytest.raises(ValueError, match="size"):
        mono.Estimator(Wrong, settings).train()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ReadsLists, "cannot be exported: the predictions read the values of 'genres', .* lookup_embedding_slice"),
        (OnePrediction, r"cannot be exported: output 'pred' has the shape \[\] for 2 events"),
    ],
)
def test_what_cannot_be_exported_is_said_before_training(settings, tmp_path, model, message):
    with pytest.warns(UserWarning, match=message):
        assert mono.Estimator(model, settings).train().global_step == 2
    live = mono.RunConfig(model_dir=tmp_path / "live", export_base=str(tmp_path / "versions"), log_step_count_steps=0)
    with pytest.raises(ValueError, match=message):
        mono.Estimator(model, live).train()
    assert not (tmp_path / "versions").exists()


def test_half_precision_weights_cannot_be_exported(settings):
    class Half(Small):
        def __init__(self, params=None):
            super().__init__(params)
            self.register_buffer("scale", torch.ones(1, dtype=torch.bfloat16))

    with pytest.warns(UserWarning, match=r"cannot be exported: weight 'scale' is half precision.*\.float\(\)"):
        mono.Estimator(Half, settings).train()


def test_lists_that_only_training_reads_are_no_obstacle(settings, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        estimator = mono.Estimator(ReadsListsInTraining, settings)
        estimator.train()
    assert estimator.export_saved_model(export_base=tmp_path / "versions").is_dir()


@pytest.mark.parametrize("model", [ReadsLists, AsksForLists])
def test_an_export_says_the_same_as_the_warning(settings, tmp_path, model):
    with pytest.warns(UserWarning, match="the predictions read the values of 'genres'"):
        estimator = mono.Estimator(model, settings)
        estimator.train()
    with pytest.raises(ValueError, match="the predictions read the values of 'genres'"):
        estimator.export_saved_model(export_base=tmp_path / "versions")
