"""Summaries of the `monolith` plugin of TensorBoard, at the original paths."""
