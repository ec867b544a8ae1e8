"""`maxmargin convert`: write data in another format."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from maxmargin.cli.common import (
    AbsentChunksOption,
    Data,
    Header,
    LabelColumn,
    Labels,
    Quiet,
    one_line_errors,
    position_or_name,
)
from maxmargin.cli.progress import RowProgress
from maxmargin.data import convert as convert_data


@one_line_errors
def convert(
    data: Data,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="The path to write. Its suffix gives the format: .zarr, .h5, .parquet, .arrow, .npy or .libsvm.",
        ),
    ],
    chunks: Annotated[
        str | None,
        typer.Option(
            metavar="ROWSxCOLS",
            help="The size of a chunk of a dense array; for Parquet and Arrow, ROWS is the size of a row group.",
            show_default="whole rows of about 4 MB together",
        ),
    ] = None,
    also_by_column: Annotated[
        bool, typer.Option("--also-by-column", help="Write a second copy for reading columns (Zarr, HDF5).")
    ] = False,
    sparse: Annotated[
        bool | None,
        typer.Option(
            "--sparse/--dense", help="Whether to write a sparse matrix (Zarr, HDF5).", show_default="as in DATA"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
    label_column: LabelColumn = "last",
    no_labels: Annotated[bool, typer.Option("--no-labels", help="Treat all columns of DATA as features.")] = False,
    labels: Labels = None,
    header: Header = None,
    absent_chunks: AbsentChunksOption = "error",
    quiet: Quiet = False,
) -> None:
    """Write DATA with its labels in another format, with little memory. OUT is written completely or not at all."""
    with RowProgress("converting", shown=not quiet) as progress:
        convert_data(
            data,
            out,
            chunks=None if chunks is None else rows_and_columns(chunks),
            also_by_column=also_by_column,
            sparse=sparse,
            force=force,
            label_column=None if no_labels else position_or_name(label_column),
            labels=labels,
            header="auto" if header is None else header,
            absent_chunks=absent_chunks,  # type: ignore[arg-type]
            progress=progress.update,
        )


def rows_and_columns(text: str) -> tuple[int, int]:
    """Parse the size of a chunk.

    >>> rows_and_columns("1000x64")
    (1000, 64)
    """
    found = re.fullmatch(r"(\d+)x(\d+)", text)
    if not found:
        raise ValueError(f"--chunks {text}: give the numbers of rows and columns as ROWSxCOLS, such as 1000x64")
    return int(found[1]), int(found[2])
