"""The processes that read splits."""
