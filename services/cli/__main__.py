"""Where the ``mailroom`` command begins."""

import sys


def main() -> None:
    """Run the command line of this process; Ctrl-C ends it with 1, also while it is still being loaded."""
    try:
        from services.cli.command import run

        run()
    except KeyboardInterrupt:
        sys.exit(1)


if __name__ == "__main__":
    main()
