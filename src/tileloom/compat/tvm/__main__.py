"""`python -m tileloom.compat.tvm script.py ...`: run a script of TVM's on Tileloom."""

from __future__ import annotations

import runpy
import sys

from ...base.errors import UserError
from . import install


def main(args: list[str]) -> None:
    """Install the names of TVM and run the script with the arguments after it."""
    if not args:
        raise UserError("no script is given", hint="python -m tileloom.compat.tvm script.py")
    install()
    sys.argv = args
    runpy.run_path(args[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
