"""Processes of a job that read its data: a dispatcher and its data workers."""
