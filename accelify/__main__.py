"""`python -m accelify` and the `accelify` command; worker processes import it again, so it imports nothing itself."""


def main() -> None:
    """Run the command line."""
    from accelify.cli import main as run

    run(prog_name="accelify")


if __name__ == "__main__":
    main()
