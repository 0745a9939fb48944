"""What every test may use."""

import os
import signal
import uuid
from collections.abc import Iterator

import fsspec
import pytest
import torch
from hypothesis import settings

from monolith._core import native

# Shared cores make single examples slow now and then; pytest-timeout guards the whole test.
settings.register_profile("monolith", deadline=None)
settings.load_profile("monolith")

# A shell that starts `make test` in the background has it ignore Ctrl-C, and so would each process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SIMD_LEVELS = ("scalar", "avx2", "avx512")


@pytest.fixture(params=SIMD_LEVELS)
def simd_level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test once per instruction set that this processor has."""
    level: str = request.param
    if SIMD_LEVELS.index(level) > SIMD_LEVELS.index(native.best_simd_level()):
        pytest.skip(f"this processor has no {level}")
    before = native.simd_level()
    native.set_simd_level(level)
    yield level
    native.set_simd_level(before)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Torch sums in another order with another number of threads; and for small batches a second one mostly waits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=[0o002, 0o027], ids=["umask 002", "umask 027"])
def usual_rights(request: pytest.FixtureRequest) -> Iterator[int]:
    """What new files may be used for, by two of the habits that there are."""
    before = os.umask(request.param)
    yield 0o666 & ~request.param
    os.umask(before)


@pytest.fixture
def store_url() -> Iterator[str]:
    """Return a place in fsspec's store in memory: no renames, no folders, as in S3."""
    place = f"memory://{uuid.uuid4().hex}/model"
    yield place
    files, root = fsspec.filesystem("memory"), place.split("/")[2]
    if files.exists(root):
        files.rm(root, recursive=True)


EXPORTED = (
    "MONOLITH_METRIC_PREFIX",
    "TF_GRPC_WORKER_CACHE_THREADS",
    "MONOLITH_GRPC_WORKER_SERVICE_HANDLER_MULTIPLIER",
)
"""What an Estimator writes into the environment of its process."""


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Give back what an Estimator exports: the next test has its own prefix of metric names."""
    before = {name: os.environ.get(name) for name in EXPORTED}
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
