"""``python -m evencover`` is the command line."""

from evencover._cli import main

if __name__ == "__main__":
    main()
