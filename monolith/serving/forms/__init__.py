"""What requests and answers look like: Open Inference Protocol, TensorFlow Serving, and the JSON of both."""
