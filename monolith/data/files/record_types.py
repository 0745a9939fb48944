"""Kinds of record files, under the names and numbers of the original."""

from enum import IntEnum
from pathlib import PurePosixPath


class CompressType(IntEnum):
    """How a file is compressed; UNKNOW (spelled as ever) takes it from the file's name."""

    UNKNOW = 0
    NO = 1
    SNAPPY = 2
    """Blocks as TensorFlow writes them: u32 length, big-endian, and a raw snappy block."""
    ZSTD = 3
    ZLIB = 4
    GZIP = 5

    @classmethod
    def of(cls, value: "CompressType | str | None", path: str = "") -> "CompressType":
        """Return the compression that a member, its upper-case name or "" means for a file.

        UNKNOW, None and "" go by the suffix: .snappy, .zst, .zlib or .gz; anything else is not compressed.

        >>> CompressType.of("GZIP"), CompressType.of(None, "part-0.snappy"), CompressType.of("", "part-0")
        (<CompressType.GZIP: 5>, <CompressType.SNAPPY: 2>, <CompressType.NO: 1>)
        """
        if isinstance(value, str) and value:
            if value not in cls.__members__:
                raise ValueError(f"compression {value!r} is none of {', '.join(cls.__members__)}")
            value = cls[value]
        if value:
            return cls(value)
        return _BY_SUFFIX.get(PurePosixPath(path).suffix, cls.NO)


_BY_SUFFIX = {
    ".snappy": CompressType.SNAPPY,
    ".zst": CompressType.ZSTD,
    ".zlib": CompressType.ZLIB,
    ".gz": CompressType.GZIP,
}


class PbType(IntEnum):
    """What a record holds."""

    INSTANCE = 1
    EXAMPLEBATCH = 2
    EXAMPLE = 3
    PLAINTEXT = 4

    def to_name(self) -> str:
        """Return the name in lower case.

        >>> PbType.EXAMPLEBATCH.to_name()
        'examplebatch'
        """
        return self.name.lower()


class FeaturePruningType(IntEnum):
    """Which features of a record are dropped before it is parsed."""

    AS_IS = 0
    PRUNING_FEATURE = 1
    PRUNING_RAW_FEATURE = 2
