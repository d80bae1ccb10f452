"""`python -m tileloom`: the command line."""

from .cli import main

main()
