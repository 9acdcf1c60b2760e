"""The errors that accelify raises on purpose; anything else is a bug and shows its traceback."""


class AccelifyError(Exception):
    """The base of them all: names the thing, the value and the way out."""
