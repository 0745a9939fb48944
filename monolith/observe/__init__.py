"""What others see of a run: metric names, counters, summaries, stack traces."""
