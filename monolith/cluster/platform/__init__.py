"""What a platform tells a process about its job, and what a job can ask of its platform."""
