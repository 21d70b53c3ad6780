"""The entry point of the ``mailroom`` command."""

import sys


def main() -> None:
    """Run the command line of this process; Ctrl-C exits with 1, also during the imports."""
    try:
        from services.cli.command import run

        run()
    except KeyboardInterrupt:
        sys.exit(1)


if __name__ == "__main__":
    main()
