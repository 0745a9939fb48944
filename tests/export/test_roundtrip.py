"""A model that was exported and loaded says what torch says."""

import numpy as np
import pytest
import torch

from monolith.export import Export, load_export, trace_model, write_export
from tests.export.movie import SCHEMA, eager, export, randomize, request, trained


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    model, plan, tables = trained()
    path = export(tmp_path_factory.mktemp("export"), 3, model=model, plan=plan, tables=tables, generation=2, sequence=7)
    return model, plan, tables, path


@pytest.mark.parametrize("num_rows", [1, 2, 3, 64, 1000])
def test_predictions_equal_those_of_torch(exported, num_rows):
    model, plan, tables, path = exported
    columns = request(num_rows, seed=num_rows)
    (served,) = load_export(path).predict(columns).values()
    assert served.shape == (num_rows,)
    np.testing.assert_allclose(served, eager(model, plan, tables, columns), rtol=0, atol=1e-6)


def test_an_empty_batch_gives_no_predictions(exported):
    (served,) = load_export(exported[3]).predict(request(0)).values()
    assert served.shape == (0,)


def test_unknown_ids_read_as_zeros(exported):
    model, plan, tables, path = exported
    columns = {**request(4), "mov": np.array([10**12, -5, 10**12, 3])}
    (served,) = load_export(path).predict(columns).values()
    np.testing.assert_allclose(served, eager(model, plan, tables, columns), rtol=0, atol=1e-6)
    assert not tables["mov"].contains(torch.tensor([10**12])).any()


def test_the_signature_is_what_predictions_need(exported):
    served = load_export(exported[3])
    # Neither the label nor the time of the request is read when predicting.
    assert [(spec.name, spec.datatype) for spec in served.signature.inputs] == [
        ("uid", "INT64"),
        ("mov", "INT64"),
        ("hour", "FP32"),
    ]
    assert [(spec.datatype, spec.shape) for spec in served.signature.outputs] == [("FP32", (-1,))]
    assert (served.name, served.version, served.generation, served.sequence) == ("movie_ranking", 3, 2, 7)
    assert served.plan == exported[1]
    assert served.plan_hash == exported[1].hash


def test_new_weights_count_at_once_and_exactly(exported):
    _, plan, tables, path = exported
    served = load_export(path)
    model, _, _ = trained(seed=5)
    randomize(model, torch.Generator().manual_seed(99))
    columns = request(100)
    (before,) = served.predict(columns).values()
    served.swap_dense({name: value.numpy() for name, value in model.state_dict().items()})
    (after,) = served.predict(columns).values()
    np.testing.assert_allclose(after, eager(model, plan, tables, columns), rtol=0, atol=1e-6)
    assert np.abs(after - before).max() > 0.1


def test_every_single_weight_can_be_swapped(exported):
    """None is folded into another: a change of each alone is a change of the predictions, as in torch."""
    _, plan, tables, path = exported
    model, _, _ = trained()
    columns = request(50)
    for name, value in model.state_dict().items():
        if not value.is_floating_point() or name == "unread_when_predicting":
            continue
        served = load_export(path)
        (before,) = served.predict(columns).values()
        with torch.no_grad():
            value += 0.25
        served.swap_dense({name: value.numpy()})
        (after,) = served.predict(columns).values()
        np.testing.assert_allclose(after, eager(model, plan, tables, columns), rtol=0, atol=1e-6, err_msg=name)
        assert np.abs(after - before).max() > 1e-4, name
        with torch.no_grad():
            value -= 0.25


def test_a_swap_that_does_not_fit_changes_nothing(exported):
    served = load_export(exported[3])
    before = served.predict(request(5))
    new = {name: value + 1 for name, value in served.dense_weights.items()}
    with pytest.raises(ValueError, match=r"no dense weight 'tower\.9\.weight'; the weights are .*tower\.0\.weight"):
        served.swap_dense({**new, "tower.9.weight": np.zeros(3, np.float32)})
    with pytest.raises(
        ValueError, match=r"'tower\.0\.bias' must be float32 of shape \[16\], got float32 of shape \[17\]"
    ):
        served.swap_dense({**new, "tower.0.bias": np.zeros(17, np.float32)})
    np.testing.assert_array_equal(list(served.predict(request(5)).values()), list(before.values()))


def test_the_caller_may_go_on_using_its_arrays(exported):
    served = load_export(exported[3])
    weights = {name: np.array(value) for name, value in served.dense_weights.items()}
    served.swap_dense(weights)
    before = served.predict(request(5))
    for value in weights.values():
        value += 3
    np.testing.assert_array_equal(list(served.predict(request(5)).values()), list(before.values()))


