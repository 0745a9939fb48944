"""Dense optimizers, learning-rate functions and clipping."""

from monolith.optim.clipping import clip_by_global_norm, clip_by_norm, clip_by_value

__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value"]
