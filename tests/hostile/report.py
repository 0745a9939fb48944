"""What came of attacks of one kind, counted."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass
class Counts:
    """What came of some attacks; their sum is `tried`, and `slow` ones are counted twice."""

    tried: int = 0

    refused: int = 0
    """A clear error of the kind that the docs promise."""

    read_right: int = 0
    """As if nothing had been done to it."""

    unseen: int = 0
    """Read otherwise than written, where nothing could tell: no checksum covers it."""

    crashes: int = 0
    """The process ended, or raised what nobody would expect."""

    wrong_values: int = 0
    """Something that was never written was read, though a checksum covers it."""

    slow: int = 0
    """Took longer than the limit of its kind."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Counts)))


@dataclass
class Report:
    """Counts by part (a format, a way to do damage), what was found, and other figures worth keeping."""

    kind: str
    seed: int
    parts: dict[str, Counts] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    """One line per attack that must not happen again, with how to repeat it."""
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def total(self) -> Counts:
        """All parts together."""
        return sum(self.parts.values(), Counts())

    def count(self, part: str, outcome: str, *, slow: bool = False) -> None:
        """Add one attack; the outcome is the name of a count."""
        counts = self.parts.setdefault(part, Counts())
        counts.tried += 1
        setattr(counts, outcome, getattr(counts, outcome) + 1)
        counts.slow += slow

    @property
    def is_good(self) -> bool:
        """Nothing crashed, nothing wrong was read, nothing hung."""
        return not (self.findings or self.total.crashes or self.total.wrong_values or self.total.slow)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "seed": self.seed,
            **asdict(self.total),
            "seconds": round(self.seconds, 1),
            **self.figures,
            "parts": {name: asdict(counts) for name, counts in self.parts.items()},
            "findings": self.findings,
        }

    def table(self) -> str:
        """Return it for people."""
        heads = [one.name for one in fields(Counts)]
        width = max(len(name) for name in (*self.parts, self.kind))
        lines = [f"{self.kind:{width}}  " + "  ".join(heads)]
        for name, counts in (*sorted(self.parts.items()), ("all", self.total)):
            cells = "  ".join(f"{getattr(counts, head):{len(head)}}" for head in heads)
            lines.append(f"{name:{width}}  {cells}")
        return "\n".join([*lines, *self.findings])
