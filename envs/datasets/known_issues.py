"""Rows of the data sets whose tests no program that follows the whole text can pass, with the reason.

HumanEval: found by `llm-decpomdp audit`, which compares the examples in the texts with the asserts. The words
agree with the asserts there, and only the examples do not.
CoopHumanEval: found by writing a solution by the text for every row and looking at each assert that it fails.
MBPP: every reference passes; these are the rows whose asserts were seen to contradict the text, or to want what it
does not tell, when all rows were read. Asserts count from 1. `docs/data.md` says more.
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
    "HumanEval/47": (
        "the second example gives 15.0 for the median of -10, 4, 6, 1000, 10 and 20; it is 8.0, as the assert says"
    ),
    "HumanEval/116": (
        "the examples sort by value and show negative numbers; words and asserts 1 to 3 sort by the number of ones"
    ),
    "HumanEval/148": (
        "the second example gives the text 'Venus' in parentheses; the words and assert 2 want a tuple"
    ),
    "ClassEval_17": (
        "test_get_upcoming_events_5 of CalendarTestGetUpcomingEvents expects an event of 2 January 2024 to lie "
        "in the future"
    ),
    "ClassEval_48": "test_get_hostname_3 of IpUtilTestGetHostname expects the name of its author's computer",
    "ClassEval_50": (
        "its tests change the rights of a file, which the sandbox forbids, and fail for root elsewhere too"
    ),
    "ClassEval_51": "its solution uses numpy.mat, which NumPy 2 has no more",
    "ClassEval_52": "its solution downloads data of nltk from the network",
    "CoopHumanEval/54": ("asserts 3 and 5, like the example for 6, leave out 676 = 26**2"),
    "MBPP/143": "assert 3 passes no tuple but a list of numbers, and expects 1 for it",
    "MBPP/164": (
        "assert 3 expects the sums for 23 and 47 to be the same: each number itself does not count as its divisor"
    ),
    "MBPP/295": "all three asserts leave out the number itself, which the text's 'all divisors' include",
    "MBPP/310": "assert 1 leaves out the space of 'python 3.0', a character",
    "MBPP/430": "all three asserts expect c - 4a(b**2 + 1); the directrix is y = c - (b**2 + 1)/(4a)",
    "MBPP/431": "assert 2 expects None, and not False, for lists without a common element",
    "MBPP/443": "asserts 1 and 2 expect the smallest negative number: -6 of -4 and -6, -9 of -8 and -9",
    "MBPP/461": "asserts 1 and 2 expect 1 for 'PYthon' and 'BigData', which have two upper-case letters",
    "MBPP/468": (
        "asserts 1 and 3 expect 3000 and 2460, the products of runs of neighbours; increasing subsequences reach "
        "45000 and 21780000"
    ),
    "MBPP/574": "all three asserts expect what 3.1415 instead of pi gives, to the last digit",
    "MBPP/579": "assert 3 expects the order in which CPython's set holds the elements",
    "MBPP/581": "all three asserts take the given height for that of a side, not of the pyramid",
    "MBPP/590": (
        "all three asserts expect the polar coordinates of x + yi, and beside them always -2, the rectangular "
        "ones of 2 at the angle pi"
    ),
    "MBPP/769": "assert 1 expects the order in which CPython's set holds the elements",
    "MBPP/777": "all three asserts count a repeated element once, which the text leaves out",
    "MBPP/802": "asserts 1 and 5 expect rotations that do not sort the array: 1 for [3, 2, 1], 2 for [1, 3, 2]",
}
