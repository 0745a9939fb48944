"""Who is where: how the processes of a job find each other, and what a platform tells a process about its job."""
