"""`python -m icdc` is the `icdc` command."""

from .cli import main

if __name__ == "__main__":
    main()
