# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The largest of many log weights, up to a given mass, under updates of single items and of whole groups."""

# The key of an item is stored relative to the offset of its group. Both are integer multiples of 2^-40, so that sums
# are exact: rounding errors do not accumulate, equal keys stay equal, and `restore` terminates.
#
# Each group has a heap, whose root is the item nearest to the boundary: the smallest key of a top group, the largest of
# a rest group. Heaps are ordered by (rank, tie), the least at the root, where rank = key and tie = -index in a top
# group, rank = -key and tie = index in a rest group: equal keys are ordered by index.
#
# Each group also has a tree of the weights prior * exp(key - reference), for draws. The reference is the largest key of
# the group at its last re-centring. Weights that underflow count as zero until the next re-centring.
#
# Measured on random items whose keys change by 0.1 N(0, 1), with a tenth of all items on top: `_add` and `_restore`
# take 55 ns for n = 8,000 (46 of them `_add`), and about 280 ns, mostly cache misses, for n = 10^6.

import numpy as np

from libc.math cimport INFINITY, exp, fabs, llrint, log
from libc.stdint cimport int64_t

from maxmargin.core._sampling cimport Tree, WeightTree, draw_index, set_weight, sum_up, total_weight

cdef double UNITS = 2.0**40, UNIT = 1.0 / UNITS
cdef double FARTHEST = 2.0**21  # sums and differences of keys and offsets up to here fit into 63 bits
cdef double SPAN = 300.0  # a group is re-centred when it weighs less than exp(-SPAN), or an item more than exp(SPAN)
cdef double LIGHT = exp(-SPAN)

cdef enum:
    ARITY = 4  # children of a node in a heap: four entries are one cache line


