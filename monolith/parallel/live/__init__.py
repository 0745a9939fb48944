"""Rows on parameter servers on their way to serving: every server sends its own."""
