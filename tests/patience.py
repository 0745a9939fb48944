"""How long tests wait for something that must happen."""

PATIENCE_SECONDS = 300.0
"""A limit against hanging, not a measure: far more than anything takes on a busy machine that stops now and then."""
