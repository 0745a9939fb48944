"""How names of classes become names of parameters."""

import re


def to_snake_case(name: str) -> str:
    """Return a class name in small letters with underscores; one that begins with an underscore becomes "private...".

    >>> to_snake_case("FFMModel"), to_snake_case("MovieRanking"), to_snake_case("_Dense")
    ('ffm_model', 'movie_ranking', 'private_dense')
    """
    parts = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    snake = re.sub(r"([a-z])([A-Z])", r"\1_\2", parts).lower()
    return f"private{re.sub('__+', '_', snake)}" if snake.startswith("_") else snake
