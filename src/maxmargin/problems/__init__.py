"""What is solved: values, dual bounds and certificates, and nothing about how."""

from maxmargin.problems.certificate import Certificate
from maxmargin.problems.convert import equivalent_C, equivalent_slack
from maxmargin.problems.slack import Evaluation, SlackSVM, Solution

__all__ = ["Certificate", "Evaluation", "SlackSVM", "Solution", "equivalent_C", "equivalent_slack"]
