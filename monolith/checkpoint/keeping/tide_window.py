"""The hours of the day in which lent machines are ours (the tide), in UTC."""

from datetime import UTC, datetime


def before(hour1: int, minute1: int, hour2: int, minute2: int) -> bool:
    """Return whether the first time of day is before the second."""
    return (hour1, minute1) < (hour2, minute2)


def tide_available_now(start_hour: int, start_minute: int, end_hour: int, end_minute: int) -> bool:
    """Return whether it is now, in UTC, between begin and end; an end before the begin is on the next day."""
    now = datetime.now(UTC)
    started = not before(now.hour, now.minute, start_hour, start_minute)
    ended = not before(now.hour, now.minute, end_hour, end_minute)
    if before(end_hour, end_minute, start_hour, start_minute):
        return started or not ended
    return started and not ended
