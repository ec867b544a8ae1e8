"""Pipes are read once and whole: every format, compressed or not, gives what the file gives."""

import bz2
import gzip
import io
import lzma
import os
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.data import FileFormatError, read_libsvm, read_program, read_table, write_libsvm, write_sdpa

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes there")

PACK = {"plain": bytes, "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
N = 3000  # rows: more bytes than are read ahead, and than a pipe holds


def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 3)).round(6), np.where(np.arange(N) % 3 == 0, 1.0, -1.0)


def in_format(name):
    """The bytes of the rows as a file has them."""
    X, y = rows()
    file = io.BytesIO()
    match name:
        case "libsvm":
            pairs = (" ".join(f"{j}:{x!r}" for j, x in enumerate(row, 1)) for row in X.tolist())
            return "".join(f"{label:.0f} {of}\n" for label, of in zip(y, pairs, strict=True)).encode()
        case "csv":
            np.savetxt(file, np.column_stack([X, y]), delimiter=",", fmt="%.17g")
        case "npy":
            np.save(file, np.column_stack([X, y]))
        case "npz":
            np.savez(file, X=X, y=y)
        case "sparse npz":
            own = sp.csr_array(X)
            np.savez(file, data=own.data, indices=own.indices, indptr=own.indptr, shape=X.shape, format=b"csr", y=y)
    return file.getvalue()


FORMATS = ["libsvm", "csv", "npy", "npz", "sparse npz"]


@contextmanager
def fed(write, chunk=10_000):
    """A thread that writes bytes in pieces, as a slow process would."""

    def feed(opened, data):
        with opened() as file:
            try:
                for start in range(0, len(data), chunk):
                    file.write(data[start : start + chunk])
                    file.flush()
            except BrokenPipeError:  # the reader has seen enough
                pass

    thread = threading.Thread(target=feed, args=write)
    thread.start()
    try:
        yield
    finally:
        thread.join(timeout=60)
        assert not thread.is_alive()


@contextmanager
def fifo(tmp_path, data, chunk=10_000):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with fed((lambda: open(path, "wb"), data), chunk):
        yield path


@contextmanager
def descriptor(data):
    """What `<(command)` of a shell gives."""
    read, write = os.pipe()
    with fed((lambda: os.fdopen(write, "wb"), data)), os.fdopen(read):
        yield f"/dev/fd/{read}"


@contextmanager
def standard_input(monkeypatch, data):
    read, write = os.pipe()
    with fed((lambda: os.fdopen(write, "wb"), data)), os.fdopen(read) as file:
        monkeypatch.setattr("sys.stdin", file)
        yield "-"
        assert not file.closed


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("way", ["fifo", "descriptor", "standard input"])
def test_every_format_through_every_pipe(name, pack, way, tmp_path, monkeypatch):
    data = PACK[pack](in_format(name))
    ways = {"fifo": (fifo, tmp_path), "descriptor": (descriptor,), "standard input": (standard_input, monkeypatch)}
    open_pipe, *args = ways[way]
    with open_pipe(*args, data) as path:
        X, y = read_table(path)
    wanted, labels = rows()
    assert (X.toarray() if sp.issparse(X) else X).tolist() == wanted.tolist()
    assert y.tolist() == labels.tolist()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("pack", PACK)
def test_a_file_without_a_name_that_tells(name, pack, tmp_path):
    (tmp_path / "data").write_bytes(PACK[pack](in_format(name)))
    X, y = read_table(tmp_path / "data")
    assert X.shape == (N, 3)
    assert y.tolist() == rows()[1].tolist()
    assert isinstance(X, np.memmap) == (name == "npy" and pack == "plain")


def test_bytes_tell_more_than_names(tmp_path):
    (tmp_path / "rows.csv.gz").write_bytes(in_format("csv"))  # a browser has decompressed it
    (tmp_path / "rows.libsvm").write_bytes(gzip.compress(in_format("libsvm")))
    (tmp_path / "rows.csv").write_bytes(in_format("npy"))
    for path in tmp_path.iterdir():
        assert read_table(path)[1].tolist() == rows()[1].tolist()


@pytest.mark.parametrize("chunk", [1, 7])
def test_pieces_as_small_as_can_be(chunk, tmp_path):
    with fifo(tmp_path, b"1,2,0\r\n3,4,1\r\n", chunk) as path:
        X, y = read_table(path)
    assert (X.tolist(), y.tolist()) == ([[1, 2], [3, 4]], [0, 1])


