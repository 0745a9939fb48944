"""`python -m monolith` is the `monolith` command."""

from monolith.cli.run import main

if __name__ == "__main__":
    main()
