"""The benchmark of parameter servers measures real ones and keeps the fastest."""

import threading
import time
from contextlib import ExitStack

import pytest

from monolith.native_training import ps_benchmark
from monolith.native_training.cpu_training import local_train
from monolith.native_training.ps_benchmark import BenchmarkConfig, PsBenchMarkTask
from monolith.native_training.test_utils import create_test_ps_cluster
from monolith.parallel.dense.server_speed import order_servers
from monolith.parallel.dense.variable_store import VariableStore
from monolith.wire import Message, SharedSecret, listen
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(ps_benchmark, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(ps_benchmark, "SETTLE_SECONDS", 0.02)


def train(config: BenchmarkConfig, folder) -> BenchmarkConfig:
    params = PsBenchMarkTask.params()
    params.bm_config = config
    local_train(params, model_dir=folder, steps=10)
    return params.bm_config


@pytest.fixture
def one_is_slow():
    """Two servers that ask for a secret; the first takes its time."""
    secret = SharedSecret.new("a benchmark")
    with ExitStack() as cleanup:
        stores = VariableStore(), VariableStore()

        def slow(message: Message) -> Message:
            time.sleep(0.5)
            return stores[0].answer(message)

        started = [
            cleanup.enter_context(listen("127.0.0.1:0", answer, secret=secret)) for answer in (slow, stores[1].answer)
        ]
        yield secret, [str(server.address) for server in started]


def test_basic_keeps_the_fastest(tmp_path, one_is_slow):
    secret, addresses = one_is_slow
    config = BenchmarkConfig(addresses, num_ps_required=1, num_workers=1, index=0, benchmark_secs=0.3, secret=secret)
    assert train(config, tmp_path).ps_list == addresses[1:]


def test_servers_of_the_run_have_names(tmp_path):
    params = PsBenchMarkTask.params()
    params.bm_config = BenchmarkConfig(["ps0", "ps1"], num_ps_required=1, num_workers=1, index=0, benchmark_secs=0.2)
    local_train(params, num_ps=2, model_dir=tmp_path, steps=10)
    assert len(params.bm_config.ps_list) == 1
    assert params.bm_config.ps_list[0] in ("ps0", "ps1")
    params.bm_config = BenchmarkConfig(["ps0", "ps1"], num_ps_required=1, num_workers=1, index=0, benchmark_secs=0.2)
    with pytest.raises(ValueError, match="those of this run, which has 0; set num_ps=2"):
        local_train(params, model_dir=tmp_path, steps=10)


def test_all_workers_take_the_decision_of_the_first(tmp_path, one_is_slow):
    secret, addresses = one_is_slow
    configs = [BenchmarkConfig(addresses, 2, 2, index, benchmark_secs=0.2, secret=secret) for index in range(2)]
    workers = [
        threading.Thread(target=train, args=(config, tmp_path / str(config.index)), daemon=True) for config in configs
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_SECONDS)
    assert [config.ps_list for config in configs] == [addresses[::-1]] * 2


def test_a_late_worker_takes_the_result_without_measuring(tmp_path, monkeypatch):
    (server, other), addresses = create_test_ps_cluster(2)
    with server, other:
        first = BenchmarkConfig(addresses["ps"], 1, 1, 0, benchmark_secs=0.1)
        train(first, tmp_path / "first")
        monkeypatch.setattr(ps_benchmark, "measure_servers", lambda *_, **__: pytest.fail("it measured again"))
        late = BenchmarkConfig(addresses["ps"], 1, 1, 0, benchmark_secs=0.1)
        assert train(late, tmp_path / "late").ps_list == first.ps_list


def test_skip_benchmark(tmp_path):
    config = BenchmarkConfig(["ps0", "ps1"], 1, 1, 0, benchmark_secs=1.0, ps_str_overridden="overridden")
    assert train(config, tmp_path).ps_list == ["overridden"]


def test_a_host_with_many_servers_is_worth_all_of_them():
    assert order_servers(["a", "b", "c"], [1.0, 3.0, 2.0]) == [1, 2, 0]
    assert order_servers(["a", "a", "b"], [3.0, 4.0, 5.0]) == [1, 2, 0]


def test_what_cannot_be_chosen_is_refused():
    with pytest.raises(ValueError, match="num_ps_required=3"):
        BenchmarkConfig(["a:1", "b:1"], num_ps_required=3, num_workers=1, index=0)
    with pytest.raises(ValueError, match="below num_workers=1, got 1"):
        BenchmarkConfig(["a:1"], num_ps_required=1, num_workers=1, index=1)
