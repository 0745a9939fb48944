"""Everything a table is configured with, under the names of the original's ``entry`` module."""

from monolith.embedding.config import optimizers as _optimizers
from monolith.embedding.config.compressors import (
    Bf16Compressor,
    Compressor,
    FixedR8Compressor,
    Fp16Compressor,
    Fp32Compressor,
    OneBitCompressor,
)
from monolith.embedding.config.initializers import (
    BatchSoftmaxInitializer,
    ConstantsInitializer,
    Initializer,
    OnesInitializer,
    RandomNormalInitializer,
    RandomUniformInitializer,
    ZerosInitializer,
)
from monolith.embedding.config.instance import (
    CuckooHashTableConfig,
    HashTableConfigInstance,
)
from monolith.embedding.config.learning_rate import LearningRate, LearningRateFunction, PolynomialDecay
from monolith.embedding.config.optimizers import *  # noqa: F403 - the list is optimizers.__all__
from monolith.embedding.config.segment import CombineAsSegment, Segment
from monolith.embedding.config.table import MemoryPolicy, TableConfig

__all__ = [
    *_optimizers.__all__,
    "BatchSoftmaxInitializer",
    "Bf16Compressor",
    "CombineAsSegment",
    "Compressor",
    "ConstantsInitializer",
    "CuckooHashTableConfig",
    "FixedR8Compressor",
    "Fp16Compressor",
    "Fp32Compressor",
    "HashTableConfigInstance",
    "Initializer",
    "LearningRate",
    "LearningRateFunction",
    "MemoryPolicy",
    "OneBitCompressor",
    "OnesInitializer",
    "PolynomialDecay",
    "RandomNormalInitializer",
    "RandomUniformInitializer",
    "Segment",
    "TableConfig",
    "ZerosInitializer",
]
