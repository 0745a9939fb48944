"""Tables, parameter servers and profiles for tests."""

import functools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, overload

from monolith.embedding import (
    CuckooHashTableConfig,
    Fp32Compressor,
    HashTableConfigInstance,
    LearningRate,
    Optimizer,
    Segment,
    SgdOptimizer,
    StochasticRoundingFloat16OptimizerWrapper,
    ZerosInitializer,
)
from monolith.native_training.finder import names_from_table
from monolith.observe.profiling import Trace
from monolith.parallel import ParameterServer

Args = ParamSpec("Args")
Result = TypeVar("Result")

__getattr__ = names_from_table(__name__)


def generate_test_hash_table_config(
    dim: int = 2, use_float16: bool = False, learning_rate: LearningRate = 1.0
) -> HashTableConfigInstance:
    """Return a table for tests: one segment that starts at zero, learns by SGD and is stored as floats.

    ``use_float16`` keeps its weights on fp16 values by stochastic rounding.
    """
    optimizer: Optimizer = SgdOptimizer()
    if use_float16:
        optimizer = StochasticRoundingFloat16OptimizerWrapper(optimizer)
    segment = Segment(dim, optimizer, ZerosInitializer(), Fp32Compressor())
    return HashTableConfigInstance(CuckooHashTableConfig().as_proto([segment]), [learning_rate])


def create_test_ps_cluster(num_ps: int) -> tuple[list[ParameterServer], dict[str, list[str]]]:
    """Start empty parameter servers in this process; return them and {"ps": addresses}.

    They listen on this machine alone, and ask for no secret. Close them, or leave them to the end of the process.
    """
    if num_ps < 1:
        raise ValueError(f"a cluster has at least one parameter server, got num_ps={num_ps}")
    servers = [ParameterServer("127.0.0.1:0", insecure=True) for _ in range(num_ps)]
    return servers, {"ps": [str(server.address) for server in servers]}


@overload
def profile_it(fn: Callable[Args, Result]) -> Callable[Args, Result]: ...


@overload
def profile_it(
    fn: None = None, *, log_dir: str | os.PathLike[str]
) -> Callable[[Callable[Args, Result]], Callable[Args, Result]]: ...


def profile_it(fn: Any = None, *, log_dir: str | os.PathLike[str] | None = None) -> Any:
    """Let each call of a function be profiled; the trace is there when the call returns, or raises.

    `@profile_it` writes below the folder for temporary files, in `tests_profile`; `@profile_it(log_dir=...)` elsewhere.
    The original's never returned: it used a module that it did not import.
    """
    if fn is None:
        return functools.partial(profile_it, log_dir=log_dir)

    @functools.wraps(fn)
    def profiled(*args: Any, **kwargs: Any) -> Any:
        trace = Trace(Path(tempfile.gettempdir()) / "tests_profile" if log_dir is None else log_dir)
        trace.start()
        try:
            return fn(*args, **kwargs)
        finally:
            trace.stop(f"{fn.__name__}_{time.time_ns()}")

    return profiled
