"""Exports whose checksums fit and whose content does not: refused with one clear error, whatever is in them."""

import copy
import json
import os
import random
import shutil

import onnx
import pytest

from monolith.errors import CorruptFileError
from monolith.export import load_export, load_newest_export
from monolith.model import LookupPlan
from tests.export.crafted import rewrite, rewrite_graph
from tests.export.movie import export


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    return export(tmp_path_factory.mktemp("intact"), 1)


@pytest.fixture
def path(tmp_path, intact):
    return shutil.copytree(intact, tmp_path / "1")


def row(fields, **changes):
    fields["rows"]["row/mov/bias"].update(changes)


def read_as_lists(fields):
    fields["signature"]["inputs"][2].update(shape=[-1, -1], datatype="INT64")


def name_like_lengths(fields):
    fields["signature"]["inputs"][0].update(shape=[-1, -1])
    fields["signature"]["inputs"][2].update(name="uid:lengths")


def name_another_output(fields):
    fields["signature"]["outputs"][0].update(name="score")
    fields["signatures"]["serving_default"]["outputs"] = {"score": "score"}


def make_enormous_sequences(fields):
    fields["plan"]["features"][0].update(combiner="first_n", max_seq_length=2**40)
    fields["plan_hash"] = LookupPlan.from_json(json.dumps(fields["plan"])).hash


MODELS = {
    "a name that is a number": (lambda f: f.update(name=7), "'name' must be a text, got 7"),
    "no sequence": (lambda f: f.pop("sequence"), "KeyError: \"'sequence'\""),
    "a negative generation": (lambda f: f.update(generation=-1), "'generation' must be a number from 0 on, got -1"),
    "a version that is true": (lambda f: f.update(version=True), "'version' must be a number from 0 on, got True"),
    "a time without end": (lambda f: f.update(created=float("inf")), "'created' must be a number of seconds, got inf"),
    "files that are a list": (lambda f: f.update(files=[]), "'files' must be an object"),
    "a file without a checksum": (lambda f: f["files"].update({"dense.onnx": {"bytes": 1}}), "KeyError"),
    "an unlisted graph": (lambda f: f["files"].pop("dense.onnx"), "does not list dense.onnx"),
    "no segments": (lambda f: f["tables"]["mov"].pop("segments"), "KeyError: \"'segments'\""),
    "a row beyond the end": (lambda f: row(f, offset=10_000), "the plan says otherwise"),
    "a row of another width": (lambda f: row(f, dim=2), "the plan says otherwise"),
    "a row of another table": (lambda f: row(f, table="uid"), "the plan says otherwise"),
    "a row of no feature": (lambda f: row(f, feature="nobody"), "the plan says otherwise"),
    "a row of no slice": (lambda f: row(f, slice="nothing"), "the plan says otherwise"),
    "a table of another width": (
        lambda f: f["tables"]["mov"].update(segments=[{"dim": 9, "compressor": "fp32"}], dim=9),
        "its tables have segments of",
    ),
    "a table too few": (lambda f: f["tables"].pop("uid"), "its tables have segments of"),
    "a table elsewhere": (lambda f: f["tables"]["mov"].update(files="tables/../../x"), "has its files in"),
    "another number of rows": (lambda f: f["tables"]["mov"].update(num_rows=1), "has 200 rows, model.json says 1"),
    "a plan of nothing": (lambda f: f.update(plan={}), "this is no lookup plan"),
    "another plan hash": (lambda f: f.update(plan_hash=1), "its plan has the hash"),
    "a column of no input": (lambda f: f["columns"].update({"column/hour": "minute"}), "which is no input"),
    "an input twice": (lambda f: f["signature"]["inputs"].append(f["signature"]["inputs"][0]), "two tensors have"),
    "an input of an unknown type": (lambda f: f["signature"]["inputs"][0].update(datatype="TEXT"), "unknown datatype"),
    "ids that are floats": (lambda f: f["signature"]["inputs"][0].update(datatype="FP32"), "are no INT64 or"),
    "an input without a batch": (lambda f: f["signature"]["inputs"][0].update(shape=[3]), "a shape is -1 and then"),
    "an enormous input": (lambda f: f["signature"]["inputs"][0].update(shape=[-1, 2**40]), "would have more than"),
    "null as a fraction": (lambda f: f["signature"]["inputs"][0].update(missing=0.5), "null cannot stand for 0.5 in"),
    "null as NaN": (lambda f: f["signature"]["inputs"][2].update(missing=float("nan")), "null cannot stand for nan"),
    "null as an enormous id": (lambda f: f["signature"]["inputs"][0].update(missing=2**63), "null cannot stand for"),
    "lists of floats": (lambda f: f["signature"]["inputs"][2].update(shape=[-1, -1]), "lists hold INT64 or BYTES"),
    "lists that the graph reads": (read_as_lists, "which is no input, or one of lists"),
    "lengths that are an input": (name_like_lengths, "two tensors have the name 'uid:lengths'"),
    "an output of texts": (lambda f: f["signature"]["outputs"][0].update(datatype="BYTES"), "outputs hold numbers"),
    "enormous sequences": (make_enormous_sequences, "an example would look up"),
    "another width of an input": (lambda f: f["signature"]["inputs"][2].update(shape=[-1, 4]), "'column/hour' is not"),
    "another output": (name_another_output, "has the outputs ['pred']"),
    "an output of another type": (lambda f: f["signature"]["outputs"][0].update(datatype="INT64"), "'pred' is not"),
    "a weight that is not there": (lambda f: f["weights"].update({"nothing": "model.x"}), "reads the weight 'nothing'"),
    "a weight that is not fed": (lambda f: f["weights"].popitem(), "dense.onnx"),
}


