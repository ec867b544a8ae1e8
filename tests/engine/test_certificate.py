import math

import pytest

from maxmargin.problems import Certificate


@pytest.mark.parametrize(
    ("certificate", "sentence"),
    [
        (Certificate(0.1, 0.1008), "the margin is within 0.79 % of the best possible at this slack"),
        (Certificate(0.1, 0.1), "the margin is within 0 % of the best possible at this slack"),
        (Certificate(-0.1, 0.2), "the margin reached is not positive; the best possible at this slack is at most 0.2"),
        (Certificate(-0.3, -0.2), "no positive margin exists at this slack (at most -0.2): allow more slack"),
        (Certificate(10.0, 9.5, form="C"), "the objective is within 5 % of the best possible at this C"),
        (
            Certificate(10.0, 2.0, form="C"),
            "loose: the objective may be 5 times the best possible at this C; a longer run would tell more",
        ),
        (
            Certificate(10.0, 0.0, form="C"),
            "loose: the objective may be any number of times the best possible at this C; a longer run would tell more",
        ),
        (Certificate.missing("certify=False"), "not certified: certify=False"),
    ],
)
def test_the_sentence_that_a_person_wants(certificate, sentence):
    assert str(certificate) == sentence


def test_what_there_is_and_what_there_is_not():
    assert Certificate(0.1, 0.2)
    assert Certificate(0.1, 0.2).gap == pytest.approx(0.1)
    assert Certificate(2.0, 1.0, form="C").gap == pytest.approx(1.0)
    assert not Certificate.missing("why")
    assert math.isnan(Certificate.missing("why").gap)
