"""Code that the subcommands share: options, error messages, checks of files, labels as text."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import numpy as np
import typer
from numpy.typing import NDArray

from maxmargin.core.optional import MissingPackageError
from maxmargin.core.source import is_source
from maxmargin.data import Table, load_table
from maxmargin.data.stores import DEFAULT_CACHE_SIZE, split_inside
from maxmargin.data.streams import COMPRESSED, STANDARD_INPUT
from maxmargin.engine.certificate import SAYABLE_GAP, Certificate, Certificates
from maxmargin.estimators.words import count, label_text

# The golden ratio; the fractional parts of its multiples are evenly spread.
_GOLDEN = (math.sqrt(5) + 1) / 2
MOST_NAMES = 5  # maximum number of columns or labels that a message lists; it counts the others

P = ParamSpec("P")
T = TypeVar("T")

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, from `maxmargin train` or `ball`.")]
LabelColumn = Annotated[
    str,
    typer.Option(
        help="The label column of CSV, .npy, Parquet and Arrow files: first, last, a name, or a position from 0."
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV file holds the names of its columns.",
        show_default="yes if none of its cells is a number",
    ),
]
# Options of more than one subcommand
Labels = Annotated[
    str | None,
    typer.Option(
        help="The labels, if DATA has none: a .npy or text file, or an array in Zarr or HDF5 (obs/kind, b.h5::/y)."
    ),
]
AbsentChunksOption = Annotated[
    str,
    typer.Option(
        "--absent-chunks",
        metavar="error|fill",
        help="How to treat missing chunks of a Zarr or HDF5 store: as an error, or as the fill value.",
    ),
]
DATA_HELP = (
    "A LIBSVM, CSV, .npy or .npz file, compressed or not; also a pipe, or - for standard input. Or a store, which is "
    "not loaded: Zarr, HDF5 (data.h5::/path/in/it), Parquet, Arrow."
)
Data = Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)]
Gamma = Annotated[
    str | None, typer.Option(help="The coefficient of the kernel: scale, auto or a number.", show_default="scale")
]
Degree = Annotated[int | None, typer.Option(help="The degree of the kernel poly.", show_default="3")]
Coef0 = Annotated[
    float | None, typer.Option("--coef0", help="The constant of the kernels poly and sigmoid.", show_default="0")
]
CacheSize = Annotated[
    float | None,
    typer.Option(
        help="The size of the cache for kernel rows, or for blocks of a store, in megabytes.",
        show_default="2000; for a store 1000",
    ),
]
Budget = Annotated[
    int | None,
    typer.Option(
        help="The maximum number of entries of DATA to read for learning; with --kernel, of kernel evaluations."
    ),
]
MaxTime = Annotated[float | None, typer.Option(help="The maximum time in seconds.")]
MaxIter = Annotated[
    int | None,
    typer.Option(
        help="The maximum number of passes over the rows; of iterations for solvers that do not visit rows one by one."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress and no summary, only warnings and errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print only one JSON object to standard output.")]


def one_line_errors(command: Callable[P, T]) -> Callable[P, T]:
    """Print errors that a user can cause on one line without a traceback, and exit with 2; let other errors pass.

    Warnings are printed in the same way, without the line of code that raised them.
    """

    @wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> T:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default", UserWarning)  # show messages to the user despite other filters
                # Rows read from files have no feature names; `check_column_names` compares the names of columns.
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
                warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
                return command(*args, **options)
        except BrokenPipeError:  # a reader such as `| head` has closed the pipe; typer exits without a message
            raise
        except OSError as error:
            message = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        except (ValueError, MissingPackageError) as error:
            message = str(error)
        say(f"error: {message}")
        raise typer.Exit(2)

    return run


def warn_if_loose(certificate: Certificate | Certificates) -> None:
    """Print a certificate that proves little or nothing as a warning: with `--quiet` there is no summary to show it."""
    if not (certificate and certificate.relative_gap <= SAYABLE_GAP):
        say(f"warning: {certificate}")


def say(line: str) -> None:
    """Print a message to standard error."""
    print(f"maxmargin: {line}", file=sys.stderr, flush=True)


def check_can_write(path: Path, data: Path) -> None:
    """Refuse a path in advance if nothing can be written there, or if writing would replace the data."""
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"cannot write {path}: give the name of a file in an existing folder")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"cannot write {path}: no permission to write to the folder {path.parent}")
    source = data if data.exists() else split_inside(data)[0]  # data.h5, if the data is data.h5::/X
    if path.exists() and source.exists() and path.samefile(source):
        raise ValueError(f"{path} is the data; give another name for the output")


def is_stream(path: Path) -> bool:
    """Whether a source can be read only once: standard input, a pipe, or a device."""
    return str(path) == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def source_name(path: Path) -> str:
    """Return the name of the data in summaries and messages."""
    if str(path) == STANDARD_INPUT:
        return "standard input"
    return str(path) if is_stream(path) else path.name


def refuse_same_stream(data: Path, test: Path) -> None:
    """Refuse to read a stream twice, because it would be empty the second time."""
    one, other = (Path("/dev/stdin") if str(path) == STANDARD_INPUT else path for path in (data, test))
    if is_stream(data) and is_stream(test) and (one == other or one.samefile(other)):
        raise ValueError(
            f"DATA and --test are both {source_name(data)}, which can be read only once: save it to a file first"
        )


def result_path(path: Path | None, option: str, data: Path, suffix: str) -> Path:
    """Return the path of a result: the given path, or a name made from that of the data, in the current folder."""
    if path is None and is_stream(data):
        raise ValueError(f"{source_name(data)} is not a file to name the result after; give a name with {option} FILE")
    path = Path(stem(data) + suffix) if path is None else path
    check_can_write(path, data)
    return path


def read(
    path: Path,
    label_column: str | None,
    header: bool | None,
    n_features: int | None = None,
    labels: str | None = None,
    absent_chunks: str = "error",
    cache_size: float | None = None,
) -> Table:
    """Read a table with the options of a subcommand; a store is opened but not read. `cache_size` is in megabytes."""
    return load_table(
        path,
        cache_size=DEFAULT_CACHE_SIZE if cache_size is None else int(1e6 * cache_size),
        labels=labels,
        absent_chunks=absent_chunks,  # type: ignore[arg-type]
        label_column=None if label_column is None else position_or_name(label_column),
        header="auto" if header is None else header,
        n_features=n_features,
    )


def stored_entries(X: Any) -> int:
    """Return the number of stored entries of a table."""
    return int(X.n_stored if is_source(X) else X.size)


def parts_of(X: Any, m: int) -> Iterator[tuple[Any, NDArray[np.int64]]]:
    """Yield about m evenly spaced rows of a table (evenly spaced blocks of a store), with their positions."""
    n = X.shape[0]
    if is_source(X):
        starts, rows = X.rows.starts, 0
        count = len(starts) - 1
        # In this order, the first blocks are evenly spaced for any number of blocks.
        for block in sorted(range(count), key=lambda k: k * _GOLDEN % 1.0):
            if rows >= m:
                return
            yield X.rows.read(block).lines, np.arange(starts[block], starts[block + 1])
            rows += int(starts[block + 1] - starts[block])
    else:
        which = np.arange(n) if m >= n else np.linspace(0, n - 1, m).astype(np.int64)
        yield (X if m >= n else X[which]), which


def check_classes(name: str, y: NDArray[Any], labels_in: str = "") -> None:
    """Refuse labels that are not classes, and say where they were found, because often the label column is wrong."""
    where = f" ({labels_in})" if labels_in else ""
    remedy = " If the labels are in another column, say which with --label-column." if labels_in else ""
    if y.size == 0:
        return
    if y.dtype.kind == "f" and (missing := np.flatnonzero(np.isnan(y))).size:
        raise ValueError(
            f"{name}: the label of row {missing[0]} (counted from 0){where} is missing (nan). Give each row a label, "
            f"or leave out the rows without one.{remedy}"
        )
    if y.dtype.kind == "f" and (some := y[y != np.floor(y)]).size:
        raise ValueError(
            f"{name}: the labels{where} are not classes but numbers such as {some[0]:.6g}; expected whole numbers or "
            f"words.{remedy}"
        )
    if (y == y[0]).all():
        [only] = label_text(y[:1])
        raise ValueError(f"{name}: all labels{where} are {only}; expected at least two classes.{remedy}")


def check_features(path: Path, table: Table, d: int, whose: str) -> None:
    """Refuse rows with a different number of features than the model, and say which columns are features."""
    if table.X.shape[1] != d:
        labels = f" (without the labels: {table.labels_in})" if table.labels_in else ""
        raise ValueError(f"{source_name(path)} has {count(table.X.shape[1], 'feature')}{labels}, but {whose} {d}")


def check_column_names(path: Path, table: Table, expected: Sequence[str] | None) -> None:
    """Refuse columns whose names or order differ from the features that the model was trained on.

    Columns without names, as in a CSV file without a header, are identified by their positions.
    """
    if expected is None or table.names is None or list(expected) == table.names:
        return
    labels = f" (without the labels: {table.labels_in})" if table.labels_in else ""
    unknown = [name for name in table.names if name not in expected]
    if unknown:
        missing = [name for name in expected if name not in table.names]
        found = f"the columns {listed(unknown)} instead of {listed(missing)}"
        remedy = "Give the columns of the training data under the same names and in the same order"
    else:
        pairs = enumerate(zip(table.names, expected, strict=True))
        position, (name, wanted) = next(pair for pair in pairs if pair[1][0] != pair[1][1])
        found = f"the columns in another order: feature {position} is {name!r}, expected {wanted!r}"
        remedy = "Reorder the columns as in the training data"
    raise ValueError(
        f"{source_name(path)}{labels} does not have the columns that the model is trained on, but {found}. {remedy}"
    )


def listed(names: Sequence[str]) -> str:
    """List the first few names, and count the others.

    >>> listed(["age", "income"])
    "'age', 'income'"
    """
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(map(repr, names[:MOST_NAMES])) + more


def position_or_name(label_column: str) -> str | int:
    """Convert a column to the form that :func:`maxmargin.data.read_table` accepts.

    >>> position_or_name("-2"), position_or_name("kind")
    (-2, 'kind')
    """
    try:
        return int(label_column)
    except ValueError:
        return label_column


def error_rate(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """Return the share of wrong labels, which are compared as text, so that 1 and 1.0 are equal."""
    return float(np.mean(np.array(label_text(predicted)) != np.array(label_text(true))))


def as_json(value: object) -> str:
    """Format a value as one line of JSON."""
    return json.dumps(value, allow_nan=False)


def one_of(choices: Mapping[str, Sequence[str]]) -> Callable[[typer.CallbackParam, str | None], str | None]:
    """Return a callback for typer that checks that the value of an option is one of its choices."""

    def check(option: typer.CallbackParam, value: str | None) -> str | None:
        allowed = choices[str(option.name)]
        if value is not None and value not in allowed:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(allowed)}.")
        return value

    return check


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, that is, those that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def refuse(options: Mapping[str, Any], why: str) -> None:
    """Raise an error for the first of these options that was given."""
    for name in given(options):
        raise ValueError(f"--{name.replace('_', '-')} {why}")


def refuse_without_kernel(options: Mapping[str, Any], *, cached_blocks: bool) -> None:
    """Refuse kernel options without a kernel; with `cached_blocks`, `cache_size` is allowed, as that of a store."""
    refuse({**options, "cache_size": None} if cached_blocks else options, "needs --kernel")


def number_or_name(gamma: str | None) -> str | float | None:
    """Convert the gamma of a kernel to a number, unless it is a name.

    >>> number_or_name("0.5"), number_or_name("scale")
    (0.5, 'scale')
    """
    try:
        return None if gamma is None else float(gamma)
    except ValueError:
        return gamma


def stem(path: Path) -> str:
    """Return the name of a file without its extension and the extension of its compression.

    >>> stem(Path("rows.csv.gz"))
    'rows'
    """
    return Path(path.stem).stem if path.suffix in COMPRESSED else path.stem
