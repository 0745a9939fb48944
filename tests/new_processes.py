"""Processes that start in a moment: forks of one that has imported what the tests of several processes need."""

import multiprocessing

PROCESSES = multiprocessing.get_context("forkserver")
"""Python has one such server per process, with one list of imports: whoever comes first starts it."""

PROCESSES.set_forkserver_preload(
    [
        "tests.checkpoint.shards.shard_process",
        "tests.data.made_events",
        "tests.data_service.numbered_input",
        "tests.train.job.counting_job",
        "tests.train.reported_run",
    ]
)