cdef class TopWeights:
    r"""Items with log weights, and those with the largest of them.

    Item i has a prior mass s_i > 0, a label 0 or 1 and a key k_i. Its weight is s_i exp(k_i). In the order of falling
    keys (and of rising index where keys are equal), the items that together fit into `mass` are *top*, and of the
    next one, the *boundary* item, a fraction fits. These fractions f solve

    .. math:: \max_f \; \sum_i s_i e^{k_i} f_i \quad \text{s.t.} \quad 0 \le f_i \le 1, \; \sum_i s_i f_i \le mass.

    A change of one key takes O(log n), and so does each item that `restore` moves over the boundary. A change of a
    whole group, the items of one label that are top or those that are not, takes O(1).

    Parameters
    ----------
    priors : array-like of shape (n,)
        The prior masses s_i, between 1e-60 and 1e60.
    labels : array-like of shape (n,)
        Zeros and ones.
    mass : float
        The mass of the top, which may be 0, or more than there is.
    keys : array-like of shape (n,), optional
        The keys at the start, by default all zero, which takes O(n); others are sorted.

    Notes
    -----
    Between a change and the next `restore`, the top is as it was before the change. Keys are kept to multiples of
    2^-40, and must stay within 2 million of zero, with or without the shifts of their groups.

    Examples
    --------
    >>> top = TopWeights([1.0, 1.0, 1.0, 1.0], [0, 0, 1, 1], mass=1.5)
    >>> [top.fraction(i) for i in range(4)]
    [1.0, 0.5, 0.0, 0.0]
    >>> top.add(3, 2.0)
    >>> top.shift(top=True, label=0, delta=-1.0)
    >>> top.restore()
    >>> [top.fraction(i) for i in range(4)]
    [0.0, 0.5, 0.0, 1.0]
    >>> top.key(0), top.key(3)
    (-1.0, 2.0)
    >>> top.tally()
    >>> top.tallies()
    array([0. , 0.5, 0. , 1. ])
    """

    def __cinit__(self, priors, labels, double mass, keys=None):
        prior, label = np.asarray(priors, dtype=np.float64), np.asarray(labels)
        if prior.ndim != 1 or prior.size < 1 or not ((prior >= 1e-60) & (prior <= 1e60)).all():
            raise ValueError("priors must be one or more numbers between 1e-60 and 1e60. Leave out items of weight 0.")
        if label.shape != prior.shape or not np.isin(label, (0, 1)).all():
            raise ValueError(f"labels must be {prior.size} zeros and ones, one for each prior.")
        if not mass >= 0.0:
            raise ValueError(f"mass must be a number that is not negative, got {mass}.")
        key = np.zeros(prior.size) if keys is None else np.asarray(keys, dtype=np.float64)
        if key.shape != prior.shape or not (np.abs(key) <= FARTHEST).all():
            raise ValueError(f"keys must be {prior.size} numbers within {FARTHEST:.0f} of zero, one for each prior.")
        key = np.rint(key * UNITS).astype(np.int64)
        order = np.argsort(-key, kind="stable")
        fitting = np.searchsorted(np.cumsum(prior[order]), mass, side="right")

        self.size, self.mass, self.top_mass, self.counts = prior.size, mass, prior[order[:fitting]].sum(), 0.0
        self.owners = []
        self.items = <Item*>self.allocate(self.size * sizeof(Item))
        for group in range(GROUPS):
            self.heap[group] = <Entry*>self.allocate(np.count_nonzero(label == group % 2) * sizeof(Entry))
            self.grow_tree(group)
        # A sorted list is a heap: top items in ascending order of keys, the rest in descending order.
        label = label.astype(np.int64)
        self.enter_all(order[:fitting][::-1], label + 2, key, prior)
        self.enter_all(order[fitting:], label, key, prior)
        for group in range(GROUPS):
            self.recentre(group)

    cdef enter_all(self, const int64_t[:] order, const int64_t[:] group, const int64_t[:] key, const double[:] prior):
        cdef int64_t k, i
        for k in range(order.shape[0]):
            i = order[k]
            self.items[i].prior, self.items[i].tally = prior[i], 0.0
            self.enter(i, group[i], key[i])

    cdef grow_tree(self, int64_t group):
        cdef WeightTree weights = WeightTree(self.size)
        self.owners.append(weights)
        self.tree[group] = &weights.tree

    cdef void* allocate(self, int64_t size):
        cdef unsigned char[::1] memory = np.empty(size + 1, dtype=np.uint8)
        self.owners.append(memory)
        return &memory[0]

    def kept(self):
        """The memory of the items, and the numbers of the groups: see `maxmargin.engine.snapshot`."""
        cdef double[::1] priors = np.empty(self.size)
        cdef int64_t[::1] labels = np.empty(self.size, dtype=np.int64)
        cdef int64_t i
        for i in range(self.size):
            priors[i], labels[i] = self.items[i].prior, self.items[i].group % 2
        return {
            "priors": np.asarray(priors),
            "labels": np.asarray(labels),
            "numbers": (self.mass, self.top_mass, self.counts),
            "groups": [(self.count[group], self.offset[group], self.reference[group]) for group in range(GROUPS)],
            "memory": [np.asarray(owner) for owner in self.owners if not isinstance(owner, WeightTree)],
            "trees": [owner.kept()["weights"] for owner in self.owners if isinstance(owner, WeightTree)],
        }

    @classmethod
    def of_kept(cls, kept):
        """The same items, in the same order in memory."""
        cdef TopWeights made = cls(kept["priors"], kept["labels"], kept["numbers"][0])
        _, made.top_mass, made.counts = kept["numbers"]
        for group, numbers in enumerate(kept["groups"]):
            made.count[<int64_t>group], made.offset[<int64_t>group], made.reference[<int64_t>group] = numbers
        memory, trees = iter(kept["memory"]), iter(kept["trees"])
        for owner in made.owners:
            if isinstance(owner, WeightTree):
                owner.fill(next(trees))
            else:
                np.asarray(owner)[:] = next(memory)
        return made

    def add(self, int64_t i, double delta):
        """Add delta to the key of item i."""
        self.check_index(i)
        check_key(self._key(i) + delta)
        self._add(i, delta)

    def shift(self, bint top, int64_t label, double delta):
        """Add delta to the keys of all items of a label that are top, or of all that are not, in O(1)."""
        if label not in (0, 1):
            raise ValueError(f"label must be 0 or 1, got {label}.")
        check_key(self.offset[2 * top + label] * UNIT + delta)
        self._shift(top, label, delta)

    def restore(self, double tolerance=0.0):
        """Update the top after changes of keys, in O(log n) for each item that enters or leaves it.

        With a tolerance, two items may stay on the wrong sides of the boundary if their keys differ by at most that.
        The sum of s_i exp(k_i) f_i then is at least exp(-tolerance) times the largest possible, and far fewer items
        move if shifts change the order of many almost equal keys back and forth.
        """
        if not 0.0 <= tolerance <= FARTHEST:
            raise ValueError(f"tolerance must lie between 0 and {FARTHEST:.0f}, got {tolerance}.")
        self._restore(tolerance)

    def key(self, int64_t i):
        """Return the key of item i."""
        self.check_index(i)
        return self._key(i)

    def keys(self):
        """Return all keys as an array, in O(n)."""
        cdef double[::1] keys = np.empty(self.size)
        cdef int64_t i
        for i in range(self.size):
            keys[i] = self._key(i)
        return np.asarray(keys)

    def is_top(self, int64_t i):
        """Whether item i is top."""
        self.check_index(i)
        return self._is_top(i)

    def fraction(self, int64_t i):
        """Return the fraction of item i that fits into the mass: 1 if it is top, 0 if it is beyond the boundary."""
        self.check_index(i)
        return self._fraction(i)

    @property
    def boundary(self):
        """The first item after the top, or None if all are top."""
        i = self._boundary()
        return None if i < 0 else i

    def draw(self, double u):
        """Return item i with probability s_i exp(k_i) / sum_j s_j exp(k_j) if u is uniform on [0, 1)."""
        if not 0.0 <= u < 1.0:
            raise ValueError(f"u must lie in [0, 1), got {u}.")
        return self._draw(u)

    @property
    def log_total(self):
        """The logarithm of sum_i s_i exp(k_i)."""
        return self._log_total()

    def probability(self, int64_t label):
        """Return the probability that a draw has this label."""
        if label not in (0, 1):
            raise ValueError(f"label must be 0 or 1, got {label}.")
        return self._probability(label)

    def tally(self):
        """Add the present fraction of each item to its tally, in O(1)."""
        self._tally()

    def tallies(self):
        """Return the sums of the fractions of all items over all counts, in O(n)."""
        cdef double[::1] tallies = np.empty(self.size)
        cdef int64_t i
        for i in range(self.size):
            tallies[i] = self.items[i].tally + (self.counts if self._is_top(i) else 0.0)
        return np.asarray(tallies)

    cdef check_index(self, int64_t i):
        if not 0 <= i < self.size:
            raise IndexError(f"Index {i} is outside of 0, ..., {self.size - 1}.")

    cdef void _add(self, int64_t i, double delta) noexcept nogil:
        cdef int64_t group = self.items[i].group, step = llrint(delta * UNITS)
        cdef Entry entry = self.heap[group][self.items[i].place]
        entry.rank += step if group >= 2 else -step
        self.sift(group, self.items[i].place, entry)
        self.weigh(i)

    cdef void _shift(self, bint top, int64_t label, double delta) noexcept nogil:
        self.offset[2 * top + label] += llrint(delta * UNITS)

    cdef void _restore(self, double tolerance=0.0) noexcept nogil:
        cdef int64_t leaving, coming, most = llrint(tolerance * UNITS)
        # First exchange pairs of items on wrong sides: so no item moves twice, and few others move.
        while True:
            leaving, coming = self.root(self.next_group(True)), self.root(self.next_group(False))
            if leaving < 0 or coming < 0 or self.precedes(leaving, coming, most):
                break
            self.cross(leaving)
            self.cross(coming)
        while leaving >= 0 and self.top_mass > self.mass:
            self.cross(leaving)
            leaving = self.root(self.next_group(True))
        coming = self.root(self.next_group(False))
        while coming >= 0 and self.top_mass + self.items[coming].prior <= self.mass:
            self.cross(coming)
            coming = self.root(self.next_group(False))

    cdef double _key(self, int64_t i) noexcept nogil:
        return self.whole_key(i) * UNIT

    cdef bint _is_top(self, int64_t i) noexcept nogil:
        return self.items[i].group >= 2

    cdef double _fraction(self, int64_t i) noexcept nogil:
        if self._is_top(i):
            return 1.0
        return max(0.0, (self.mass - self.top_mass) / self.items[i].prior) if i == self._boundary() else 0.0

    cdef int64_t _boundary(self) noexcept nogil:
        return self.root(self.next_group(False))

    cdef int64_t _draw(self, double u) noexcept nogil:
        cdef double weight[GROUPS]
        cdef double rest
        cdef int64_t group, chosen = 0
        self.group_weights(weight)
        rest = u * (weight[0] + weight[1] + weight[2] + weight[3])
        for group in range(GROUPS):
            if weight[group] > 0.0:
                chosen = group
                if rest < weight[group]:
                    break
                rest -= weight[group]
        return draw_index(self.tree[chosen], rest / weight[chosen])

    cdef double _log_total(self) noexcept nogil:
        cdef double weight[GROUPS]
        cdef double log_factor = self.group_weights(weight)
        return log_factor + log(weight[0] + weight[1] + weight[2] + weight[3])

    cdef double _probability(self, int64_t label) noexcept nogil:
        cdef double weight[GROUPS]
        self.group_weights(weight)
        return (weight[label] + weight[label + 2]) / (weight[0] + weight[1] + weight[2] + weight[3])

    cdef void _tally(self) noexcept nogil:
        cdef int64_t boundary = self._boundary()
        if boundary >= 0:
            self.items[boundary].tally += self._fraction(boundary)
        self.counts += 1.0

    cdef double group_weights(self, double* weight) noexcept nogil:
        """Compute the weights of all groups up to a common factor, and return the logarithm of that factor."""
        cdef int64_t group
        cdef double log_factor, largest = -INFINITY
        for group in range(GROUPS):
            if self.count[group] > 0:
                if total_weight(self.tree[group]) < LIGHT:
                    self.recentre(group)
                largest = max(largest, (self.offset[group] + self.reference[group]) * UNIT)
        for group in range(GROUPS):
            log_factor = (self.offset[group] + self.reference[group]) * UNIT
            weight[group] = total_weight(self.tree[group]) * exp(log_factor - largest) if self.count[group] > 0 else 0.0
        return largest

    cdef void recentre(self, int64_t group) noexcept nogil:
        cdef int64_t k, i, sign = 1 if group >= 2 else -1
        cdef double distance
        cdef const Entry* heap = self.heap[group]
        if self.count[group] == 0:
            return
        self.reference[group] = sign * heap[0].rank
        for k in range(self.count[group]):
            self.reference[group] = max(self.reference[group], sign * heap[k].rank)
        for k in range(self.count[group]):
            i = -sign * heap[k].tie
            distance = (sign * heap[k].rank - self.reference[group]) * UNIT
            self.tree[group].level[0][i] = self.items[i].prior * exp(distance)
        sum_up(self.tree[group])

    cdef void weigh(self, int64_t i) noexcept nogil:
        cdef int64_t group = self.items[i].group
        cdef int64_t key = self.whole_key(i) - self.offset[group]
        cdef double distance
        if self.count[group] == 1:
            self.reference[group] = key
        distance = (key - self.reference[group]) * UNIT
        if distance > SPAN:
            self.recentre(group)
        else:
            set_weight(self.tree[group], i, self.items[i].prior * exp(distance))

    cdef int64_t next_group(self, bint top) noexcept nogil:
        """Of the two groups on one side of the boundary, the one with the item nearest to it; -1 if both are empty."""
        cdef int64_t one = 2 * top, other = one + 1
        cdef Entry first, second
        if self.count[other] == 0:
            return one if self.count[one] > 0 else -1
        if self.count[one] == 0:
            return other
        first, second = self.heap[one][0], self.heap[other][0]
        first.rank += self.offset[one] if top else -self.offset[one]
        second.rank += self.offset[other] if top else -self.offset[other]
        return one if less(first, second) else other

    cdef int64_t root(self, int64_t group) noexcept nogil:
        if group < 0:
            return -1
        return -self.heap[group][0].tie if group >= 2 else self.heap[group][0].tie

    cdef int64_t whole_key(self, int64_t i) noexcept nogil:
        cdef int64_t group = self.items[i].group
        cdef int64_t rank = self.heap[group][self.items[i].place].rank
        return (rank if group >= 2 else -rank) + self.offset[group]

    cdef bint precedes(self, int64_t i, int64_t j, int64_t lead) noexcept nogil:
        """Whether item i precedes item j if its key is raised by `lead`."""
        cdef int64_t one = self.whole_key(i) + lead, other = self.whole_key(j)
        return one > other or (one == other and i < j)

    cdef void cross(self, int64_t i) noexcept nogil:
        """Move item i over the boundary."""
        cdef int64_t group = self.items[i].group, place = self.items[i].place, key = self.whole_key(i)
        self.top_mass += -self.items[i].prior if group >= 2 else self.items[i].prior
        self.items[i].tally += self.counts if group >= 2 else -self.counts
        set_weight(self.tree[group], i, 0.0)
        self.count[group] -= 1
        if place < self.count[group]:
            self.sift(group, place, self.heap[group][self.count[group]])
        group ^= 2
        self.enter(i, group, key - self.offset[group])
        self.weigh(i)
        if self.count[2] + self.count[3] == 0:
            self.top_mass = 0.0

    cdef void enter(self, int64_t i, int64_t group, int64_t key) noexcept nogil:
        cdef Entry entry
        entry.rank, entry.tie = (key, -i) if group >= 2 else (-key, i)
        self.items[i].group = group
        self.count[group] += 1
        self.sift(group, self.count[group] - 1, entry)

    cdef void sift(self, int64_t group, int64_t place, Entry entry) noexcept nogil:
        """Insert an entry into the heap of a group: sift it up or down from an empty place."""
        cdef Entry* heap = self.heap[group]
        cdef Item* items = self.items
        cdef int64_t sign = -1 if group >= 2 else 1, count = self.count[group]
        cdef int64_t parent, child, best
        while place > 0:
            parent = (place - 1) // ARITY
            if not less(entry, heap[parent]):
                break
            heap[place] = heap[parent]
            items[sign * heap[place].tie].place = place
            place = parent
        while ARITY * place + 1 < count:
            best = ARITY * place + 1
            for child in range(best + 1, min(best + ARITY, count)):
                if less(heap[child], heap[best]):
                    best = child
            if not less(heap[best], entry):
                break
            heap[place] = heap[best]
            items[sign * heap[place].tie].place = place
            place = best
        heap[place] = entry
        items[sign * entry.tie].place = place


cdef inline bint less(Entry one, Entry other) noexcept nogil:
    return one.rank < other.rank or (one.rank == other.rank and one.tie < other.tie)


cdef check_key(double key):
    if not fabs(key) <= FARTHEST:
        raise ValueError(f"The change leads to {key}. Keys must be numbers within {FARTHEST:.0f} of zero.")
