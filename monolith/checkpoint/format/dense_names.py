"""Dense weights that were renamed since a snapshot was written: which old name each new one had."""

import re
import warnings
from collections.abc import Iterable, Mapping

from torch import Tensor

_NUMBERED = re.compile(r"(?P<stem>.*?)_?(?P<number>\d+)?")
_rules: dict[str, str] = {}


def add_mapping_rules(rules: Mapping[str, str]) -> None:
    """Teach the guess rules of a user: a regular expression for a new name -> its old name, as a format of its groups.

    >>> add_mapping_rules({"rank_head[.](.*)": "rank_tower.{0}"})
    """
    for pattern, old in rules.items():
        re.compile(pattern)
        _rules[pattern] = old


def old_names(
    wanted: Mapping[str, Tensor],
    saved: Mapping[str, Tensor],
    *,
    alias_map: Mapping[str, str] | None = None,
    guess: bool = True,
) -> dict[str, str]:
    """Return the saved name of each wanted one: by the alias map, by the same name, or guessed.

    A guess is taken only if every wanted and every saved weight has exactly one partner, of its shape. If there is no
    such guess, a warning asks for an alias map, and all keep their names.

    Raises:
        ValueError: The alias map names what is not there.
    """
    same = {name: name for name in wanted}
    if alias_map is not None:
        _check_aliases(alias_map, wanted, saved)
        return same | dict(alias_map)
    if not guess or set(wanted) == set(saved):
        return same
    for found in (_by_canonical_names(wanted, saved), _one_by_one(wanted, saved)):
        if _is_sound(found, wanted, saved):
            return found
    warnings.warn(
        f"dense weights {_some(set(wanted) - set(saved))} are not in the snapshot, which has "
        f"{_some(set(saved) - set(wanted))}; if they were renamed, say so with reload_alias_map={{new: old}}",
        stacklevel=2,
    )
    return same


def canonical_names(names: Iterable[str]) -> dict[str, str]:
    """Return a form of each name that does not depend on how layers were numbered or nested in one of their own name.

    Repeated parts become one, and numbers of layers count from 0 in each place.

    >>> canonical_names(["net.net.dense_1.weight", "net.net.dense_7.weight"])
    {'net.net.dense_1.weight': 'net.dense_0.weight', 'net.net.dense_7.weight': 'net.dense_1.weight'}
    """
    parts = {name: _without_repeats(name.split(".")) for name in names}
    for depth in range(max((len(one) for one in parts.values()), default=0)):
        ranks: dict[tuple[str, ...], list[int]] = {}
        for one in parts.values():
            if len(one) > depth:
                stem, number = _split_number(one[depth])
                ranks.setdefault((*one[:depth], stem), []).append(number)
        for one in parts.values():
            if len(one) > depth:
                stem, number = _split_number(one[depth])
                rank = sorted(set(ranks[(*one[:depth], stem)])).index(number)
                one[depth] = f"{stem}_{rank}" if len(set(ranks[(*one[:depth], stem)])) > 1 or number >= 0 else stem
    return {name: ".".join(one) for name, one in parts.items()}


def _by_canonical_names(wanted: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> dict[str, str]:
    old = {canonical: name for name, canonical in canonical_names(saved).items()}
    new = canonical_names(wanted)
    return {name: old[canonical] for name, canonical in new.items() if canonical in old}


def _one_by_one(wanted: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> dict[str, str]:
    """Names that stayed, then those that a rule turns, then those that only lie deeper or less deep than before."""
    found = {name: name for name in wanted if name in saved}
    for name in wanted.keys() - found.keys():
        for pattern, old in _rules.items():
            match = re.fullmatch(pattern, name)
            if match and (turned := old.format(*match.groups(), **match.groupdict())) in saved:
                found[name] = turned
    left = saved.keys() - found.values()
    for name in wanted.keys() - found.keys():
        nested = [old for old in left if f".{old}".endswith(f".{name}") or f".{name}".endswith(f".{old}")]
        if len(nested) == 1:
            found[name] = nested[0]
    return found


def _is_sound(found: Mapping[str, str], wanted: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> bool:
    return (
        found.keys() == wanted.keys()
        and sorted(found.values()) == sorted(saved)
        and all(wanted[new].shape == saved[old].shape for new, old in found.items())
    )


def _check_aliases(alias_map: Mapping[str, str], wanted: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    for new, old in alias_map.items():
        if new not in wanted:
            raise ValueError(f"reload_alias_map: the model has no {new!r}; it has {_some(wanted)}")
        if old not in saved:
            raise ValueError(f"reload_alias_map: the snapshot has no {old!r} for {new!r}; it has {_some(saved)}")


def _without_repeats(parts: list[str]) -> list[str]:
    return [part for i, part in enumerate(parts) if i == 0 or part != parts[i - 1] or part.isdigit()]


def _split_number(part: str) -> tuple[str, int]:
    """Return what a layer is called, and its number; -1 for the one without, which comes first."""
    match = _NUMBERED.fullmatch(part)
    assert match is not None
    return match["stem"], -1 if match["number"] is None else int(match["number"])


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "") if listed else "none"
