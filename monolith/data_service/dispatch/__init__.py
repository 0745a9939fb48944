"""The process that gives out splits."""
