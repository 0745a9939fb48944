"""Where the processes of a job run: on this machine, on Ray, on Kubernetes, or under any other scheduler."""
