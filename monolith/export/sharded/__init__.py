"""A version that several processes serve: the rows of one shard each, and an entry that asks them."""
