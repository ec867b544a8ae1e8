"""The estimators on a Dask cluster: the same parameters, the same models, the same proofs.

Samples stay on the workers. The solvers are those of one machine: they see rows through tasks on parts
(:mod:`maxmargin.engine.parts`), which run in threads there and on the workers here.
"""

try:
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError(
        "maxmargin.dask needs dask and distributed, which are not installed; install them with "
        "pip install 'maxmargin[dask]'"
    ) from error

from maxmargin.dask.estimators import LinearSVC, LinearSVCCV
from maxmargin.dask.kernel import SVC, SVCCV

__all__ = ["SVC", "SVCCV", "LinearSVC", "LinearSVCCV"]
