"""`python -m tileloom.cli`, where the console script is not on the path."""

from . import main

main()
