"""Binary formats that are not supported, recognised by their first bytes, and what to do with such a file."""

from __future__ import annotations

_AS_ARRAYS = "load it and save the rows X and the labels y with numpy.savez"
_AS_FILE = "give the file itself, whole and not compressed: it cannot be read from a pipe"
_AS_CSV = "export it as CSV"
# What the error about a spreadsheet says after the name of its format.
EXPORT_SHEET = "spreadsheets are not read; export the sheet as CSV"
_DECOMPRESS = "decompress it on the way: {} FILE | maxmargin ... -"

_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "a Parquet file", _AS_FILE),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", _AS_FILE),
    (b"ARROW1", "an Arrow (Feather) file", _AS_FILE),
    (b"FEA1", "a Feather file of version 1", _AS_ARRAYS),
    (b"ORC", "an ORC file", _AS_ARRAYS),
    (b"Obj\x01", "an Avro file", _AS_ARRAYS),
    (b"MATLAB", "a MATLAB file", _AS_ARRAYS),
    (b"CDF", "a NetCDF file", _AS_ARRAYS),
    (b"\x80", "a Python pickle", f"pickles can run code when they are opened; {_AS_ARRAYS}"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook", "export the sheet as CSV"),
    (b"SQLite format 3", "an SQLite database", _AS_CSV),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", _DECOMPRESS.format("zstdcat")),
    (b"\x04\x22\x4d\x18", "compressed with lz4", _DECOMPRESS.format("lz4cat")),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (b"Rar!", "a RAR archive", "unpack it first"),
    (b"\x1f\x8b", "compressed twice", "decompress it once"),
    (b"%PDF", "a PDF document", _AS_CSV),
    (b"\xff\xfe", "text in UTF-16", "save it in UTF-8"),
    (b"\xfe\xff", "text in UTF-16", "save it in UTF-8"),
)

# Spreadsheets that are zip archives, by the suffix of their names.
SPREADSHEETS = {
    ".xlsx": "an Excel workbook",
    ".xlsm": "an Excel workbook",
    ".xlsb": "an Excel workbook",
    ".ods": "an OpenDocument spreadsheet",
}


def foreign_format(head: bytes) -> str:
    """Describe a file in an unsupported format, with what to do about it; empty for text.

    >>> foreign_format(b"PAR1,PAR2,kind\\n1,2,yes\\n")  # a CSV file
    ''
    >>> foreign_format(b"ustar of something\\0")
    'binary data in a format that is not known; expected LIBSVM, CSV, .npy or .npz'
    """
    # Text contains no NUL byte. A pickle may contain none either, but no UTF-8 text starts with the byte of a pickle.
    if b"\0" not in head and not head.startswith(b"\x80"):
        return ""
    if head[257:262] == b"ustar":
        return "a tar archive; unpack it first"
    for signature, name, remedy in _SIGNATURES:
        if head.startswith(signature):
            return f"{name}, which is not read here; {remedy}"
    return "binary data in a format that is not known; expected LIBSVM, CSV, .npy or .npz"
