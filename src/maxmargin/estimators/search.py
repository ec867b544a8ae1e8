"""The choice of C or slack, and gamma, by cross-validation: all fits share rows, and start from the previous fit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone

from maxmargin.core import Matrix
from maxmargin.core.threads import run_parallel, thread_count
from maxmargin.core.types import Indices, Vector
from maxmargin.engine.interrupt import Interrupt, listen_for_interrupt
from maxmargin.engine.result import OUT_OF_TIME
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.callbacks import SearchProgress
from maxmargin.estimators.limits import Deadline
from maxmargin.estimators.multiclass import one_sided
from maxmargin.estimators.rounds import sample_of_each_class
from maxmargin.estimators.search_samples import SearchSamples
from maxmargin.estimators.warm_fits import WarmFits
from maxmargin.problems import KernelMatrix
from maxmargin.solvers import NoModelYet

if TYPE_CHECKING:
    from maxmargin.engine.checkpoint import Checkpoint

# Relative gap of the fits that are only compared, unless the user gives another; scores hardly change below it.
SEARCH_TOL = 1e-2
SCREENING_SAMPLES = 3000  # samples of the first comparison of all cells; up to twice as many, it is the only comparison
SAMPLES_GROWTH = 3  # each comparison has this many times the samples of the last one: kernel fits take 9 times as long
PROMISING = 2.0  # a cell is compared on more samples if it is at most this many standard errors worse than the best
# Larger values of C are dropped if the last one took more than this many times the iterations of a smaller C that is
# equally good. With coordinate ascent, iterations grow in proportion to C; the ratio of the default grid is 7.7.
MOST_ITERATIONS = 8

SCORES = ("scores", "n_samples", "iterations", "one_class", "seconds")  # the arrays of a search with one item per cell

Scorer = Callable[[Any, Any, Any], float]


@dataclass(frozen=True)
class Grid:
    """The cells of a search: values of gamma, and of C or slack.

    Attributes
    ----------
    name : {"C", "slack"}
        The meaning of `values`.
    values : array of shape (n_values,)
        The values in the order of rising C or falling slack, from the strongest regularisation to the weakest.
    gammas : array of shape (n_gammas,)
        The values of gamma in ascending order; a single NaN for models without gamma.
    """

    name: str
    values: Vector
    gammas: Vector

    @property
    def shape(self) -> tuple[int, int]:
        return self.gammas.size, self.values.size

    def parameters(self, cell: tuple[int, int]) -> dict[str, float]:
        """Return the parameters of a cell."""
        gamma, value = float(self.gammas[cell[0]]), float(self.values[cell[1]])
        return {self.name: value} if math.isnan(gamma) else {"gamma": gamma, self.name: value}

    @property
    def cells(self) -> list[tuple[int, int]]:
        return list(product(range(self.gammas.size), range(self.values.size)))


@dataclass(frozen=True)
class _Fold:
    """The fits on the training part of a fold, and its test part."""

    fits: WarmFits[MarginClassifier]
    X_test: Any
    y_test: NDArray[Any]


@dataclass(frozen=True)
class _Outcome:
    """The outcome of a fit on one fold: its score, its cost, and whether its models predict only one class."""

    score: float
    seconds: float
    iterations: int
    one_class: bool


@dataclass
class _Place:
    """The position of a search in the order in which it scores cells.

    Attributes
    ----------
    size : int
        The number of samples of the current comparison.
    cells : list
        The cells in the current comparison.
    gamma : int
        The position of the current gamma.
    scored : int
        The number of scored groups of values of this gamma; a group is one value, or all values in a chain.
    outcomes : list
        In an unfinished chain, the outcomes of the folds that have gone through all values.
    """

    size: int
    cells: list[tuple[int, int]]
    gamma: int = -1
    scored: int = 0
    outcomes: list[dict[int, _Outcome]] = field(default_factory=list)


def comparison_sizes(n: int) -> list[int]:
    """Return the numbers of samples of the successive comparisons of cells, for n samples.

    Examples
    --------
    >>> from maxmargin.estimators.search import comparison_sizes
    >>> comparison_sizes(6000), comparison_sizes(16_000), comparison_sizes(100_000)
    ([6000], [3000, 16000], [3000, 9000, 27000, 100000])
    """
    sizes, size = [], SCREENING_SAMPLES
    while 2 * size < n:
        sizes.append(size)
        size *= SAMPLES_GROWTH
    return [*sizes, n]


class Search:
    """Scores the cells of a grid by cross-validation.

    If there are many samples, all cells are first compared on a part of them. Cells that are clearly worse than the
    best one are dropped, and the others are compared on more samples, finally on all. For each gamma, folds and values
    share kernel rows, and the fit of each value starts from the solution of the previous one. Values are scored in the
    order of rising C, one after another on all folds. Larger values are dropped once the iterations have grown many
    times without a better score. After the first comparison, and only if folds share kernel rows, each fold goes
    through all values before the next fold begins.

    Parameters
    ----------
    estimator : LinearSVC or SVC
        An estimator with the parameters that are not searched.
    grid : Grid
        The cells.
    splits : sequence of (train, test)
        The folds, as positions of samples.
    scorer : callable
        The score of a fitted estimator on samples and labels; larger is better.
    deadline : Deadline
        The time at which the search must end.
    verbose : int
        1 prints a line for each cell.
    progress : SearchProgress or None
        Updated with the progress of the search.
    checkpoint : Checkpoint or None
        Where to save the scores and the starting points of the next fits, and from which to continue.

    Attributes
    ----------
    scores : array of shape (n_gammas, n_values, n_folds)
        The score of each cell on each fold; NaN if there was no fit.
    n_samples : array of shape (n_gammas, n_values)
        The number of samples on which each cell was compared.
    iterations : array of shape (n_gammas, n_values)
        The iterations of the fits of each cell in its last comparison.
    seconds : array of shape (n_gammas, n_values)
        The time of all fits of each cell.
    stopped : str
        What ended the search early: "interrupted" or "max_time"; empty if the search is complete.
    """

    def __init__(
        self,
        estimator: MarginClassifier,
        grid: Grid,
        splits: Sequence[tuple[Indices, Indices]],
        scorer: Scorer,
        deadline: Deadline,
        verbose: int = 0,
        progress: SearchProgress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.checkpoint, self.place, self.found = checkpoint, _Place(0, []), False
        self.progress, self.lock, self.interrupt = progress or SearchProgress(), Lock(), Interrupt()
        self.estimator, self.grid, self.splits, self.scorer = clone(estimator), grid, splits, scorer
        if estimator.tol is None:
            self.estimator.set_params(tol=SEARCH_TOL)
        self.deadline, self.verbose, self.stopped = deadline, verbose, ""
        self.scores = np.full((*grid.shape, len(splits)), np.nan)
        self.n_samples = np.zeros(grid.shape, dtype=np.int64)
        self.iterations = np.zeros(grid.shape)
        self.one_class = np.zeros(grid.shape, dtype=bool)  # whether all models of a cell predict only one class
        self.seconds = np.zeros(grid.shape)

    def run(self, X: Any, y: NDArray[Any], sample_weight: Vector | None) -> None:
        """Score all cells."""
        label = np.unique(y, return_inverse=True)[1]
        self._refuse_missing_classes(y, label)
        n, samples = label.size, SearchSamples(X)
        with listen_for_interrupt() as self.interrupt:
            cells, sizes = self.grid.cells, comparison_sizes(n) if len(self.grid.cells) > 1 else [n]
            parts = {size: sample_of_each_class(label, np.ones(n, dtype=bool), size) for size in sizes[:-1]}
            sizes = [size for size in sizes if size == n or samples.has_room_for(parts[size].size)]
            self._find_place()
            for size in sizes:
                if self.found:
                    if size < self.place.size:
                        continue
                    cells = self.place.cells
                else:
                    self.place = _Place(size, cells)
                # A fit takes time in proportion to its samples; the number of cells in later comparisons is not known.
                self.share_of_stage = (1 - self.progress.share) * size / sum(each for each in sizes if each >= size)
                if size < n:
                    self._score_part(cells, samples, y, sample_weight, parts[size], first=size == sizes[0])
                else:
                    self._score(cells, samples, y, sample_weight, self.splits, first=size == sizes[0])
                if self.stopped:
                    break
                cells = self.promising()
            self.interrupt.answer()

    def _find_place(self) -> None:
        """Restore the saved position and scores of the search; `_score` then restores its fits."""
        kept = None if self.checkpoint is None else self.checkpoint.around(self._kept)
        if kept is not None:
            self.place, self.progress.share, self.found = kept["place"], kept["share"], True
            for name in SCORES:
                setattr(self, name, kept[name])

    def _kept(self) -> dict[str, Any]:
        scores = {name: getattr(self, name) for name in SCORES}
        return {**scores, "place": self.place, "share": self.progress.share}

    def _save(self, folds: Sequence[_Fold]) -> None:
        """Save all scores and the starting points of the next fits of these folds, if it is time."""
        if self.checkpoint is not None and self.checkpoint.due and not self.stopped:
            fits, given = [fold.fits.kept() for fold in folds], folds[0].fits.fit_.rows.given_data()
            self.checkpoint.save({"fits": fits}, given, {}, {Matrix: "rows", KernelMatrix: "rows"})

    def _take_fits(self, folds: Sequence[_Fold]) -> None:
        """Let the next fits start where those of the saved search would have started."""
        assert self.checkpoint is not None
        saved = self.checkpoint.run(folds[0].fits.fit_.rows.given_data(), {})
        assert saved is not None
        for fold, kept in zip(folds, saved["fits"], strict=True):
            fold.fits.take(kept)
        self.found = False

    def _refuse_missing_classes(self, y: NDArray[Any], label: Indices) -> None:
        for k, (train, _) in enumerate(self.splits):
            missing = np.setdiff1d(label, label[train])
            if missing.size:
                name = np.unique(y)[missing[0]]
                raise ValueError(
                    f"fold {k} of the cross-validation leaves no training sample of class {name!r}; give fewer folds, "
                    "or a cv that keeps some samples of each class in each training part, such as StratifiedKFold"
                )

    @property
    def means(self) -> Vector:
        """The mean score of each cell over the folds that were scored; -inf if there are none."""
        known = ~np.isnan(self.scores)
        total = np.where(known, self.scores, 0.0).sum(axis=2)
        count = known.sum(axis=2)
        return np.asarray(np.where(count > 0, total / np.maximum(count, 1), -np.inf))

    def best(self) -> tuple[int, int]:
        """Return the cell with the best mean; of equals, the one with the smallest gamma and strongest regularisation.

        Cells that were compared on more samples, and on more folds, come first.
        """
        means, folds = self.means, (~np.isnan(self.scores)).sum(axis=2)
        return max(self.grid.cells, key=lambda cell: (self.n_samples[cell], folds[cell], means[cell]))

    def standard_error(self, cell: tuple[int, int]) -> float:
        """Return the standard error of the mean score of a cell."""
        scores = self.scores[cell][~np.isnan(self.scores[cell])]
        return float(scores.std(ddof=1) / math.sqrt(scores.size)) if scores.size > 1 else 0.0

    def within_one_standard_error(self) -> tuple[int, int]:
        """Return the cell with the strongest regularisation, then the smallest gamma, that is as good as the best cell.

        A cell is as good as the best one if it was compared on as many samples, and its mean is at most one standard
        error of the best cell worse.
        """
        best = self.best()
        least = self.means[best] - self.standard_error(best)
        alike = [
            cell
            for cell in self.grid.cells
            if self.means[cell] >= least and self.n_samples[cell] == self.n_samples[best]
        ]
        return min(alike, key=lambda cell: (cell[1], cell[0]))

    def promising(self) -> list[tuple[int, int]]:
        """Return the cells that may be the best: not clearly worse than the best so far, fold by fold, or next to it.

        They took part in the last comparison, and do not take many times the iterations of an equally good cell.
        """
        best = self.best()
        found = []
        for cell in self.grid.cells:
            if self.n_samples[cell] < self.n_samples[best] or self._takes_too_long(cell):
                continue
            worse = self.scores[best] - self.scores[cell]
            worse = worse[~np.isnan(worse)]
            error = worse.std(ddof=1) / math.sqrt(worse.size) if worse.size > 1 else math.inf
            near = max(abs(cell[0] - best[0]), abs(cell[1] - best[1])) <= 1
            if near or (worse.size and worse.mean() <= PROMISING * error):
                found.append(cell)
        return found

    def _takes_too_long(self, cell: tuple[int, int]) -> bool:
        """Whether a smaller C or a larger slack is equally good and takes far fewer iterations.

        Models that predict only one class do not count as good, because their score may be the same for many values.
        """
        means, n_samples = self.means[cell[0]], self.n_samples[cell[0]]
        smaller = np.flatnonzero((n_samples == n_samples[cell[1]]) & ~self.one_class[cell[0]])
        smaller = smaller[smaller < cell[1]]
        as_good = smaller[means[smaller] >= means[cell[1]]]
        iterations = self.iterations[cell[0]]
        return bool((iterations[cell[1]] > MOST_ITERATIONS * iterations[as_good]).any())

    def _score_part(
        self,
        cells: Sequence[tuple[int, int]],
        samples: SearchSamples,
        y: NDArray[Any],
        weight: Vector | None,
        part: Indices,
        *,
        first: bool,
    ) -> None:
        """Score these cells on a part of the samples."""
        weight = None if weight is None else weight[part]
        splits = [(_positions(part, train), _positions(part, test)) for train, test in self.splits]
        with samples.part(part) as some:
            self._score(cells, some, y[part], weight, splits, first=first)

    def _score(
        self,
        cells: Sequence[tuple[int, int]],
        samples: SearchSamples,
        y: NDArray[Any],
        weight: Vector | None,
        splits: Sequence[tuple[Indices, Indices]],
        *,
        first: bool,
    ) -> None:
        """Score these cells on samples with their folds; `first` says that no cell was scored before."""
        now = self.progress
        now.cells, now.scored, now.n_samples = len(cells), 0, len(y)
        share_of_gamma = self.share_of_stage / len({cell[0] for cell in cells})
        for g in sorted({cell[0] for cell in cells}):
            if self.found and g < self.place.gamma:
                continue
            values = sorted(cell[1] for cell in cells if cell[0] == g)
            done = now.share + share_of_gamma
            self.share_of_fit = share_of_gamma / (len(values) * len(splits))
            estimator = clone(self.estimator._for_samples(samples.X)).set_params(**self.grid.parameters((g, values[0])))
            fits = WarmFits(estimator, samples.X, y, weight)
            folds = [_Fold(fits.among(train), samples.held_out(test), y[test]) for train, test in splits]
            chain = fits.fit_.rows.shares_cache and not first
            groups = [values] if chain else [[value] for value in values]
            if self.found:
                self._take_fits(folds)
            else:
                self.place.gamma, self.place.scored = g, 0
            last = groups[self.place.scored - 1][-1] if self.place.scored else None
            for some in groups[self.place.scored :]:
                if last is not None and self._takes_too_long((g, last)):
                    break
                self._keep(g, some, (self._in_a_chain if chain else self._side_by_side)(g, some, folds))
                if self.stopped:
                    return
                last, self.place.scored, self.place.outcomes = some[-1], self.place.scored + 1, []
                self._save(folds)
            now.share = done

    def _side_by_side(self, g: int, values: Sequence[int], folds: Sequence[_Fold]) -> list[dict[int, _Outcome]]:
        """Return the outcomes of some values of one gamma on each fold, in threads if folds do not share a cache."""
        shared = any(fold.fits.fit_.rows.shares_cache for fold in folds)
        most = min(fold.fits.fit_.rows.most_threads for fold in folds)
        threads = 1 if shared else min(thread_count(self.estimator.n_jobs), most)
        inner = {"n_jobs": 1} if threads > 1 else {}
        return run_parallel([partial(self._score_fold, fold, g, values, inner) for fold in folds], threads)

    def _in_a_chain(self, g: int, values: Sequence[int], folds: Sequence[_Fold]) -> list[dict[int, _Outcome]]:
        """Return the same outcomes, one fold after another; each fold starts where the previous one ended.

        Two folds share most of their training samples, and so most of their support vectors. The values are used
        alternately in rising and falling order, and memory is needed for the state of only one fold.
        """
        outcomes = self.place.outcomes
        for k in range(len(outcomes), len(folds)):
            if k > 0:
                folds[k].fits.go_on_from(folds[k - 1].fits)
            outcomes.append(self._score_fold(folds[k], g, values[::-1] if k % 2 else values, {}))
            self._save(folds)
        return outcomes

    def _keep(self, g: int, values: Sequence[int], by_fold: Sequence[Mapping[int, _Outcome]]) -> None:
        """Store the outcomes of some values of one gamma."""
        now = self.progress
        for value in values:
            cell = g, value
            outcomes = [fold.get(value) for fold in by_fold]
            made = [outcome for outcome in outcomes if outcome is not None]
            # A cell whose comparison was cut off keeps the scores of an earlier comparison.
            if not made or (len(made) < len(by_fold) and self.n_samples[cell]):
                continue
            self.scores[cell] = [math.nan if outcome is None else outcome.score for outcome in outcomes]
            self.n_samples[cell] = now.n_samples
            self.iterations[cell] = sum(outcome.iterations for outcome in made)
            self.one_class[cell] = all(outcome.one_class for outcome in made)
            self.seconds[cell] += sum(outcome.seconds for outcome in made)
            now.scored, now.best = now.scored + 1, self._line(self.best())
            if self.verbose:
                print(self._line(cell), flush=True)

    def _score_fold(self, fold: _Fold, g: int, values: Sequence[int], inner: Mapping[str, Any]) -> dict[int, _Outcome]:
        """Score some values of one gamma on one fold; each fit starts from the solution of the previous one."""
        outcomes: dict[int, _Outcome] = {}
        for value in values:
            if self.interrupt.ever_asked or self.deadline.passed:
                self.stopped = self.stopped or ("interrupted" if self.interrupt.ever_asked else "max_time")
            if self.stopped:
                return outcomes
            parameters = self.grid.parameters((g, value))
            before = time.perf_counter()
            try:
                fitted = fold.fits.fit(self.deadline, **parameters, **inner)
            except NoModelYet:
                self.stopped = "interrupted"
                return outcomes
            seconds, models = time.perf_counter() - before, fitted.models
            ended = {*models.stopped}.intersection(OUT_OF_TIME)
            if ended:
                self.stopped = ended.pop()
                return outcomes
            score = self._scored(fitted.model(), fold.X_test, fold.y_test, parameters)
            one_class = bool(one_sided(models.decision_ranges).all())
            outcomes[value] = _Outcome(score, seconds, int(models.n_iter.sum()), one_class)
            with self.lock:
                self.progress.share += self.share_of_fit
        return outcomes

    def _scored(self, model: Any, X: Any, y: NDArray[Any], parameters: Mapping[str, float]) -> float:
        try:
            score = self.scorer(model, X, y)
        except Exception as error:
            raise ValueError(f"scoring failed on the model with {in_words(parameters)}: {error}") from error
        if not isinstance(score, (int, float, np.number)) or not math.isfinite(score):
            raise ValueError(f"scoring must give a finite number; it gave {score!r} for {in_words(parameters)}")
        return float(score)

    def _line(self, cell: tuple[int, int]) -> str:
        mean, error = self.means[cell], self.standard_error(cell)
        return f"{in_words(self.grid.parameters(cell))}: {mean:.4f} +- {error:.4f} on {self.n_samples[cell]:,} samples"

    def results(self) -> dict[str, Any]:
        """Return all cells in the layout of `cv_results_` of scikit-learn's GridSearchCV, with three more columns.

        `standard_error` is the standard error of the mean score, `n_samples` the number of samples on which a cell was
        compared, and `left_early` says whether other cells were compared on more samples.
        """
        cells = self.grid.cells
        parameters = [self.grid.parameters(cell) for cell in cells]
        scores = np.array([self.scores[cell] for cell in cells])
        n_samples = np.array([self.n_samples[cell] for cell in cells])
        means = np.array([self.means[cell] for cell in cells])
        # Cells that were compared on fewer samples rank after all others.
        order = means - np.where(n_samples < n_samples.max(), 1e6, 0.0)
        table: dict[str, Any] = {
            f"param_{name}": np.array([chosen[name] for chosen in parameters]) for name in parameters[0]
        }
        table["params"] = parameters
        for k in range(scores.shape[1]):
            table[f"split{k}_test_score"] = scores[:, k]
        table["mean_test_score"] = np.where(np.isfinite(means), means, np.nan)
        known = [row[~np.isnan(row)] for row in scores]
        table["std_test_score"] = np.array([row.std() if row.size else np.nan for row in known])
        table["rank_test_score"] = rankdata(-order, method="min").astype(np.int32)
        table["mean_fit_time"] = np.array([self.seconds[cell] for cell in cells]) / scores.shape[1]
        table["standard_error"] = np.array([self.standard_error(cell) for cell in cells])
        table["n_samples"], table["left_early"] = n_samples, n_samples < n_samples.max()
        return table


def _positions(part: Indices, samples: Indices) -> Indices:
    """Return the positions in a part, which is in ascending order, of those `samples` that are in it."""
    return np.flatnonzero(np.isin(part, samples))


def in_words(parameters: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:.4g}" for name, value in parameters.items())
