"""Online training: follow a stream, keep serving up to date, survive a crash.

Exports need the serving packages (``pip install 'monolith-recsys[serving]'``), so `monolith.train` does not load this.
"""

from monolith.train.online.run import OnlineSettings, run_online

__all__ = ["OnlineSettings", "run_online"]
