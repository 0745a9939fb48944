"""The original path monolith.tpu_runner."""
