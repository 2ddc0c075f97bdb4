"""``python -m evencover`` is the command line."""

from evencover.cli import main

if __name__ == "__main__":
    main()
