"""Doctests of the sources: files whose optional package is not installed are left out."""

from importlib.util import find_spec

_OPTIONAL = {
    "torch": "tileloom/frontend/torch/*",
    "islpy": "tileloom/schedule/integer_sets.py",
    "scipy": "tileloom/sparse/arrays/*",
}

collect_ignore_glob = [files for package, files in _OPTIONAL.items() if find_spec(package) is None]
