"""How parameter servers are named."""

PS_JOB_NAME = "ps"


def ps_device(index: int) -> str:
    """Return the name of the place that parameter server `index` keeps its weights in.

    >>> ps_device(3)
    '/job:ps/task:3/device:CPU:0'
    """
    return f"/job:{PS_JOB_NAME}/task:{index}/device:CPU:0"