def test_lines_that_are_longer_than_what_is_read_ahead(tmp_path):
    d = 100_000
    for data in (
        ("1 " + " ".join(f"{j}:1.5" for j in range(1, d + 1)) + "\r\n").encode(),
        (",".join(["1.5"] * d) + ",1\r\n").encode(),
    ):
        with fifo(tmp_path, data, 100_000) as path:
            X, y = read_table(path)
        assert X.shape == (1, d)
        assert X.sum() == 1.5 * d
        assert y.tolist() == [1]
        path.unlink()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("pack", ["gzip", "bzip2", "xz"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_compressed_stream_that_is_cut_off(name, pack, share, tmp_path):
    data = PACK[pack](in_format(name))
    with (
        fifo(tmp_path, data[: int(share * len(data))]) as path,
        pytest.raises(FileFormatError, match=r"fifo.*(cut off|that NumPy can read)"),
    ):
        read_table(path)


@pytest.mark.parametrize("name", ["npy", "npz", "sparse npz"])
def test_arrays_that_are_cut_off(name, tmp_path):
    with fifo(tmp_path, in_format(name)[:-50_000]) as path, pytest.raises(FileFormatError, match="that NumPy can read"):
        read_table(path)


@pytest.mark.parametrize(
    "data",
    [b"", gzip.compress(b""), bz2.compress(b""), lzma.compress(b""), b"# none\n"],
    ids=["nothing", "gzip", "bzip2", "xz", "comment"],
)
def test_an_empty_stream(data, tmp_path):
    with fifo(tmp_path, data) as path, pytest.raises(FileFormatError, match="fifo: no rows"):
        read_table(path)


def test_labels_and_programs_come_through_pipes_too(tmp_path):
    X, y = rows()
    np.save(tmp_path / "rows.npy", X)
    for data in ("\n".join(map(str, y)).encode(), gzip.compress("\n".join(map(str, y)).encode())):
        with descriptor(data) as path:
            assert read_table(tmp_path / "rows.npy", labels=path)[1].tolist() == y.tolist()
    write_libsvm(tmp_path / "rows.libsvm", X, y)
    with descriptor((tmp_path / "rows.libsvm").read_bytes()) as path:
        assert read_libsvm(path)[0].shape == X.shape
    np.savez(tmp_path / "program.npz", C=np.eye(2), A=np.ones((1, 2, 2)), b=[1.0], sense="<=", trace_bound=2.0)
    write_sdpa(tmp_path / "program.dat-s", np.eye(2), np.ones((1, 2, 2)), [1.0], "=")
    for name in "program.npz", "program.dat-s":
        with descriptor((tmp_path / name).read_bytes()) as path:
            assert read_program(path).b.tolist() == [1.0]


# Formats that are not read


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (b"PAR1\x15\x04\x15\0", "a Parquet file"),
        (b"\x89HDF\r\n\x1a\n\0", "an HDF5 file"),
        (b"\x80\x03]q\x00.", "a Python pickle"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "an Excel workbook"),
        (b"\x28\xb5\x2f\xfd\0", "zstdcat"),
        ("1,2\n".encode("utf-16"), "UTF-8"),
        (b"\1\2\0\3", "not known"),
        (b"x" * 257 + b"ustar\0", "a tar archive"),
        (gzip.compress(gzip.compress(b"1 1:1\n" * 999)), "compressed twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # of bytes there may be others in another process
)
@pytest.mark.parametrize("name", ["rows", "rows.csv", "rows.libsvm"])
def test_other_formats_are_named(head, says, name, tmp_path):
    (tmp_path / name).write_bytes(head)
    with pytest.raises(FileFormatError, match=says):
        read_table(tmp_path / name)


def test_other_archives_are_named(tmp_path):
    import zipfile

    for member, says in ("xl/workbook.xml", "Excel"), ("model.json", "a model file"), ("rows.csv", "found rows.csv"):
        with zipfile.ZipFile(tmp_path / "rows.dat", "w") as archive:
            archive.writestr(member, "")
        with pytest.raises(FileFormatError, match=says):
            read_table(tmp_path / "rows.dat")


@pytest.mark.parametrize("name", ["rows.xlsx", "rows.ods"])
def test_spreadsheets_are_exported_first(name, tmp_path):
    (tmp_path / name).write_bytes(b"PK\3\4 and so on")
    with pytest.raises(FileFormatError, match="spreadsheets are not read; export the sheet as CSV"):
        read_table(tmp_path / name)


def test_text_that_only_looks_like_another_format(tmp_path):
    (tmp_path / "rows.csv").write_text("PAR1,CDF,ORC\n1,2,3\n")
    assert read_table(tmp_path / "rows.csv")[0].tolist() == [[1, 2]]
