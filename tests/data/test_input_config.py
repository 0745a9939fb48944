"""Settings of a run say what sources leave open; what code says wins."""

import pytest

import monolith as mono
from monolith.data import PbFileWriter, PbFraming, TFRecordWriter
from monolith.data.input_config import InputConfig, current_input, input_settings
from monolith.features import FeatureList
from monolith.model import Mode
from monolith.protos.example_pb2 import Example
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import RunSettings


def settings_of(**settings) -> InputConfig:
    """What a run makes of flat names."""
    return RunSettings.of(RunnerConfig(model_dir="unused", **settings), mono.MonolithModel()).input


def records(pipeline) -> list[bytes]:
    return [bytes(row) for batch in pipeline for row in batch.columns["record"].to_list()]


def test_kafka_takes_topics_servers_and_group_from_the_settings():
    given = settings_of(kafka_topics="clicks,views", kafka_servers="broker:9", kafka_group_id="readers")
    with input_settings(given):
        source = mono.data.kafka(batch_size=4).source
        named = mono.data.kafka(["own"], "elsewhere:1", batch_size=4, group_id="mine").source
        topics_alone = mono.data.kafka(["own"], batch_size=4).source
    assert (source.topics, source._settings.where) == (("clicks", "views"), "broker:9")
    assert source._settings.group_id == "readers"
    assert (named.topics, named._settings.where, named._settings.group_id) == (("own",), "elsewhere:1", "mine")
    assert (topics_alone.topics, topics_alone._settings.where) == (("own",), "broker:9")


def test_kafka_without_a_topic_says_where_to_name_one():
    with pytest.raises(ValueError, match="name topics here, or kafka_topics in the settings"):
        mono.data.kafka(batch_size=4)
    assert mono.data.kafka(["own"], batch_size=4).source._settings.where == "localhost:9092"


@pytest.mark.parametrize(
    ("settings", "patterns"),
    [
        ({}, ["in/*"]),
        ({"wildcard": "part-*"}, ["in/part-*"]),
        ({"start_date": "20240131", "end_date": "20240202"}, ["in/20240131/*", "in/20240201/*"]),
        ({"start_date": "20240131", "end_date": "20240201", "wildcard": "*.pb"}, ["in/20240131/*.pb"]),
        (
            {"start_date": "20240131", "start_hour": 23, "end_date": "20240201", "end_hour": 1, "is_hourly": True},
            ["in/20240131/23*", "in/20240201/00*"],
        ),
    ],
)
def test_the_files_of_days_and_hours(settings, patterns):
    assert settings_of(input_path="in", **settings).files == patterns
    assert settings_of(**settings).files is None


def test_days_without_an_end_are_refused():
    with pytest.raises(ValueError, match="end_date is missing"):
        _ = settings_of(input_path="in", start_date="20240131").files


def test_hours_without_files_are_left_out_with_one_warning(tmp_path):
    for hour in ("03", "07"):
        (tmp_path / f"20240131/{hour}").mkdir(parents=True)
        (tmp_path / f"20240131/{hour}/part.csv").write_text(f"uid\n{hour}\n")
    days = {"start_date": "20240131", "end_date": "20240201", "is_hourly": True, "wildcard": "/*.csv"}
    with input_settings(settings_of(input_path=str(tmp_path), **days)):
        with pytest.warns(UserWarning, match=r"'.*20240131/00/\*\.csv' matches no file; 22 of 24 patterns") as warned:
            source = mono.data.csv(uid="int64")
        assert len(warned) == 1
    assert [uid for batch in source for uid in batch.columns["uid"].tolist()] == [3, 7]
    with pytest.raises(FileNotFoundError, match="no match files"), input_settings(settings_of(input_path="nowhere")):
        mono.data.csv(uid="int64")


@pytest.fixture
def folders(tmp_path):
    """Two folders of one file each, which says where it is."""
    for name in ("settings", "code"):
        (tmp_path / name).mkdir()
    return tmp_path


def write_tfrecord(path, record):
    with TFRecordWriter(str(path)) as writer:
        writer.write(record)


def test_tfrecord_files_of_the_settings_and_of_code(folders):
    for name in ("settings", "code"):
        write_tfrecord(folders / name / "part-0", name.encode())
    with input_settings(settings_of(input_path=str(folders / "settings"))):
        assert records(mono.data.tfrecord(batch_size=2)) == [b"settings"]
        assert records(mono.data.tfrecord(f"{folders}/code/*", batch_size=2)) == [b"code"]


def columns_of_files(make, folders, suffix, text):
    for name, uid in (("settings", 1), ("code", 2)):
        (folders / name / f"part-0.{suffix}").write_text(text.format(uid=uid))
    with input_settings(settings_of(input_path=str(folders / "settings"), wildcard=f"*.{suffix}")):
        found = [make(uid="int64"), make(f"{folders}/code/*.{suffix}", uid="int64")]
    return [batch.columns["uid"].tolist() for pipeline in found for batch in pipeline]


