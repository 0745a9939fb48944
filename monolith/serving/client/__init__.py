"""A client of a prediction server: columns or records in, arrays out. Needs neither FastAPI nor ONNX Runtime."""

from monolith.serving.client.answer_error import AnswerError
from monolith.serving.client.serving_client import ServingClient

__all__ = ["AnswerError", "ServingClient"]
