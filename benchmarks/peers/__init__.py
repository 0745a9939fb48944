"""The contenders that run in processes, and mostly environments, of their own; each module here is one program."""
