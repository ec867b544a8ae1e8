"""Readers and writers of data: files, stores, data sets, and semidefinite programs."""

from typing import TYPE_CHECKING

from maxmargin.core.lazy import imported_on_use

if TYPE_CHECKING:
    from maxmargin.core.matrix import refuse_not_finite
    from maxmargin.data.atomic import atomic_write
    from maxmargin.data.datasets import find_dataset, load_adult
    from maxmargin.data.entries import FeatureRanges, feature_ranges
    from maxmargin.data.feature_calls import FeatureError
    from maxmargin.data.feature_log import LogError
    from maxmargin.data.files import load_table, read_table
    from maxmargin.data.libsvm import LibsvmError, read_libsvm, write_libsvm
    from maxmargin.data.matrices import as_matrix
    from maxmargin.data.on_demand import OnDemand
    from maxmargin.data.programs import read_program
    from maxmargin.data.sdpa import ProgramArrays, SdpaError, read_sdpa, write_sdpa
    from maxmargin.data.stores import open_store
    from maxmargin.data.stores.convert import convert
    from maxmargin.data.streams import FileFormatError
    from maxmargin.data.symmetric_matrices import SymmetricMatrices, as_symmetric_matrices
    from maxmargin.data.table import Table, required_labels

_HOMES = {
    "maxmargin.core.matrix": "refuse_not_finite",
    "maxmargin.data.atomic": "atomic_write",
    "maxmargin.data.datasets": "find_dataset load_adult",
    "maxmargin.data.entries": "FeatureRanges feature_ranges",
    "maxmargin.data.feature_calls": "FeatureError",
    "maxmargin.data.feature_log": "LogError",
    "maxmargin.data.files": "load_table read_table",
    "maxmargin.data.libsvm": "LibsvmError read_libsvm write_libsvm",
    "maxmargin.data.matrices": "as_matrix",
    "maxmargin.data.on_demand": "OnDemand",
    "maxmargin.data.programs": "read_program",
    "maxmargin.data.sdpa": "ProgramArrays SdpaError read_sdpa write_sdpa",
    "maxmargin.data.stores": "open_store",
    "maxmargin.data.stores.convert": "convert",
    "maxmargin.data.streams": "FileFormatError",
    "maxmargin.data.symmetric_matrices": "SymmetricMatrices as_symmetric_matrices",
    "maxmargin.data.table": "Table required_labels",
}
__getattr__, __dir__ = imported_on_use("maxmargin.data", _HOMES)

__all__ = [
    "FeatureError",
    "FeatureRanges",
    "FileFormatError",
    "LibsvmError",
    "LogError",
    "OnDemand",
    "ProgramArrays",
    "SdpaError",
    "SymmetricMatrices",
    "Table",
    "as_matrix",
    "as_symmetric_matrices",
    "atomic_write",
    "convert",
    "feature_ranges",
    "find_dataset",
    "load_adult",
    "load_table",
    "open_store",
    "read_libsvm",
    "read_program",
    "read_sdpa",
    "read_table",
    "refuse_not_finite",
    "required_labels",
    "write_libsvm",
    "write_sdpa",
]
