"""Test cases for options that are independent of each other: every pair of values, but not every combination."""

import itertools


def every_pair(*options):
    """A few combinations of the options' values that contain each pair of values of two options at least once.

    They find every fault that depends on one value or on two values together, as the full product would. Their number
    is little more than the product of the two largest numbers of values. Each next combination is the first of those
    that contain the most missing pairs, so the cases are always the same.

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
