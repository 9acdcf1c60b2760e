"""`python -m accelify` and the `accelify` command; worker processes import it again, so it imports nothing itself."""


def main() -> None:
    """Run the command line."""
    import errno
    import os
    import sys

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    try:
        from accelify.cli import main as run

        run(prog_name="accelify")
    except KeyboardInterrupt:  # before the command line could take it
        sys.exit(130)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.write(2, f"accelify: {error.strerror}\n".encode())
        os._exit(2)  # what is still to be flushed would fail again


if __name__ == "__main__":
    main()
