"""`python -m misstep`: the same as the command."""

from misstep.cli import main

if __name__ == "__main__":
    main()
