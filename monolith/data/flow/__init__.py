"""Steps between a source and training; each is a source itself and keeps the position exact."""

from monolith.data.flow.mapped import Mapped

__all__ = ["Mapped"]
