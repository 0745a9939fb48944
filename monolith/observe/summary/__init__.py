"""Summaries for TensorBoard: scalars, histograms, and the tensors of the `monolith` plugin."""

PLUGIN_NAME = "monolith"
