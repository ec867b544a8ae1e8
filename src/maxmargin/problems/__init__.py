"""What is solved: values, dual bounds and certificates, and nothing about how."""

from maxmargin.problems.certificate import Certificate
from maxmargin.problems.convert import certify_C, equivalent_C, equivalent_slack
from maxmargin.problems.slack import Evaluation, SlackSVM, Solution

__all__ = ["Certificate", "Evaluation", "SlackSVM", "Solution", "certify_C", "equivalent_C", "equivalent_slack"]
