"""Serving in several processes: replicas that hold the rows of a shard, and entries that ask them."""
