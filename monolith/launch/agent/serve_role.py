"""The command line in a process that ends with its parent: what an agent starts a server by."""

import runpy

from monolith.launch.parent_watch import end_with_parent

if __name__ == "__main__":
    end_with_parent()
    runpy.run_module("monolith", run_name="__main__", alter_sys=True)
