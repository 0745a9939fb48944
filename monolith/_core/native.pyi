"""The compiled core of Monolith: tables, row optimizers, filters, ragged and layout primitives."""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, overload

import numpy
import torch
from numpy.typing import NDArray

_Bools: TypeAlias = torch.Tensor | NDArray[numpy.bool_]
_Floats: TypeAlias = torch.Tensor | NDArray[numpy.float32]
_Doubles: TypeAlias = torch.Tensor | NDArray[numpy.float64]
_Int32s: TypeAlias = torch.Tensor | NDArray[numpy.int32]
_Int64s: TypeAlias = torch.Tensor | NDArray[numpy.int64]
_UInt32s: TypeAlias = torch.Tensor | NDArray[numpy.uint32]
_UInt64s: TypeAlias = torch.Tensor | NDArray[numpy.uint64]
_Bytes: TypeAlias = torch.Tensor | NDArray[numpy.uint8]

def simd_level() -> str: ...
def best_simd_level() -> str: ...
def set_simd_level(name: str) -> None:
    """Forces scalar, avx2 or avx512 for tables and ops made from now on."""

def num_threads() -> int: ...
def work_alone() -> None:
    """The calling thread uses one core from now on; for threads in the background."""

def set_num_threads(count: int) -> None:
    """0 follows OpenMP's setting, which torch shares."""

def release_free_memory() -> None:
    """Gives back to the system what this process has freed: glibc keeps it, in every thread that needed it."""

class SlotThresholds:
    def __init__(self, default_threshold: int, by_slot: Mapping[int, int] = {}) -> None: ...
    def threshold(self, id: int) -> int: ...
    @property
    def max(self) -> int: ...

class AdmissionFilter:
    def should_be_filtered(self, id: int, count: int, threshold: int) -> bool: ...
    def filter_ids(self, thresholds: SlotThresholds, ids: _Int64s, filtered: _Bools) -> None: ...
    def check_thresholds(self, thresholds: SlotThresholds) -> None: ...
    @property
    def max_threshold(self) -> int: ...
    def save(self, basename: str) -> None: ...
    def track_changes(self, on: bool) -> None: ...
    def freeze(self, take_changes: bool = False) -> bool: ...
    def save_frozen_changes(self, name: str) -> None: ...
    def save_frozen(self, basename: str) -> None: ...
    def drop_frozen(self) -> None: ...
    def restore(self, basename: str) -> None: ...

class NoFilter(AdmissionFilter):
    def __init__(self) -> None: ...

class ProbabilisticFilter(AdmissionFilter):
    def __init__(self, equal_probability: bool = False, seed: int = 0) -> None: ...
    @property
    def equal_probability(self) -> bool: ...
    @property
    def num_draws(self) -> int: ...
    @num_draws.setter
    def num_draws(self, arg: int, /) -> None: ...

class SlidingHashFilter(AdmissionFilter):
    def __init__(self, capacity: int, split_num: int, shard: int = 0, num_shards: int = 1) -> None: ...
    def restore_changed(self, basename: str, changes: Sequence[str]) -> int:
        """Returns the version of older files, whose counts are dropped; 0 if there are none."""

    def add(self, id: int, count: int = 1) -> int: ...
    def get(self, id: int) -> int: ...
    def forget(self, id: int) -> bool:
        """Lets the count of an id go, and those of ids that cannot be told from it; returns whether there was one."""

    @property
    def capacity(self) -> int: ...
    @property
    def split_num(self) -> int: ...
    @property
    def head(self) -> int: ...
    @property
    def head_increment(self) -> int: ...
    @property
    def failure_count(self) -> int: ...
    @property
    def estimated_total_element(self) -> int: ...
    def equals(self, other: SlidingHashFilter) -> bool: ...

class TouchedKeySet:
    def __init__(self, capacity: int, concurrency_level: int) -> None: ...
    def insert(self, ids: _Int64s) -> int: ...
    def steal(self) -> NDArray[numpy.int64]: ...
    @property
    def capacity(self) -> int: ...
    @property
    def num_locks(self) -> int: ...
    def __len__(self) -> int: ...

def join_filters(parts: Sequence[SlidingHashFilter]) -> SlidingHashFilter:
    """The filter of all ids, from its parts in the order of their shards."""

