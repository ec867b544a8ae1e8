"""The estimators on a Dask cluster: the same parameters, the same models, the same proofs.

Samples stay on the workers. The solvers are those of one machine: they see rows through tasks on parts
(:mod:`maxmargin.engine.parts`), which run in threads there and on the workers here.
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

# Workers import modules of this package, and start sooner without the estimators and scikit-learn.
__getattr__, __dir__ = imported_on_use(
    "maxmargin.dask",
    {
        "maxmargin.dask.client": "ClusterError",
        "maxmargin.dask.estimators": "LinearSVC LinearSVCCV",
        "maxmargin.dask.kernel": "SVC SVCCV",
    },
)

__all__ = ["SVC", "SVCCV", "ClusterError", "LinearSVC", "LinearSVCCV"]
