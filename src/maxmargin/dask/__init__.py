"""The estimators on a Dask cluster, with the same parameters, the same models and the same certificates.

Samples stay on the workers. The solvers are the same as on one machine: they access rows through tasks on parts
(:mod:`maxmargin.engine.parts`), which run in threads on one machine, and on the workers of a cluster.
"""

from typing import TYPE_CHECKING

from maxmargin.core.lazy import imported_on_use
from maxmargin.core.optional import import_optional

for package in ("dask", "distributed"):
    import_optional(package, "maxmargin.dask")

if TYPE_CHECKING:
    from maxmargin.dask.client import ClusterError
    from maxmargin.dask.estimators import LinearSVC, LinearSVCCV
    from maxmargin.dask.kernel import SVC, SVCCV

# Workers import modules of this package, and start faster without the estimators and scikit-learn.
__getattr__, __dir__ = imported_on_use(
    "maxmargin.dask",
    {
        "maxmargin.dask.client": "ClusterError",
        "maxmargin.dask.estimators": "LinearSVC LinearSVCCV",
        "maxmargin.dask.kernel": "SVC SVCCV",
    },
)

__all__ = ["SVC", "SVCCV", "ClusterError", "LinearSVC", "LinearSVCCV"]
