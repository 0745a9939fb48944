"""Docstrings as markdown: sections become lists, examples become code."""

import re

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields|Example|Examples|Note):$")


def markdown(doc: str) -> str:
    """Return a cleaned docstring as markdown."""
    doc = re.sub(r":\w+:`", "`", doc.strip())
    return "\n\n".join(_paragraph(one) for one in re.split(r"\n\s*\n", doc) if one.strip())


def first_sentences(doc: str) -> str:
    r"""Return the first paragraph of a docstring in one line.

    >>> first_sentences("Return\nrows.\n\nMore.")
    'Return rows.'
    """
    return " ".join(re.split(r"\n\s*\n", doc.strip())[0].split())


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if lines[0].lstrip().startswith(">>>"):
        return "```pycon\n" + text + "\n```"
    if not _SECTION.match(lines[0]):
        return text
    title = f"**{lines[0].rstrip(':')}**"
    entries: list[str] = []
    for line in lines[1:]:
        is_new = not line.startswith(" " * 5) or not entries
        entries = [*entries, line.strip()] if is_new else [*entries[:-1], f"{entries[-1]} {line.strip()}"]
    named = [re.sub(r"^(\*{0,2}[\w, *]+): ", r"- `\1`: ", one) for one in entries]
    return "\n\n".join([title, "\n".join(named)]) if named else title
