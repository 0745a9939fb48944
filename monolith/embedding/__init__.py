"""Ids to rows: tables, row optimizers, combiners, routing."""
