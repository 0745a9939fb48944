"""A table as a plain `nn.Module`, for any PyTorch loop."""

from monolith.embedding.hash_embedding.bag import HashEmbeddingBag
from monolith.embedding.hash_embedding.embedding import HashEmbedding
from monolith.embedding.hash_embedding.row_optimizer import RowOptimizer
from monolith.embedding.hash_embedding.table_module import TableModule

__all__ = ["HashEmbedding", "HashEmbeddingBag", "RowOptimizer", "TableModule"]