@pytest.mark.parametrize(("change", "message"), MODELS.values(), ids=MODELS)
def test_a_crafted_description_is_refused_by_name(path, change, message):
    rewrite(path, change)
    with pytest.raises(CorruptFileError) as caught:
        load_export(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


def places(value, place=()):
    """Every place in a JSON value."""
    yield place
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from places(member, (*place, key))


OTHERS = [None, True, -1, 0, 2**70, 1.5, float("nan"), "", "x" * 1000, "../..", [], [[]], {}, {"": None}]


def test_any_other_value_anywhere_is_loaded_or_refused_clearly(path, intact):
    """Nothing but a CorruptFileError, and a reader that does not stumble over it later."""
    fields = json.loads((intact / "model.json").read_text())
    original = {name: member for name, member in fields.items() if name != "crc32c"}
    everywhere = [place for place in places(original) if place and place[0] not in ("format", "major")]
    dice = random.Random(5)
    outcomes = set()
    for _ in range(250):
        place, value = dice.choice(everywhere), dice.choice(OTHERS)

        def change(fields, place=place, value=value):
            # Everything back to what it was, then one place other than that.
            fields.clear()
            fields.update(copy.deepcopy(original))
            for key in place[:-1]:
                fields = fields[key]
            fields[place[-1]] = value

        rewrite(path, change)
        try:
            load_export(path)
            outcomes.add("loaded")
        except CorruptFileError as error:
            assert len(str(error)) < 1000, place
            outcomes.add("refused")
        except Exception as error:
            error.add_note(f"{place} = {value!r}")
            raise
    assert "refused" in outcomes


def external(tensor, **settings):
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in settings.items():
        tensor.external_data.add(key=key, value=str(value))


def weight(model):
    return next(tensor for tensor in model.graph.initializer if tensor.name == "model.tower.0.weight")


def moved(**changes):
    def change(model):
        tensor = weight(model)
        settings = {entry.key: entry.value for entry in tensor.external_data}
        external(tensor, **{**settings, **changes})

    return change


def constant_node(model):
    node = model.graph.node.add(op_type="Constant", output=["unread"])
    attribute = node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
    attribute.t.data_type, attribute.t.name = onnx.TensorProto.FLOAT, "hidden"
    external(attribute.t, location="../../secret", offset=0, length=4)


def branch(model):
    inner = onnx.helper.make_graph([], "inner", [], [])
    tensor = inner.initializer.add(name="hidden", data_type=onnx.TensorProto.FLOAT)
    external(tensor, location="dense.safetensors", offset=0, length=4)
    node = model.graph.node.add(op_type="If", input=["model.temperature"])
    node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g.CopyFrom(inner)


def another_initializer(model):
    tensor = model.graph.initializer.add(name="hidden", data_type=onnx.TensorProto.FLOAT)
    external(tensor, location="dense.safetensors", offset=0, length=4)


GRAPHS = {
    "weights elsewhere": (moved(location="/etc/passwd"), "weight 'model.tower.0.weight' must be at"),
    "weights above the folder": (moved(location="../../secret"), "must be at"),
    "weights of another weight": (moved(offset=8), "must be at"),
    "weights without end": (moved(length=2**62), "must be at"),
    "weights with a checksum of their own": (moved(checksum="00"), "must be at"),
    "a weight inside": (lambda m: weight(m).ClearField("data_location"), "must be at"),
    "a weight of another shape": (lambda m: weight(m).dims.__setitem__(0, 3), "has the shape [3, 12]"),
    "a weight of another type": (lambda m: setattr(weight(m), "data_type", onnx.TensorProto.DOUBLE), "has the shape"),
    "a weight twice": (lambda m: m.graph.initializer.append(weight(m)), "two weights of one name"),
    "no weight": (lambda m: m.graph.initializer.remove(weight(m)), "has no weight 'model.tower.0.weight'"),
    "external data of a node": (constant_node, "'hidden', which is no weight, has its data in another file"),
    "external data of a branch": (branch, "'hidden', which is no weight, has its data in another file"),
    "external data of a constant": (another_initializer, "'hidden', which is no weight, has its data in another file"),
    "another input": (lambda m: setattr(m.graph.input[0], "name", "row/x"), "is not the one of model.json"),
    "nothing": (lambda m: m.Clear(), "has no weight"),
}


@pytest.mark.parametrize(("change", "message"), GRAPHS.values(), ids=GRAPHS)
def test_a_crafted_graph_is_refused_before_the_runtime_sees_it(path, monkeypatch, change, message):
    monkeypatch.setattr("monolith.export.load.DenseSession", lambda *_, **__: pytest.fail("the runtime saw it"))
    rewrite_graph(path, change)
    with pytest.raises(CorruptFileError) as caught:
        load_export(path)
    assert message in str(caught.value)


def test_a_graph_that_cannot_run_is_refused_when_it_is_loaded(path):
    def break_it(model):
        node = next(node for node in model.graph.node if node.op_type in ("Gemm", "MatMul"))
        model.graph.node.add(op_type="Reshape", input=[node.output[0], "shape"], output=["unread"])
        shape = onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [2], [5, 7])
        model.graph.initializer.append(shape)
        model.graph.output.add().CopyFrom(
            onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, ["batch", 7])
        )
        model.graph.node.add(op_type="Identity", input=["unread"], output=["more"])

    rewrite_graph(path, break_it)
    more = {"name": "more", "datatype": "FP32", "shape": [-1, 7]}
    rewrite(path, lambda fields: fields["signature"]["outputs"].append(more))
    with pytest.raises(CorruptFileError, match=r"dense\.onnx is no graph that ONNX Runtime can run"):
        load_export(path)


