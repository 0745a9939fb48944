"""Rows to read from table servers that serve: several replicas of each shard, any of which may be away."""
