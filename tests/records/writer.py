"""A program that writes records until it has written enough, or is killed.

`python writer.py URL NAME COUNT` prints the number of each record once `add` has returned.
"""

from __future__ import annotations

import sys

from tileloom.records import Record, open_records


def main(url: str, name: str, count: int) -> None:
    trace = [[["GetBlock", [], ["C" * 5000, "main"], ["b0"]]], []]
    with open_records(url) as store:
        for number in range(count):
            store.add(Record("w", "t", trace, (1.0 + number,), extra={"by": [name, number]}))
            print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