def crc32c(data: bytes, initial: int = 0) -> int:
    """The CRC-32C of `data`, continuing from `initial`."""

def mask_crc(crc: int) -> int:
    """The masked form that TFRecord stores."""

class NotFiniteRow(ValueError):
    pass

def first_not_finite(values: _Floats) -> int:
    """Returns the place of the first value that is NaN or infinite, or the number of values."""

class OptimizerConfig:
    def __init__(
        self,
        kind: str,
        params: Sequence[float],
        stochastic_rounding_float16: bool = False,
        max_gradient_norm: float = 0.0,
    ) -> None: ...

class InitializerConfig:
    def __init__(self, kind: str, a: float = 0.0, b: float = 0.0, seed: int = 0) -> None: ...

class CompressorConfig:
    def __init__(
        self,
        kind: str,
        r: float = 1.0,
        step_size: int = 200,
        init_scale: float = 1.0,
        max_scale: float = 10000.0,
        amplitude: float = 0.10000000149011612,
    ) -> None: ...

class SegmentConfig:
    def __init__(
        self, dim: int, optimizer: OptimizerConfig, initializer: InitializerConfig, compressor: CompressorConfig
    ) -> None: ...

class ChangeResult:
    @property
    def inserted(self) -> int: ...
    @property
    def filtered(self) -> int: ...
    @property
    def refused(self) -> int: ...

class TableProgress:
    @property
    def max_time(self) -> int: ...
    @property
    def max_step(self) -> int: ...

class TableMemory:
    @property
    def index_bytes(self) -> int: ...
    @property
    def row_bytes(self) -> int: ...
    @property
    def payload_bytes(self) -> int: ...

class EntryDump:
    @property
    def found(self) -> bool: ...
    @property
    def last_seen(self) -> int: ...
    @property
    def weights(self) -> list[float]: ...
    @property
    def state(self) -> list[float]: ...

class ChangeKind(enum.Enum):
    STEP = 2

    ASSIGN = 0

    ADD = 1

class RowTable:
    def __init__(
        self,
        name: str,
        segments: Sequence[SegmentConfig],
        serving: bool = False,
        skip_zero_embedding: bool = False,
        initial_capacity: int = 0,
        max_memory_bytes: int = 0,
        evict_oldest: bool = False,
        expire_days: int = 36500,
        slot_expire_days: Mapping[int, int] = {},
        max_changes_per_consumer: int = 67108864,
        shard: int = 0,
        num_shards: int = 1,
    ) -> None: ...
    @property
    def dim(self) -> int: ...
    @property
    def row_bytes(self) -> int: ...
    @property
    def weight_bytes(self) -> int: ...
    @property
    def max_time(self) -> int: ...
    def raise_max_time(self, time: int) -> None: ...
    @property
    def max_step(self) -> int: ...
    def raise_max_step(self, global_step: int) -> None: ...
    def sub_tables_of(self, shard: int, num_shards: int) -> tuple[int, int]: ...
    def size(self) -> int: ...
    def memory(self) -> TableMemory: ...
    def set_filter(self, filter: AdmissionFilter | None, thresholds: SlotThresholds) -> None: ...
    def lookup(self, ids: _Int64s, out: _Floats) -> int: ...
    def lookup_entries(self, ids: _Int64s) -> list[EntryDump]: ...
    def contains(self, ids: _Int64s, out: _Bools) -> None: ...
    def erase(self, ids: _Int64s) -> int: ...
    def reinitialize(self, ids: _Int64s, time: int) -> list[int]: ...
    def evict(self, now: int) -> int: ...
    def clear(self) -> None: ...
    def check_rows(self, ids: _Int64s, rows: _Bytes) -> None: ...
    def restore(self, ids: _Int64s, last_seen: _UInt32s, rows: _Bytes) -> None: ...
    def begin_snapshot(self) -> TableProgress: ...
    def end_snapshot(self) -> None: ...
    def read_snapshot(
        self, sub_table: int
    ) -> tuple[NDArray[numpy.int64], NDArray[numpy.uint32], NDArray[numpy.uint8]]: ...
    def read_rows(self, sub_table: int) -> tuple[NDArray[numpy.int64], NDArray[numpy.uint32], NDArray[numpy.uint8]]: ...
    def add_consumer(self) -> int: ...
    def remove_consumer(self, consumer: int) -> None: ...
    def take_changes(self, consumer: int) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], bool]: ...
    def give_back_changes(self, consumer: int, touched: _Int64s, erased: _Int64s, overflowed: bool) -> None: ...

