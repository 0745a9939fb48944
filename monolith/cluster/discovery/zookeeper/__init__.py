"""Discovery by ZooKeeper. Needs kazoo, except for the list of servers."""
