"""Names of the original that cannot be imported: they are gone for good."""

from typing import Final

RETIRED: Final[dict[str, str]] = {
    "monolith.utils:enable_monkey_patch": (
        "it changed which errors TensorFlow's MonitoredSession takes for a preemption; there is no session here, and "
        "the training loop decides by itself what it retries. Delete the call."
    ),
    "monolith.native_training.save_utils:SaverBuilder": (
        "it grouped TensorFlow's restore operations by device; here each process restores its own part. Use "
        "monolith.native_training.save_utils.PartialRecoverySaver, which asks only the processes that are new."
    ),
}
"""What has no job left on PyTorch, with the sentence a user reads who imports it."""
