"""Counters: what Prometheus reads."""

import subprocess
import sys

import pytest

from monolith.observe.metric_client import NoMetrics, get_cli
from monolith.observe.metric_prefix import PREFIX_VARIABLE
from tests.patience import PATIENCE_SECONDS

prometheus_client = pytest.importorskip("prometheus_client")
parser = pytest.importorskip("prometheus_client.parser")
counters = pytest.importorskip("monolith.observe.counters")


def figures(client):
    families = parser.text_string_to_metric_families(client.text())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def client(prefix="monolith.training"):
    return counters.MetricCounters(prefix, prometheus_client.CollectorRegistry())


def test_counters_add_stores_replace_timers_are_counted():
    one = client()
    for value in (2, 3):
        one.emit_counter("run_steps.all", value, "model_name=m|cluster_type=stable")
        one.emit_store("step_loss", value)
        one.emit_timer("save_checkpoint_time", value, "model_name=m")
    found = figures(one)
    tags = (("cluster_type", "stable"), ("model_name", "m"))
    assert found[("monolith_training_run_steps_all_total", tags)] == 5
    assert found[("monolith_training_step_loss", ())] == 3
    assert found[("monolith_training_save_checkpoint_time_sum", (("model_name", "m"),))] == 5
    assert found[("monolith_training_save_checkpoint_time_count", (("model_name", "m"),))] == 2
    assert found[("monolith_training_save_checkpoint_time_bucket", (("le", "3.0"), ("model_name", "m")))] == 2


def test_order_of_tags_does_not_matter_and_values_may_hold_an_equals_sign():
    one = client()
    one.emit_counter("x", 1, "a=1|b=x=y")
    one.emit_counter("x", 1, "b=x=y|a=1")
    assert figures(one)[("monolith_training_x_total", (("a", "1"), ("b", "x=y")))] == 2


@pytest.mark.parametrize("tags", ["a", "=1", "a=1|b"])
def test_tags_that_are_none_are_refused(tags):
    with pytest.raises(ValueError, match="tags look like"):
        client().emit_counter("x", 1, tags)


def test_one_name_means_one_thing():
    one = client()
    one.emit_counter("x", 1, "a=1")
    with pytest.raises(ValueError, match=r"'x' was a counter with tags \['a'\], now it is a gauge with tags \['a'\]"):
        one.emit_store("x", 1, "a=1")
    with pytest.raises(ValueError, match=r"now it is a counter with tags \['a', 'b'\]"):
        one.emit_counter("x", 1, "a=1|b=2")


def test_get_cli_has_the_prefix_of_the_process(monkeypatch):
    monkeypatch.setenv(PREFIX_VARIABLE, "movies.test_get_cli")
    one = get_cli()
    assert one is get_cli("movies.test_get_cli")
    one.emit_store("answer", 42)
    one.flush()
    assert "movies_test_get_cli_answer 42.0" in one.text()


def test_without_prometheus_metrics_are_let_go():
    program = """
import sys
sys.modules["prometheus_client"] = None
from importlib import util
found = util.find_spec
util.find_spec = lambda name: None if name == "prometheus_client" else found(name)
from monolith.observe.metric_client import NoMetrics, get_cli
client = get_cli()
assert isinstance(client, NoMetrics)
client.emit_counter("x", 1); client.emit_timer("x", 1); client.emit_store("x", 1, "a=b"); client.flush()
try:
    import monolith.observe.counters
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert "pip install 'monolith-recsys[serving]'" in done.stdout
    assert NoMetrics().flush() is None


def test_a_port_in_use_is_named():
    first = counters.MetricsEndpoint(0)
    try:
        with pytest.raises(OSError, match=f"port {first.port} for metrics cannot be used"):
            counters.MetricsEndpoint(first.port)
    finally:
        first.close()
