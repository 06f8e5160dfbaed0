"""`python -m archer`: the command line where its script is not on the path."""

import sys

INTERRUPTED = 130


def main() -> int:
    """The command line; Ctrl-C while it is still being imported ends it without a traceback."""
    try:
        from archer.cli import main as command

        return command()
    except KeyboardInterrupt:
        sys.stderr.write("archer: interrupted.\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
