"""The hours of the day in which lent machines are ours (the tide), in UTC."""

from dataclasses import dataclass
from datetime import UTC, datetime


def before(hour1: int, minute1: int, hour2: int, minute2: int) -> bool:
    """Return whether the first time of day is before the second."""
    return (hour1, minute1) < (hour2, minute2)


def tide_available_now(start_hour: int, start_minute: int, end_hour: int, end_minute: int) -> bool:
    """Return whether it is now, in UTC, between start and end; an end before the start is on the next day."""
    now = datetime.now(UTC)
    started = not before(now.hour, now.minute, start_hour, start_minute)
    ended = not before(now.hour, now.minute, end_hour, end_minute)
    if before(end_hour, end_minute, start_hour, start_minute):
        return started or not ended
    return started and not ended


@dataclass(frozen=True, kw_only=True, slots=True)
class TideConfig:
    """The daily window in which lent machines are ours, and what a run does outside of it; by default there is none."""

    start_hour: int | None = None
    start_minute: int | None = None
    end_hour: int | None = None
    """An end before the start is on the next day."""

    end_minute: int | None = None

    save_seconds: float | None = None
    """Outside the window training continues and saves this often; None stops it there."""

    def __post_init__(self) -> None:
        """Reject half a window, times that do not exist, and an empty window."""
        times = (self.start_hour, self.start_minute, self.end_hour, self.end_minute)
        if all(time is None for time in times):
            if self.save_seconds is not None:
                raise ValueError(f"tide_save_secs={self.save_seconds:g} needs a tide window; set tide_start_hour, ...")
            return
        window = self.window
        if window is None:
            raise ValueError(
                "a tide window needs tide_start_hour, tide_start_minute, tide_end_hour and tide_end_minute, got "
                f"{times}"
            )
        start, start_minute, end, end_minute = window
        shown = f"{start}:{start_minute:02}", f"{end}:{end_minute:02}"
        if not (0 <= start < 24 and 0 <= end < 24 and 0 <= start_minute < 60 and 0 <= end_minute < 60):
            raise ValueError(f"tide_start and tide_end are times of day, got {' and '.join(shown)}")
        if shown[0] == shown[1]:
            raise ValueError(f"a tide window from {shown[0]} to the same time is empty; leave it out")

    @property
    def window(self) -> tuple[int, int, int, int] | None:
        """Hour and minute of the start, hour and minute of the end; None without a window."""
        start, start_minute, end, end_minute = self.start_hour, self.start_minute, self.end_hour, self.end_minute
        if start is None or start_minute is None or end is None or end_minute is None:
            return None
        return start, start_minute, end, end_minute

    @property
    def is_out(self) -> bool:
        """Whether it is now outside the window; never without one."""
        return self.window is not None and not tide_available_now(*self.window)
