"""Rows of the data sets whose tests no program that follows the text can pass, with the reason.

Found by writing a solution by the text for every row and looking at each assert that it fails; asserts count
from 1. `docs/data.md` says more.
"""

KNOWN_ISSUES: dict[str, str] = {
    "CoopHumanEval/2": (
        "asserts 1 and 3 expect True for '15-01-2023' and '29-02-2024', but the text wants mm-dd-yyyy with "
        "months 1 to 12"
    ),
    "CoopHumanEval/12": (
        "asserts 2 and 4 expect False for 45 = 3*3*5 and 12 = 2*2*3, which are products of three primes"
    ),
    "CoopHumanEval/30": (
        "all five asserts, and the examples, leave out 11, which is odd and has the even digit sum 2"
    ),
    "CoopHumanEval/44": (
        "assert 2, like the example, leaves out ('test', 'tset'), a word and its exact reversal"
    ),
    "CoopHumanEval/45": (
        "assert 1, like the example, keeps 'hi', whose character codes sum to 209 = 11*19, not a prime"
    ),
    "CoopHumanEval/50": (
        "assert 5 expects True for ten angles of 140 degrees, which sum to 1400, not to 1440"
    ),
    "CoopHumanEval/54": ("asserts 3 and 5, like the example for 6, leave out 676 = 26**2"),
}
