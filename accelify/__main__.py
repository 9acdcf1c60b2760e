"""`python -m accelify` and the `accelify` command. Worker processes import this module again, so it stays empty-handed."""


def main() -> None:
    """Run the command line."""
    from accelify.cli import main as run

    run(prog_name="accelify")


if __name__ == "__main__":
    main()
