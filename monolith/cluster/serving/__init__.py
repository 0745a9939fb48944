"""Servers of models in ZooKeeper, in the layout of the original's agents."""
