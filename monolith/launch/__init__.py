"""Start the roles of a job: on this machine, each in a process of its own."""