class BatchPlan:
    def __init__(self, table: RowTable, ids: _Int64s, merge_repeated: bool = True) -> None: ...
    @property
    def num_ids(self) -> int: ...
    @property
    def num_unique(self) -> int: ...
    def write_ids(self, out: _Int64s) -> None: ...
    def write_inverse(self, out: _Int32s) -> None: ...
    def write_counts(self, out: _Int32s) -> None: ...
    def lookup(self, out: _Floats) -> int: ...
    def lookup_unique(self, out: _Floats) -> int: ...
    def change(self, kind: ChangeKind, values: _Floats, time: int) -> ChangeResult: ...
    def step(
        self,
        gradients: _Floats,
        learning_rates: Sequence[float],
        global_step: int,
        time: int,
        sum_repeated: bool = True,
    ) -> ChangeResult: ...
    def step_unique(
        self, gradients: _Floats, learning_rates: Sequence[float], global_step: int, time: int
    ) -> ChangeResult: ...

class MultiBatchPlan:
    def __init__(
        self, tables: Sequence[RowTable], ids: _Int64s, sizes: Sequence[int], merge_repeated: bool = True
    ) -> None: ...
    @property
    def num_ids(self) -> int: ...
    @property
    def num_unique(self) -> int: ...
    @property
    def num_floats(self) -> int: ...
    def lookup(self, out: _Floats) -> int: ...
    def change(self, kind: ChangeKind, values: _Floats, time: int) -> ChangeResult: ...
    def step(
        self,
        gradients: _Floats,
        learning_rates: Sequence[float],
        global_step: int,
        time: int,
        sum_repeated: bool = True,
    ) -> ChangeResult: ...

