"""The compiled core; missing or broken, it fails here with one clear line."""

try:
    from monolith._core import native as native
except ImportError as error:
    raise ImportError(
        f"monolith's compiled core cannot be loaded ({error}); reinstall with `pip install --force-reinstall "
        "monolith-recsys`, or run `make setup` in a source checkout"
    ) from error
