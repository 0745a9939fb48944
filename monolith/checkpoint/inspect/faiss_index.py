"""Vectors in an index of FAISS, for the nearest ones. The one module that imports faiss."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

try:
    import faiss
except ImportError as error:
    raise ImportError(
        "an index needs the package faiss-cpu: pip install 'monolith-recsys[faiss]', or write a file .parquet",
        name="faiss",
    ) from error

METRICS = {"dot": faiss.METRIC_INNER_PRODUCT, "l2": faiss.METRIC_L2}


class FaissIndex:
    """All vectors with their ids, searched one by one; other programs may put them into another kind of index."""

    def __init__(self, dim: int, metric: str) -> None:
        """Begin empty."""
        self._index = faiss.IndexIDMap2(faiss.IndexFlat(dim, METRICS[metric]))

    def add(self, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add vectors."""
        self._index.add_with_ids(np.ascontiguousarray(vectors), np.ascontiguousarray(ids))

    def write(self, path: Path) -> None:
        """Write the index to a file."""
        faiss.write_index(self._index, str(path))
