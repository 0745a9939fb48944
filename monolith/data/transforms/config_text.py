"""Settings written as text, such as '1,2:3:0.5;4::1', read with errors that show the place."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """A part of a setting that knows where it stands.

    >>> [piece.number() for piece in Piece("actions", "3,4").split(",")]
    [3, 4]
    >>> Piece("actions", "3,x").split(",")[1].number()
    Traceback (most recent call last):
        ...
    ValueError: actions: expected a whole number at character 2 of '3,x', got 'x'
    """

    owner: str
    """Whose setting it is, for errors."""

    whole: str
    """The whole setting."""

    begin: int = 0
    end: int | None = None

    @property
    def text(self) -> str:
        """The part itself, without spaces around."""
        return self.whole[self.begin : self.end].strip()

    def split(self, separator: str) -> "list[Piece]":
        """Return the parts between separators; none if there is nothing but spaces."""
        if not self.text:
            return []
        pieces, begin = [], self.begin
        for part in self.whole[self.begin : self.end].split(separator):
            pieces.append(Piece(self.owner, self.whole, begin, begin + len(part)))
            begin += len(part) + len(separator)
        return pieces

    def number(self) -> int:
        """Return the whole number that this part is."""
        try:
            return int(self.text)
        except ValueError:
            raise self.error("a whole number") from None

    def real(self, low: float | None = None, high: float | None = None) -> float:
        """Return the number that this part is, between bounds."""
        try:
            value = float(self.text)
        except ValueError:
            raise self.error("a number") from None
        if (low is not None and not value >= low) or (high is not None and not value <= high):
            raise self.error(f"a number from {low} to {high}")
        return value

    def error(self, expected: str) -> ValueError:
        """Return an error that says what was expected here."""
        return ValueError(
            f"{self.owner}: expected {expected} at character {self.begin} of {self.whole!r}, got {self.text!r}"
        )


def parse_actions(owner: str, text: str) -> tuple[int, ...]:
    """Return the actions of a list such as '1,2,3'; each may be there once.

    >>> parse_actions("action_priority", "4,2")
    (4, 2)
    """
    pieces = Piece(owner, text).split(",")
    actions = [piece.number() for piece in pieces]
    for place, action in enumerate(actions):
        if action in actions[:place]:
            raise pieces[place].error("an action that is not there before")
    return tuple(actions)
