"""A Ray cluster of two local nodes, as a process of its own: prints its address, and loses a node when asked to."""

import sys

from ray.cluster_utils import Cluster

# A lost node is noticed after seconds and not after half a minute.
QUICK = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 3,
}


def main():
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False, "_system_config": QUICK}
    )
    try:
        other = cluster.add_node(num_cpus=4)
        print(cluster.address, flush=True)
        for line in sys.stdin:
            if line == "remove\n":
                cluster.remove_node(other, allow_graceful=False)
            else:
                assert line == "add\n"
                other = cluster.add_node(num_cpus=4)
            print("done", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
