"""Signatures of an export: the heads of the model, and each set of its extra outputs."""

import numpy as np
import pytest
import torch

import monolith.model as mono
from monolith.errors import CorruptFileError
from monolith.export import import_saved_model, load_export, newest_export
from tests.export.crafted import rewrite
from tests.export.two_heads import columns, exported, predicted


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("heads"))


def test_a_signature_gives_its_outputs_under_its_own_names(heads):
    estimator, base = heads
    expected = predicted(estimator)
    assert list(expected) == ["click", "buy", "vectors/user", "vectors/movie", "logit/click"]
    for signature, names in {
        None: {"click": "click", "buy": "buy"},
        "serving_default": {"click": "click", "buy": "buy"},
        "vectors": {"user": "vectors/user", "movie": "vectors/movie"},
        "logit": {"click": "logit/click"},
    }.items():
        with import_saved_model(base, output_name=None, signature=signature) as infer:
            found = infer(columns())
        assert list(found) == list(names)
        for name, own in names.items():
            np.testing.assert_allclose(found[name], expected[own], rtol=0, atol=1e-6)


def test_the_only_output_of_a_signature_may_have_any_name(heads):
    with import_saved_model(heads[1], signature="logit") as infer:
        assert list(infer(columns())) == ["output"]
    with import_saved_model(heads[1], output_name="movie", signature="vectors") as infer:
        assert list(infer(columns())) == ["movie"]


def test_an_output_of_another_signature_is_refused(heads):
    with pytest.raises(ValueError, match="no output 'user'; choose output_name from click, buy"):
        import_saved_model(heads[1], output_name="user").__enter__()
    with pytest.raises(ValueError, match="no signature 'user'; .* serving_default, vectors, logit"):
        import_saved_model(heads[1], signature="user").__enter__()


def test_the_description_says_which_head_an_output_belongs_to(heads):
    signatures = load_export(newest_export(heads[1])).signatures
    assert (signatures["logit"].head_name, signatures["logit"].head_type) == ("click", "classification")
    assert (signatures["vectors"].head_name, signatures["vectors"].head_type) == (None, "embedding")


def test_an_export_from_before_signatures_has_one_with_all_outputs(tmp_path):
    _, base = exported(tmp_path)
    rewrite(newest_export(base), lambda fields: fields.pop("signatures"))
    with import_saved_model(base, output_name=None) as infer:
        assert list(infer(columns())) == ["click", "buy", "vectors/user", "vectors/movie", "logit/click"]


@pytest.mark.parametrize(
    ("signatures", "message"),
    [
        ({"vectors": {"outputs": {"user": "vectors/user"}}}, "must have 'serving_default'"),
        ({"serving_default": {"outputs": {"user": "nobody"}}}, "has the output 'nobody', which the model has not"),
        ({"serving_default": {"outputs": {}}}, "a signature has outputs"),
        ({"serving_default": {"outputs": {"click": 3}}}, "names that are texts"),
        ({"serving_default": {"outputs": {"click": "click"}, "head_name": []}}, "names that are texts"),
        ({"serving_default": []}, "TypeError"),
        ([], "'signatures' must be an object"),
    ],
)
def test_crafted_signatures_are_refused(tmp_path, heads, signatures, message):
    path = tmp_path / "1"
    path.mkdir()
    (path / "model.json").write_bytes((newest_export(heads[1]) / "model.json").read_bytes())
    rewrite(path, lambda fields: fields.update(signatures=signatures))
    with pytest.raises(CorruptFileError, match=message):
        load_export(path)


def test_a_name_is_taken_once():
    model = mono.MonolithModel()
    model.add_extra_output("vectors", {"user": torch.zeros(1)})
    with pytest.raises(KeyError, match="key vectors exists!"):
        model.add_extra_output("vectors", {"movie": torch.zeros(1)})
    with pytest.raises(KeyError, match="key serving_default exists!"):
        model.add_extra_output("serving_default", torch.zeros(1))
    with pytest.raises(ValueError, match="'nothing' has no tensors"):
        model.add_extra_output("nothing", {})
