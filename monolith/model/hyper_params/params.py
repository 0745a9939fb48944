"""Params: named settings with defaults and descriptions, which may hold further settings."""

import copy
import difflib
import re
from collections.abc import Iterator
from typing import Any, Self

_NAME = re.compile(r"^[a-z][a-z0-9_]*$")


class Params:
    """Settings that must be defined before they are set; a misspelt name is an error that offers near ones.

    >>> p = Params()
    >>> p.define("units", 8, "Width of the layer.")
    >>> p.define("train", Params(), "How it is trained.")
    >>> p.train.define("steps", None, "How long.")
    >>> p.set(units=16, **{"train.steps": 100}).get("train.steps")
    100
    >>> p.unit = 3
    Traceback (most recent call last):
        ...
    AttributeError: there is no parameter 'unit'; did you mean 'units'? Define it first with define()
    """

    _values: dict[str, Any]
    _descriptions: dict[str, str]
    _frozen: bool

    def __init__(self) -> None:
        """Begin without settings."""
        self.__dict__.update(_values={}, _descriptions={}, _frozen=False)

    def define(self, name: str, default_value: Any, description: str) -> None:
        """Add a setting; one of the same name is an AttributeError."""
        self._check_thawed(name)
        if not isinstance(name, str) or not _NAME.match(name):
            raise AttributeError(f"parameter {name!r}: a name is small letters, digits and _, beginning with a letter")
        if name in self._values:
            raise AttributeError(f"parameter {name!r} is already defined")
        self._values[name] = default_value
        self._descriptions[name] = description

    def set(self, **values: Any) -> Self:
        """Set values by name, "a.b" for one inside another, and return itself; nothing changes if a name is unknown."""
        holders = [(self._holder(name), name.rpartition(".")[2], value) for name, value in values.items()]
        for holder, name, _ in holders:
            holder._check_thawed(name)
            holder._check_known(name)
        for holder, name, value in holders:
            holder._values[name] = value
        return self

    def get(self, name: str) -> Any:
        """Return the value of a name, "a.b" for one inside another."""
        holder, last = self._holder(name), name.rpartition(".")[2]
        holder._check_known(last)
        return holder._values[last]

    def delete(self, *names: str) -> Self:
        """Remove settings and return itself."""
        for name in names:
            holder, last = self._holder(name), name.rpartition(".")[2]
            holder._check_thawed(last)
            holder._check_known(last)
            del holder._values[last], holder._descriptions[last]
        return self

    def freeze(self) -> None:
        """Refuse all changes from now on, also of settings inside."""
        self.__dict__["_frozen"] = True
        for value in self._values.values():
            if isinstance(value, Params):
                value.freeze()

    def copy(self) -> Self:
        """Return a copy that can be changed; what is not settings itself is shared where it cannot be copied."""
        made = copy.copy(self)
        values = {name: _copied(value) for name, value in self._values.items()}
        made.__dict__.update(_values=values, _descriptions=dict(self._descriptions), _frozen=False)
        return made

    def iter_params(self) -> Iterator[tuple[str, Any]]:
        """Yield names and values, in order of definition."""
        yield from self._values.items()

    def description(self, name: str) -> str:
        """Return what was said of a setting when it was defined."""
        self._check_known(name)
        return self._descriptions[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._check_known(name)
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._check_thawed(name)
        self._check_known(name)
        self._values[name] = value

    def __getitem__(self, name: str) -> Any:
        return self.get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.set(**{name: value})

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Params) and type(self) is type(other) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def _holder(self, name: str) -> "Params":
        """Return the settings in which the last part of a dotted name is."""
        holder: Any = self
        for part in name.split(".")[:-1]:
            holder._check_known(part)
            holder = holder._values[part]
            if not isinstance(holder, Params):
                raise AttributeError(f"parameter {name!r}: {part!r} is {holder!r} and has no parameters inside")
        return holder  # type: ignore[no-any-return]

    def _check_known(self, name: str) -> None:
        if name not in self._values:
            near = difflib.get_close_matches(name, self._values, n=3)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; there are {list(self._values)}."
            raise AttributeError(f"there is no parameter {name!r}{hint} Define it first with define()")

    def _check_thawed(self, name: str) -> None:
        if self._frozen:
            raise TypeError(f"the parameters are frozen; {name!r} cannot change. Use copy() and change that")


def _copied(value: Any) -> Any:
    if isinstance(value, Params):
        return value.copy()
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - any class may refuse; then the value is shared
        return value
