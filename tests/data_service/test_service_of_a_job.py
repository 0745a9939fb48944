"""A data service that belongs to a job: it knows the job's secret, ends with the job, and may share its splits."""

import pytest

from monolith.data_service import (
    DataWorker,
    DataWorkerConfig,
    Dispatcher,
    DispatcherConfig,
    ServiceSource,
    end_service,
    service_status,
)
from monolith.data_service.extra_workers import extra_workers
from monolith.data_service.requests import ServiceRequest, ask
from monolith.errors import RemoteError, SecretError
from monolith.native_training.mlp_utils import EXTRA_DSWORKERS
from monolith.wire import SharedSecret, connect
from tests.data_service.numbered_input import INPUT, NUM_RECORDS, Numbers, make_source, seqs

pytestmark = pytest.mark.timeout(120)
SECRET = SharedSecret.new("a test")


def config_in(folder, **changed):
    return DispatcherConfig(input=INPUT, num_splits=6, state_path=str(folder), address="127.0.0.1:0", **changed)


@pytest.fixture
def dispatcher(tmp_path):
    with Dispatcher(config_in(tmp_path, worker_timeout_seconds=60.0, secret=SECRET)) as found:
        yield found


def read(source):
    return sorted(number for batch in source for number in seqs(batch))


def worker_of(dispatcher):
    return DataWorkerConfig(dispatcher=dispatcher.address, secret=SECRET, patience_seconds=60.0)


def test_only_those_who_know_the_secret_are_answered(dispatcher):
    with DataWorker(worker_of(dispatcher)):
        source = ServiceSource(dispatcher.address, trainer="one", secret=SECRET)
        assert read(source) == list(range(NUM_RECORDS))
        assert len(service_status(dispatcher.address, secret=SECRET)["workers"]) == 1
        with pytest.raises(SecretError):
            service_status(dispatcher.address)
        with pytest.raises(SecretError):
            end_service(dispatcher.address, secret=SharedSecret.new("another"))


def test_the_job_ends_the_service_and_its_workers(tmp_path):
    # Workers ask five times within the limit.
    with Dispatcher(config_in(tmp_path, worker_timeout_seconds=2.0, secret=SECRET)) as dispatcher:
        with DataWorker(worker_of(dispatcher)) as worker:
            assert not dispatcher.wait(0.0)
            end_service(dispatcher.address, secret=SECRET)
            worker.wait()  # it learned that the service is over
            assert dispatcher.wait(60.0)
        with DataWorker(worker_of(dispatcher)) as late:
            late.wait()


def test_a_service_of_nobody_is_ended_by_nobody(tmp_path):
    with Dispatcher(config_in(tmp_path)) as dispatcher:
        with connect(dispatcher.address) as client, pytest.raises(RemoteError, match="belongs to no job, so no job"):
            client.request(ask(ServiceRequest.END))
        assert not dispatcher.wait(0.0)


def test_a_worker_reads_what_it_is_given(dispatcher):
    with DataWorker(worker_of(dispatcher), lambda: Numbers(40)):
        assert read(ServiceSource(dispatcher.address, trainer="one", secret=SECRET)) == list(range(40))


@pytest.mark.parametrize("shared", [False, True])
def test_parts_that_share_splits_take_them_as_they_are_free(dispatcher, shared):
    with DataWorker(worker_of(dispatcher)):
        whole = ServiceSource(
            dispatcher.address, trainer="job", shares_splits=shared, wait_for_others=False, secret=SECRET
        )
        first, second = read(whole.shard(2, 0)), read(whole.shard(2, 1))  # the second starts when the first is done
    assert sorted(first + second) == list(range(NUM_RECORDS))
    assert bool(second) != shared


def test_extra_workers_run_in_this_process(dispatcher):
    with extra_workers(2, worker_of(dispatcher), make_source):
        assert len(EXTRA_DSWORKERS) == 2
        known = service_status(dispatcher.address, secret=SECRET)["workers"]
        assert set(known) == {worker.address for worker in EXTRA_DSWORKERS}
    assert not EXTRA_DSWORKERS
