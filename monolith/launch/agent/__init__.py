"""`monolith agent`: a process that serves what is published in ZooKeeper, and says there where it answers."""