def test_csv_and_json_files_of_the_settings_and_of_code(folders):
    assert columns_of_files(mono.data.csv, folders, "csv", "uid\n{uid}\n") == [[1], [2]]
    assert columns_of_files(mono.data.jsonl, folders, "jsonl", '{{"uid": {uid}}}\n') == [[1], [2]]


@pytest.mark.parametrize(("make", "suffix"), [(mono.data.parquet, "parquet"), (mono.data.arrow, "arrow")])
def test_column_files_of_the_settings_and_of_code(make, suffix, folders):
    pyarrow = pytest.importorskip("pyarrow")
    feather, parquet = pytest.importorskip("pyarrow.feather"), pytest.importorskip("pyarrow.parquet")
    for name, uid in (("settings", 1), ("code", 2)):
        table, path = pyarrow.table({"uid": [uid]}), str(folders / name / f"part-0.{suffix}")
        parquet.write_table(table, path) if suffix == "parquet" else feather.write_feather(table, path)
    with input_settings(settings_of(input_path=str(folders / "settings"))):
        found = [make(), make(f"{folders}/code/*")]
    assert [batch.columns["uid"].tolist() for pipeline in found for batch in pipeline] == [[1], [2]]


def test_without_a_path_every_file_source_says_where_to_name_one():
    columns = {"uid": "int64"}
    for make in (mono.data.tfrecord, mono.data.pb_files, mono.data.parquet, mono.data.arrow):
        with pytest.raises(ValueError, match="name files here, or input_path in the settings"):
            make(batch_size=2)
    for make in (mono.data.csv, mono.data.jsonl):
        with pytest.raises(ValueError, match="name files here, or input_path in the settings"):
            make(**columns)


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"sort_id": False},
        {"kafka_dump": True},
        {"kafka_dump_prefix": True},
        {"lagrangex_header": True, "sort_id": False},
    ],
)
def test_the_framing_of_pb_files_is_that_of_the_settings_unless_code_says(flags, tmp_path):
    names = {"sort_id": "has_sort_id"}
    framing = PbFraming(**{names.get(name, name): value for name, value in flags.items()})
    assert settings_of(**flags).framing == framing
    plain = PbFraming(has_sort_id=False)
    for name, how in (("settings", framing), ("code", plain)):
        (tmp_path / name).mkdir()
        with PbFileWriter(str(tmp_path / name / "part-0"), framing=how) as writer:
            writer.write(name.encode())
    with input_settings(settings_of(input_path=str(tmp_path / "settings"), **flags)):
        assert records(mono.data.pb_files(batch_size=2)) == [b"settings"]
        assert records(mono.data.pb_files(f"{tmp_path}/code/*", batch_size=2, framing=plain)) == [b"code"]


def parsed(*form):
    """A record that is an Example of the original, parsed by what settings or code say it is."""
    example = Example()
    example.label.append(1.0)
    stream = mono.data.iterable(lambda: [{"record": example.SerializeToString()}], batch_size=1)
    (batch,) = stream.parse(*form, label="float32")
    return batch.columns["label"].tolist()


def test_the_form_of_records_is_that_of_the_settings_unless_code_says():
    assert parsed("example") == [1.0]
    for spelling in ("Example", "example", "EXAMPLE"):
        with input_settings(settings_of(data_type=spelling)):
            assert parsed() == [1.0]
    with input_settings(settings_of(data_type="Instance")):
        assert parsed("example") == [1.0]
    assert settings_of(data_type="ExampleBatch").record_form == "example_batch"
    with pytest.raises(ValueError, match="data_type must be Instance, Example or ExampleBatch, got 'Banana'"):
        settings_of(data_type="Banana")


def test_the_feature_list_is_that_of_the_settings_unless_code_says(tmp_path):
    for name in ("settings", "code"):
        (tmp_path / name).write_text(f"feature_name=fc_{name} depend=uid slot=1\n")
    with input_settings(settings_of(feature_list=str(tmp_path / "settings"))):
        assert "fc_settings" in FeatureList.parse()
        assert "fc_code" in FeatureList.parse(tmp_path / "code")
    with pytest.raises(ValueError, match="name its file here, or feature_list in the settings"):
        FeatureList.parse()


def test_a_data_service_without_an_address_is_refused():
    with pytest.raises(ValueError, match="set data_service_dispatcher to its address"):
        settings_of(use_dataservice=True)


def test_settings_are_in_force_in_their_block_alone():
    inner, outer = InputConfig(input_path="inner"), InputConfig(input_path="outer")
    with input_settings(outer):
        with pytest.raises(KeyError), input_settings(inner):
            assert current_input() == inner
            raise KeyError
        assert current_input() == outer
    assert current_input() == InputConfig()


class Reader(mono.MonolithModel):
    """Notes what it finds where its source is made, for each mode."""

    def input_fn(self, mode):
        self.found = {**getattr(self, "found", {}), mode: current_input().input_path}
        raise NotImplementedError


def test_a_run_hands_its_settings_to_the_model_that_makes_its_source(tmp_path):
    estimator = mono.Estimator(Reader, RunnerConfig(model_dir=tmp_path, input_path="in"))
    with pytest.raises(NotImplementedError):
        estimator.train()
    assert estimator.model.found == {Mode.TRAIN: "in"}
