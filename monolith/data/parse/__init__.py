"""Serialized records in, columns out: tf.Example, and Example, ExampleBatch and Instance of the original."""

from monolith.data.parse.bad_record import BadRecord, BadRecordError, MissingFeatureError
from monolith.data.parse.column_request import FLT_MIN, INVALID_LABEL, ColumnRequest, label_column, weight_column
from monolith.data.parse.formats import ExampleBatchParser, ExampleParser, InstanceParser, TfExampleParser
from monolith.data.parse.line_id_field import line_id_column
from monolith.data.parse.parse_functions import parse_example_batch, parse_examples, parse_instances, parse_tf_examples
from monolith.data.parse.record_parser import ParsedRecords, RecordParser, records_of
from monolith.data.parse.tf_example_conversion import tf_example_to_example

__all__ = [
    "FLT_MIN",
    "INVALID_LABEL",
    "BadRecord",
    "BadRecordError",
    "ColumnRequest",
    "ExampleBatchParser",
    "ExampleParser",
    "InstanceParser",
    "MissingFeatureError",
    "ParsedRecords",
    "RecordParser",
    "TfExampleParser",
    "label_column",
    "line_id_column",
    "parse_example_batch",
    "parse_examples",
    "parse_instances",
    "parse_tf_examples",
    "records_of",
    "tf_example_to_example",
    "weight_column",
]