class TableFileInfo:
    @property
    def schema(self) -> str: ...
    @property
    def plan_hash(self) -> int: ...
    @property
    def generation(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def max_time(self) -> int: ...
    @property
    def max_step(self) -> int: ...
    @property
    def shard(self) -> int: ...
    @property
    def num_shards(self) -> int: ...
    @property
    def weight_bytes(self) -> int: ...
    @property
    def state_bytes(self) -> int: ...
    @property
    def serving(self) -> bool: ...
    @property
    def num_rows(self) -> int: ...

class NotFinite(enum.Enum):
    REFUSE = 0

    DROP = 1

    KEEP = 2

class CorruptFile(ValueError):
    pass

class TableFull(MemoryError):
    pass

def shard_file_name(basename: str, shard: int, num_shards: int) -> str: ...

class SavedTable:
    @property
    def num_rows(self) -> int: ...
    @property
    def num_dropped(self) -> int: ...
    @property
    def checksums(self) -> list[int]: ...

class ReshardedTable:
    @property
    def read(self) -> SavedTable: ...
    @property
    def written(self) -> SavedTable: ...

class FrozenTable:
    def __init__(self, table: RowTable, consumer: int | None = None) -> None: ...
    @property
    def overflowed(self) -> bool: ...
    def close(self) -> None: ...
    def save(
        self,
        basename: str,
        num_shards: int,
        schema: str,
        plan_hash: int = 0,
        generation: int = 0,
        epoch: int = 0,
        drop_expired: bool = True,
        in_parallel: bool = True,
    ) -> SavedTable: ...
    def save_shard(
        self,
        basename: str,
        shard: int,
        num_shards: int,
        schema: str,
        plan_hash: int = 0,
        generation: int = 0,
        epoch: int = 0,
    ) -> SavedTable: ...
    def save_changes(
        self,
        basename: str,
        shard: int,
        num_shards: int,
        schema: str,
        plan_hash: int = 0,
        generation: int = 0,
        epoch: int = 0,
    ) -> tuple[SavedTable, NDArray[numpy.int64]]: ...

def reshard_table(paths: Sequence[str], basename: str, num_shards: int) -> ReshardedTable: ...
def read_table_file_info(path: str) -> TableFileInfo: ...
def check_table_fits(table: RowTable, paths: Sequence[str], cleared: bool = True) -> None: ...
def check_table_files(
    table: RowTable,
    paths: Sequence[str],
    cleared: bool = True,
    not_finite: NotFinite = NotFinite.REFUSE,
    shard: int = 0,
    num_shards: int = 1,
) -> SavedTable: ...
def load_table(
    table: RowTable, paths: Sequence[str], not_finite: NotFinite = NotFinite.REFUSE, shard: int = 0, num_shards: int = 1
) -> SavedTable: ...
def bucket_of_id(id: int) -> int: ...

NUM_BUCKETS: int = 1024

NUM_SUB_TABLES: int = 256

def shards_of_ids(ids: _Int64s, num_shards: int, out: _Int32s) -> None:
    """Writes the shard of each id."""

MAX_SHARDS: int = 65536

class HyperParameter:
    """A number that a rule takes beside the learning rate."""

    @property
    def name(self) -> str: ...
    @property
    def default(self) -> float:
        """A bool for a switch."""

    @property
    def range(self) -> str:
        """The values that make sense."""

    @property
    def meaning(self) -> str: ...

class StateSlot:
    """A part of the state that a rule keeps beside the weights."""

    @property
    def name(self) -> str: ...
    @property
    def is_step(self) -> bool:
        """Whether it is a step number, whose 64 bits lie in two floats."""

    def floats(self, dim: int) -> int:
        """Returns its number of floats beside dim weights."""

class OptimizerKind:
    """A rule as its header in csrc/optim declares it."""

    @property
    def name(self) -> str: ...
    @property
    def learning_rate(self) -> float:
        """The default; 0 for a rule that takes none."""

    @property
    def hyper_parameters(self) -> list[HyperParameter]: ...
    @property
    def state(self) -> list[StateSlot]: ...

def optimizer_kinds() -> list[OptimizerKind]:
    """Returns every rule; its hyper-parameters and the parts of its state are in the order of the kernels."""

def state_floats(kind: str, params: Sequence[float], dim: int) -> int:
    """Returns the floats of state beside dim weights; no params means the defaults."""

def init_state(kind: str, params: Sequence[float], dim: int) -> NDArray[numpy.float32]:
    """Returns the state of a new row."""

def optimizer_step(
    kind: str,
    params: Sequence[float],
    weights: _Floats,
    state: _Floats,
    gradients: _Floats,
    learning_rate: float,
    global_step: int = 0,
    stochastic_rounding: bool = False,
    seed: int = 0,
) -> None:
    """Steps every row of weights [n, dim] and state [n, state_floats] in place. Rounding draws from (seed, row)."""

def initialize(
    kind: str, a: float, b: float, seed: int, ids: _Int64s, segment: int, dim: int
) -> NDArray[numpy.float32]:
    """Returns first values, float32 [len(ids), dim]."""

def compensate_delay(lambda_: float, weights: _Floats, latest: _Floats, gradients: _Floats) -> None:
    """Adds lambda*g^2*(weights - latest) to the gradients, in place; call it before optimizer_step."""

class Compressor:
    """How the rows of one segment are stored for serving and read in training."""

    def __init__(
        self,
        kind: str,
        dim: int,
        *,
        r: float = 1.0,
        step_size: int = 200,
        init_scale: float = 1.0,
        max_scale: float = 10000.0,
        amplitude: float = 0.10000000149011612,
    ) -> None: ...
    @property
    def dim(self) -> int: ...
    @property
    def encoded_bytes(self) -> int:
        """Bytes of one encoded row."""

    @property
    def is_identity(self) -> bool:
        """Whether training reads the stored weights as they are."""

    @property
    def scale(self) -> float:
        """one_bit's present scale."""

    def set_step(self, global_step: int) -> None:
        """Puts one_bit's scale where global_step has it."""

    def encode(self, weights: _Floats) -> NDArray[numpy.uint8]:
        """Returns uint8 [rows, encoded_bytes]."""

    def decode(self, encoded: _Bytes) -> NDArray[numpy.float32]:
        """Returns float32 [rows, dim]."""

    def retrieve(self, weights: _Floats) -> NDArray[numpy.float32]:
        """Returns what a training lookup reads."""

    def backward(self, weights: _Floats, gradients: _Floats, global_step: int) -> None:
        """Passes gradients back through retrieve, in place."""

def plain_gather(rows: _Floats, ids: _Int64s, out: _Floats, streaming: bool, far: bool = False) -> None:
    """Writes rows[ids] to out with rows fetched ahead, on all threads: the bound for a table's lookup."""

def plain_train(
    rows: _Floats,
    ids: _Int64s,
    out: _Floats,
    gradients: _Floats,
    learning_rate: float,
    ids_per_task: int,
    far: bool = False,
) -> None:
    """Writes the weights of rows[ids] to out, then steps these rows with Adagrad: the bound for a training step."""

def huge_empty(num_bytes: int) -> NDArray[numpy.uint8]:
    """Returns uninitialised bytes on huge pages where the kernel has them, as a NumPy array that owns them."""

def check_row_splits(row_splits: _Int64s, num_values: int) -> None: ...
def value_rowids(row_splits: _Int64s, out: _Int64s) -> None: ...
def normalize_merged_split(row_split: _Int64s, row_split_size: _Int64s) -> torch.Tensor: ...
def chosen_row_splits(row_splits: _Int64s, indices: _Int64s, out: _Int64s) -> None: ...
def copy_rows(
    values: _Bytes, value_bytes: int, row_splits: _Int64s, indices: _Int64s, out_splits: _Int64s, out: _Bytes
) -> None: ...
def group_by_index(indices: _Int64s, num_groups: int) -> tuple[torch.Tensor, ...]: ...
def ragged_group_by_index(indices: _Int64s, row_splits: _Int64s, num_groups: int) -> tuple[torch.Tensor, ...]: ...
@overload
def pool(values: _Floats, row_splits: _Int64s, kind: str, out: _Floats) -> None: ...
@overload
def pool(values: _Doubles, row_splits: _Int64s, kind: str, out: _Doubles) -> None: ...
@overload
def pool_grad(grad: _Floats, row_splits: _Int64s, kind: str, out: _Floats) -> None: ...
@overload
def pool_grad(grad: _Doubles, row_splits: _Int64s, kind: str, out: _Doubles) -> None: ...
@overload
def pool_unique(rows: _Floats, inverse: _Int64s, row_splits: _Int64s, kind: str, out: _Floats) -> None: ...
@overload
def pool_unique(rows: _Doubles, inverse: _Int64s, row_splits: _Int64s, kind: str, out: _Doubles) -> None: ...
@overload
def pool_unique_grad(grad: _Floats, inverse: _Int64s, row_splits: _Int64s, kind: str, out: _Floats) -> None: ...
@overload
def pool_unique_grad(grad: _Doubles, inverse: _Int64s, row_splits: _Int64s, kind: str, out: _Doubles) -> None:
    """Adds to `out`, in the order of the occurrences."""

@overload
def first_n(values: _Floats, row_splits: _Int64s, length: int, out: _Floats) -> None: ...
@overload
def first_n(values: _Doubles, row_splits: _Int64s, length: int, out: _Doubles) -> None:
    """`out` is [bags * length, dim]."""

@overload
def first_n_grad(grad: _Floats, row_splits: _Int64s, length: int, out: _Floats) -> None: ...
@overload
def first_n_grad(grad: _Doubles, row_splits: _Int64s, length: int, out: _Doubles) -> None: ...
@overload
def gather_rows(rows: _Floats, index: _Int64s, out: _Floats) -> None: ...
@overload
def gather_rows(rows: _Doubles, index: _Int64s, out: _Doubles) -> None: ...
@overload
def scatter_add_rows(grad: _Floats, index: _Int64s, out: _Floats) -> None: ...
@overload
def scatter_add_rows(grad: _Doubles, index: _Int64s, out: _Doubles) -> None:
    """Adds to `out`, in the order of `index`."""

def reorder_by_indices(ids: _Int64s, shard_ids: _Int32s, num_shards: int) -> tuple[torch.Tensor, ...]: ...
def fused_reorder_by_indices(
    inputs: Sequence[_Int64s], num_shards: int, dims: Sequence[int], rank0_empty: bool
) -> tuple[torch.Tensor, ...]: ...
def find_positions(ids: _Int64s, input: _Int64s, use_threads: bool, out: _Int64s) -> None: ...
def unique_keys_with_offsets(
    keys: _Int64s, key_splits: _Int64s, dims: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int]: ...
@overload
def fused_gather(fused: _Floats, offsets: Sequence[_Int32s], dims: Sequence[int], outs: Sequence[_Floats]) -> None: ...
@overload
def fused_gather(
    fused: _Doubles, offsets: Sequence[_Int32s], dims: Sequence[int], outs: Sequence[_Doubles]
) -> None: ...
@overload
def fused_gather_grad(
    grads: Sequence[_Floats], offsets: Sequence[_Int32s], dims: Sequence[int], scale: float, out: _Floats
) -> None: ...
@overload
def fused_gather_grad(
    grads: Sequence[_Doubles], offsets: Sequence[_Int32s], dims: Sequence[int], scale: float, out: _Doubles
) -> None:
    """Adds to `out`."""

@overload
def fill_with_offset_map(
    pos: _Int64s,
    pos_splits: _Int64s,
    offsets: _Int64s,
    offset_splits: _Int64s,
    dims: Sequence[int],
    value: _Floats,
    buffer: _Floats,
) -> None: ...
@overload
def fill_with_offset_map(
    pos: _Int64s,
    pos_splits: _Int64s,
    offsets: _Int64s,
    offset_splits: _Int64s,
    dims: Sequence[int],
    value: _Doubles,
    buffer: _Doubles,
) -> None: ...
@overload
def fill_with_offset_map_grad(
    pos: _Int64s,
    pos_splits: _Int64s,
    offsets: _Int64s,
    offset_splits: _Int64s,
    dims: Sequence[int],
    grad: _Floats,
    out: _Floats,
) -> None: ...
@overload
def fill_with_offset_map_grad(
    pos: _Int64s,
    pos_splits: _Int64s,
    offsets: _Int64s,
    offset_splits: _Int64s,
    dims: Sequence[int],
    grad: _Doubles,
    out: _Doubles,
) -> None: ...

class TextDictionary:
    """Texts that became ids; the way in is monolith.features.kept_strings."""

    def __init__(self, max_texts: int) -> None: ...
    def __len__(self) -> int: ...
    def add_known(self, bytes: _Bytes, row_splits: _Int64s) -> None:
        """Takes texts that are written already."""

    def take_new(self) -> tuple[bytes, list[int]]:
        """Returns the texts noted since the last call, end to end, and the places where they end."""

def city_hash64(bytes: bytes) -> int: ...
def city_hash64_values(values: _Int64s, out: _Int64s) -> None: ...
def city_hash64_rows(bytes: _Bytes, row_splits: _Int64s, out: _Int64s, texts: TextDictionary | None = None) -> None: ...
def city_hash64_prefixed(bytes: _Bytes) -> NDArray[numpy.int64]:
    """Hashes byte strings, each after its length in four little-endian bytes."""

class FusedLayoutPlan:
    """How rows of looked-up ids become the tensors of all layouts."""

    def __init__(self, features: Sequence[tuple[str, int, int]], num_tables: int) -> None:
        """Features in the order of their names: (name, number of the table, floats of a row)."""

    def add_layout(
        self,
        name: str,
        out_type: str,
        slices: Sequence[tuple[int, int, int, str, int]],
        shapes: Sequence[Sequence[int]],
    ) -> None:
        """Slices are (feature, start, end, pooling, max_sequence_length)."""

    def shard(
        self,
        ids: Sequence[_Int64s],
        row_splits: Sequence[_Int64s],
        shared: Sequence[bool],
        ps_num: int,
        batch_size: int,
        unique: bool,
    ) -> tuple[torch.Tensor, ...]:
        """Returns fids, block_sizes, row_splits, emb_sizes, fid_offset, feature_offset and nfl_offset."""

    def forward(
        self,
        fid_offset: _UInt64s,
        feature_offset: _Int32s,
        nfl_offset: _UInt32s,
        batch_size: int,
        embeddings: Sequence[_Floats],
        outs: Sequence[_Floats],
    ) -> None: ...
    def backward(
        self,
        fid_offset: _UInt64s,
        feature_offset: _Int32s,
        nfl_offset: _UInt32s,
        batch_size: int,
        grads: Sequence[_Floats],
        grad_embeddings: Sequence[_Floats],
    ) -> None:
        """Adds to `grad_embeddings`; an empty gradient is one of zero."""

class SliceLayout:
    def __init__(self, parts: Sequence[tuple[int, int, int, int, int]]) -> None:
        """Parts are (block, its first column, tensor, its first column, width)."""

    def join(self, blocks: Sequence[_Floats], tensors: Sequence[_Floats]) -> None:
        """Writes the tensors; a block of one row counts for every row."""

    def split(self, tensors: Sequence[_Floats], add: Sequence[bool], blocks: Sequence[_Floats]) -> None:
        """Writes columns of the blocks, or adds to them; an empty tensor is left out."""

def pair_sums(rows: _Floats, out: _Floats) -> None: ...
def pair_sums_grad(rows: _Floats, grad: _Floats, out: _Floats) -> None: ...
def pair_products(rows: _Floats, out: _Floats) -> None: ...
def pair_products_grad(rows: _Floats, grad: _Floats, out: _Floats) -> None: ...

class RecordParser:
    """Turns serialized records of one format into columns; the way in is monolith.data.parse."""

    def __init__(
        self,
        format: str,
        columns: Sequence[tuple[str, str, str, int, int, float, float, bool, int, bool, bool]],
        csv: tuple[int, int, str] = (0, 44, "|"),
    ) -> None: ...
    def parse(
        self, data: _Bytes, row_splits: _Int64s, texts: TextDictionary | None = None
    ) -> tuple[
        int,
        int,
        torch.Tensor,
        torch.Tensor,
        list[tuple[torch.Tensor, torch.Tensor] | None],
        list[int],
        list[tuple[int, int, str]],
    ]:
        """Returns num_rows, num_places, ints, floats, ragged columns, absent columns, bad records."""

def line_ends(text: _Bytes) -> torch.Tensor:
    """Returns the place behind every line feed."""

class TfExampleConverter:
    """Turns tf.Examples into Examples; see monolith.data.parse."""

    def __init__(self, features: Sequence[tuple[str, str, int]]) -> None: ...
    def convert(
        self, data: _Bytes, row_splits: _Int64s
    ) -> tuple[torch.Tensor, torch.Tensor, list[tuple[int, int, str]]]:
        """Returns the records, their row splits, and (record, offset, text) per bad record."""

class JsonValue:
    """A value of a JSON text; see monolith.serving.forms.json_values."""

    @property
    def kind(self) -> str:
        """null, bool, number, text, list or object."""

    @property
    def is_true(self) -> bool: ...
    def __len__(self) -> int: ...
    def shown(self) -> str:
        """A few words for an error message."""

    def text(self) -> str: ...
    def integer(self) -> int: ...
    def member(self, name: str) -> JsonValue | None:
        """The last member of this name, or None."""

    def names(self, limit: int) -> list[str]:
        """Names of an object's first members."""

    def items(self, limit: int) -> list[JsonValue]:
        """The first members of a list."""

    def array(self, datatype: str, missing: int | float | None = None) -> NDArray[Any]:
        """A list, nested evenly if at all, as an array; null reads as `missing`."""

    def lists(self, datatype: str, missing: int | float | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """A list of lists as (values end to end, length of each list); with `missing`, null is an empty list."""

    def columns(
        self, columns: Sequence[tuple[str, str, bool, int | float | None]]
    ) -> list[NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]]:
        """Objects with exactly these (name, datatype, whether a list, what null means), as an array or lists each."""

def parse_json(text: bytes, offset: int, size: int, max_depth: int, max_values: int) -> JsonValue:
    """Reads a part of a text without the interpreter lock; a ValueError says what is wrong at which byte."""

def json_list(values: NDArray[Any]) -> bytes:
    """Finite numbers as a JSON list, nested as they are."""

def json_objects(members: Sequence[tuple[str, NDArray[Any]]]) -> bytes:
    """(prefix, values) as a JSON list of objects; a prefix is '{"name":' or ',"name":'."""

class FrameLayout:
    def __init__(
        self,
        *,
        tf_record: bool = False,
        lagrangex_header: bool = False,
        sort_id: bool = False,
        kafka_dump: bool = False,
        kafka_dump_prefix: bool = False,
        max_record_bytes: int = 1073741824,
    ) -> None: ...
    @property
    def max_record_bytes(self) -> int: ...
    @property
    def overhead(self) -> int:
        """Bytes that a written frame has beside its payload."""

class FrameStop(enum.Enum):
    ENOUGH = 0

    INPUT = 1

    ROOM = 2

    LENGTH_CRC = 3

    TOO_LONG = 4

    DEAD_BEEF = 5

class FramePass:
    @property
    def num_frames(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    @property
    def stop(self) -> FrameStop: ...
    @property
    def length(self) -> int: ...
    @property
    def wanted(self) -> int: ...
    @property
    def num_records(self) -> int: ...
    @property
    def payload_bytes(self) -> int: ...
    @property
    def num_bad(self) -> int: ...
    @property
    def first_bad(self) -> int: ...

class FrameRead(FramePass):
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def num_read(self) -> int: ...

def skip_frames(input: _Bytes, layout: FrameLayout, max_frames: int) -> FramePass: ...
def decode_frames(input: _Bytes, layout: FrameLayout, payloads: _Bytes, row_splits: _Int64s) -> FramePass: ...
def read_frames(
    file: int,
    buffer: _Bytes,
    begin: int,
    end: int,
    layout: FrameLayout,
    max_frames: int,
    payloads: _Bytes,
    payload_bytes: int,
    row_splits: _Int64s,
    num_records: int,
    headers: _Int64s,
) -> FrameRead: ...
def encode_frames(
    payloads: _Bytes, row_splits: _Int64s, headers: _Int64s, layout: FrameLayout, out: _Bytes
) -> None: ...

class CorruptFrame(ValueError):
    pass

class TableService:
    def __init__(
        self,
        tables: Sequence[RowTable],
        counts_occurrences: Sequence[bool],
        *,
        plan_hash: int,
        shard: int,
        num_shards: int,
        max_partitions: int,
        max_frame_bytes: int,
        read_only: bool = False,
    ) -> None: ...
    def serve(self, socket: int, frame_timeout_ms: int) -> None: ...
    def answer(self, frame: _Bytes, deadline_ms: int | None, write: Callable[[memoryview], None]) -> bool: ...
    def applied_batches(self) -> list[tuple[str, int]]: ...
    def restore_applied_batches(self, ends: Sequence[tuple[str, int]]) -> None: ...

class ShardedCall:
    @property
    def pending(self) -> list[int]: ...
    @property
    def result(self) -> ChangeResult: ...
    @property
    def num_applied(self) -> int: ...
    def exchange(self, sockets: Sequence[int], request_id: int, timeout_ms: int) -> list[tuple[int, str, bytes]]: ...
    def exchange_over(
        self, connections: Sequence[object], request_id: int, timeout_ms: int
    ) -> list[tuple[int, str, bytes]]: ...
    def send(self, shard: int, socket: int, request_id: int, timeout_ms: int) -> tuple[str, bytes] | None: ...
    def send_over(
        self, shard: int, write: Callable[[memoryview], None], request_id: int, timeout_ms: int
    ) -> tuple[str, bytes] | None: ...
    def receive(self, shard: int, socket: int, request_id: int, timeout_ms: int) -> tuple[str, bytes] | None: ...
    def receive_over(
        self, shard: int, read_into: Callable[[memoryview], None], request_id: int
    ) -> tuple[str, bytes] | None: ...

def await_any(sockets: Sequence[int], timeout_ms: int) -> list[int]: ...

class ShardedBatch:
    def __init__(
        self, dims: Sequence[int], num_shards: int, ids: _Int64s, sizes: Sequence[int], merge_repeated: bool
    ) -> None: ...
    @property
    def num_ids(self) -> int: ...
    @property
    def num_unique(self) -> int: ...
    @property
    def num_floats(self) -> int: ...
    def first_not_finite(self, values: _Floats) -> int: ...
    @property
    def part_sizes(self) -> list[list[int]]: ...
    @property
    def part_floats(self) -> int: ...
    def part_ids(self, out: _Int64s) -> None: ...
    def scatter_parts(self, rows: _Floats, out: _Floats) -> None: ...
    def sum_parts(self, values: _Floats, out: _Floats) -> None: ...
    def pull(self, out: _Floats, *, plan_hash: int, half: bool) -> ShardedCall: ...
    def change(
        self,
        kind: ChangeKind,
        values: _Floats,
        *,
        learning_rates: Sequence[float],
        global_step: int,
        time: int,
        partition: bytes,
        begin: int,
        end: int,
        plan_hash: int,
        half: bool,
        counts: bool,
    ) -> ShardedCall: ...
