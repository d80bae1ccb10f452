"""`tileloom layout`: a picture of a layout of Triton's, and what a conversion to another moves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ..base.errors import UserError
from ..tile.layouts.banks import bank_use
from ..tile.layouts.conversion import classify_conversion
from ..tile.layouts.draw import LayoutPicture, read_encoding
from ..tile.layouts.encodings import Encoding, SharedEncoding


@click.command("layout")
@click.argument("encoding")
@click.argument("shape")
@click.option("--to", "other", metavar="ENCODING", help="Say what a conversion to it moves.")
@click.option("--bits", default=16, show_default=True, help="The width of an element.")
@click.option("--banks", is_flag=True, help="Draw the banks of shared memory, not the offsets.")
@click.option("--svg", type=click.Path(dir_okay=False), help="Write the picture to this file.")
@click.option("--rows", default=32, show_default=True, help="Rows of a table of text, at most.")
@click.option("--columns", default=16, show_default=True, help="Its columns, at most.")
def command(
    encoding: str,
    shape: str,
    other: str | None,
    bits: int,
    banks: bool,
    svg: str | None,
    rows: int,
    columns: int,
) -> None:
    """Draw who has which element of a tensor of SHAPE (64x32) in a layout of tile IR.

    An element is at T3:1 if thread 3 of the block has it in register 1; +2 says that two others
    have it too. In shared memory it is at an offset, in elements.
    """
    first, sizes = read_encoding(encoding), read_shape(shape)
    if banks and not isinstance(first, SharedEncoding):
        raise UserError("--banks is for layouts of shared memory", hint="--to names a second one")
    picture = LayoutPicture(sizes, first, bits, banks)
    if other is not None:
        click.echo(compare(sizes, first, read_encoding(other), bits))
    elif svg is None:
        click.echo(picture.text(rows, columns))
    if svg is not None:
        Path(svg).write_text(picture.svg())
        click.echo(f"wrote {svg}")


def read_shape(text: str) -> tuple[int, ...]:
    """The sizes of a shape in text.

    >>> read_shape("64x32")
    (64, 32)
    """
    parts = text.split("x")
    if not all(part.isdigit() and int(part) for part in parts):
        raise UserError(f"{text!r} is not a shape", hint="sizes with x between them: 64x32")
    return tuple(map(int, parts))


def compare(shape: Sequence[int], first: Encoding, second: Encoding, bits: int) -> str:
    """What a conversion moves, or how registers and shared memory go together."""
    memories = [isinstance(each, SharedEncoding) for each in (first, second)]
    if all(memories):
        raise UserError("both layouts are of shared memory")
    if not any(memories):
        return str(classify_conversion(shape, first, second))
    threads, memory = (second, first) if memories[0] else (first, second)
    if not isinstance(memory, SharedEncoding):
        raise UserError(f"{memory} is not a layout of shared memory")
    return str(bank_use(shape, threads, memory, bits))