def test_rows_come_and_go(exported):
    model, plan, tables, path = exported
    served = load_export(path)
    columns = {**request(3), "mov": np.array([900, 901, 5])}
    _, _, changed = trained()
    row = np.arange(14, dtype=np.float32).reshape(2, 7) / 10
    for ids, rows in (([900, 5], row), ([901], row[:1])):
        changed["mov"].assign(torch.tensor(ids), torch.from_numpy(rows))
        read_only = np.array(rows)
        read_only.flags.writeable = False
        served.apply_rows("mov", np.array(ids), read_only)
    (after,) = served.predict(columns).values()
    np.testing.assert_allclose(after, eager(model, plan, changed, columns), rtol=0, atol=1e-6)
    assert served.erase_rows("mov", torch.tensor([901, 777777])) == 1
    changed["mov"].erase(torch.tensor([901]))
    (after,) = served.predict(columns).values()
    np.testing.assert_allclose(after, eager(model, plan, changed, columns), rtol=0, atol=1e-6)


def test_rows_of_a_table_that_is_not_there(exported):
    served = load_export(exported[3])
    with pytest.raises(ValueError, match="no table 'movie'; the tables are mov, uid"):
        served.apply_rows("movie", np.array([1]), np.zeros((1, 7), np.float32))
    with pytest.raises(ValueError, match="table 'mov': values must be 1 x 7"):
        served.apply_rows("mov", np.array([1]), np.zeros((1, 6), np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mov": None}, "input 'mov' is missing; the inputs are uid, mov, hour"),
        ({"movie": np.array([1, 2])}, "there is no input 'movie'; the inputs are uid, mov, hour"),
        ({"uid": np.array([1.0, 2.0])}, r"input 'uid' must be int64, got float64; convert it with .astype\(int64\)"),
        ({"hour": np.array([1, 2])}, "input 'hour' must be float32, got int64"),
        ({"uid": np.array([[1], [2]])}, r"input 'uid' must have shape \[batch\], got \[2, 1\]"),
        ({"uid": np.array([1, 2, 3])}, "same number of rows, or one row .*, got uid 3, mov 2, hour 2"),
        ({"uid": [1.0, 2.0]}, "input 'uid' must be int64, got float64"),
        ({"hour": [1.0, 1e39]}, "input 'hour' must be float32, which does not hold 1e"),
        ({"hour": [[1.0], [2.0, 3.0]]}, "input 'hour' must be numbers in lists of equal length"),
        ({"uid": np.array(["1", "2"])}, "input 'uid' must be int64"),
    ],
)
def test_inputs_that_do_not_fit_are_named(exported, change, message):
    columns = {name: value for name, value in {**request(2), **change}.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        load_export(exported[3]).predict(columns)


def test_a_type_that_fits_without_loss_is_taken(exported):
    served = load_export(exported[3])
    columns = request(3)
    narrow = {**columns, "uid": columns["uid"].astype(np.int32)}
    np.testing.assert_array_equal(*(list(served.predict(one).values()) for one in (columns, narrow)))


def test_plain_lists_are_taken(exported):
    model = load_export(exported[3])
    columns = request(3)
    plain = {name: values.tolist() for name, values in columns.items()}
    assert model.predict(plain)["pred"].tolist() == model.predict(columns)["pred"].tolist()
    assert model.predict({name: [] for name in columns})["pred"].shape == (0,)


@pytest.mark.parametrize("name", ["uid", "hour"])
@pytest.mark.parametrize("num_rows", [0, 1, 5])
def test_one_row_counts_for_all_examples(exported, name, num_rows):
    model = load_export(exported[3])
    columns = request(num_rows)
    columns[name] = request(1)[name]
    repeated = {**columns, name: np.repeat(columns[name], num_rows)}
    assert model.predict(columns)["pred"].tolist() == model.predict(repeated)["pred"].tolist()


def test_questions_are_predicted_together_as_alone(exported):
    model = load_export(exported[3])
    asked = [request(3, seed=1), request(0), {**request(4, seed=2), "uid": np.array([7])}, request(1, seed=3)]
    found = model.predict_together([model.check(columns) for columns in asked])
    for columns, outputs in zip(asked, found, strict=True):
        np.testing.assert_allclose(outputs["pred"], model.predict(columns)["pred"], rtol=0, atol=1e-6)


def test_the_model_goes_on_as_it_was(tmp_path):
    model, plan, tables = trained()
    model.train()
    model.tower[1].eval()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    write_export(tmp_path, 1, Export(model=model, plan=plan, tables=tables, schema=SCHEMA, generation=0, sequence=0))
    assert model.training
    assert not model.tower[1].training
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())


def test_a_graph_is_traced_once_and_written_often(tmp_path):
    model, plan, tables = trained()
    graph = trace_model(model, plan, SCHEMA)
    for version, seed in ((1, 11), (2, 12)):
        randomize(model, torch.Generator().manual_seed(seed))
        path = export(tmp_path, version, model=model, plan=plan, tables=tables, graph=graph)
        columns = request(20)
        (served,) = load_export(path).predict(columns).values()
        np.testing.assert_allclose(served, eager(model, plan, tables, columns), rtol=0, atol=1e-6)
