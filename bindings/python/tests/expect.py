"""What the tests share."""

from collections.abc import Callable


def raises(kind: type[BaseException], work: Callable, *args, **named) -> BaseException:
    """What a call raises; another kind, or nothing, is an error."""
    try:
        work(*args, **named)
    except kind as e:
        return e
    raise AssertionError(f"{kind.__name__} was not raised")
