"""Dense optimizers, learning-rate functions and clipping."""

from monolith.optim.adamom import DenseAdamomOptimizer
from monolith.optim.clipping import clip_by_global_norm, clip_by_norm, clip_by_value
from monolith.optim.rmsprop import DenseRmspropOptimizer
from monolith.optim.scheduled import Rate
from monolith.optim.shampoo import ShampooOptimizer, apply_sparse_precond, eigen_inverse_root

__all__ = [
    "DenseAdamomOptimizer",
    "DenseRmspropOptimizer",
    "Rate",
    "ShampooOptimizer",
    "apply_sparse_precond",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "eigen_inverse_root",
]