@pytest.mark.parametrize(
    "name", ["model.json", "dense.onnx", "dense.safetensors", "tables/mov-00000-of-00001", "tables"]
)
def test_a_symbolic_link_inside_a_version_is_refused(path, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    (path / name).rename(elsewhere)
    (path / name).symlink_to(elsewhere)
    with pytest.raises(CorruptFileError, match=f"{name} is a symbolic link"):
        load_export(path)


def test_a_link_that_nobody_lists_is_refused_too(path):
    (path / "tables" / "more").symlink_to("/etc/passwd")
    with pytest.raises(CorruptFileError, match="more is a symbolic link"):
        load_export(path)


def test_the_base_may_be_a_symbolic_link(path, tmp_path):
    (tmp_path / "base").symlink_to(path.parent)
    assert load_export(tmp_path / "base" / "1").version == 1


def test_the_newest_whole_version_is_loaded(path, caplog):
    base = path.parent
    for number in (2, 3, 10):
        shutil.copytree(path, base / str(number))
        rewrite(base / str(number), lambda fields, number=number: fields.update(version=number))
    (base / "10" / "dense.onnx").unlink()
    rewrite(base / "3", lambda fields: fields.pop("rows"))
    model, num_damaged = load_newest_export(base)
    assert (model.version, num_damaged) == (2, 2)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [os.path.join(str(base), number) in text for number, text in zip(("10", "3"), warnings, strict=True)]
    assert all("version 2 is served in place of a newer one" in text for text in warnings)


def test_if_all_are_damaged_the_error_is_that_of_the_newest(path):
    shutil.copytree(path, path.parent / "2")
    for number in ("1", "2"):
        (path.parent / number / "dense.onnx").unlink()
    with pytest.raises(CorruptFileError, match=r"2/dense\.onnx is missing"):
        load_newest_export(path.parent)
