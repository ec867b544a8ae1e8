"""Cases for options that are independent of each other: every pair of values, not every combination."""

import itertools


def every_pair(*options):
    """Few combinations of the options' values, among which each two values of two options stand together once at least.

    A fault that one value or two together bring about is found as by the full product. Its size is the product of all
    numbers of values; here it is little more than that of the two largest. Each next combination is the first of those
    that have the most missing pairs in them, so that the cases are always the same.

    >>> every_pair([1, 2], "ab", "xy")
    [(1, 'a', 'x'), (1, 'b', 'y'), (2, 'a', 'y'), (2, 'b', 'x')]
    """
    values = [list(option) for option in options]
    combinations = list(itertools.product(*(range(len(some)) for some in values)))
    missing = {pair for combination in combinations for pair in pairs_of(combination)}
    chosen = []
    while missing:
        best = max(combinations, key=lambda combination: len(missing & pairs_of(combination)))
        missing -= pairs_of(best)
        chosen.append(tuple(some[k] for some, k in zip(values, best, strict=True)))
    return chosen


def pairs_of(combination):
    return set(itertools.combinations(enumerate(combination), 2))
