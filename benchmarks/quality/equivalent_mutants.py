"""Mutants of our problems' references that behave as these do: looked at one by one, with the reasons."""

from __future__ import annotations

SYMMETRIC = "the order of these arguments makes no difference"
EQUAL = "where the two are equal, either may be taken"
ZEROS = "zeros behind the last coefficient are not written"
NOT_ZERO = "terms with the coefficient 0 are left out before"
OVERLAP = "spans that only overlap leave the same gaps, merged or not"
TOUCH = "spans that touch leave no gap between them"
MOMENT = "a span without length at the edge of the day changes nothing"
NO_LEVEL = "a level that does not exist is empty and never the widest"
EQUALLY_LONG = "all rows are equally long"
MIRRORED = "neighbours lie on both sides"
STILL = "a grid that does not change stays as it is"
NO_ZERO = "a denominator is never 0"
COUNTED = "the elements are only counted"
COMPARED = "the counts are only compared with each other"
SPACE = "int() does without spaces before digits"
SAID = "what an error says is not asked for"
NONE = "a function without return gives None"
SAME_CHARACTERS = "the same characters"
PARITY = "only whether the sum is even counts"

EQUIVALENT: dict[str, dict[str, str]] = {
    "Program/1": {
        "wrong_constant@4:35": SAME_CHARACTERS,
        "wrong_constant@5:45": "'00' is 0 too",
        "wrong_default@30:41": "0.000 is 0 too",
    },
    "Program/2": {
        "wrong_constant@3:53": "there is a row whenever it is asked",
        "swapped_arguments@7:34": SYMMETRIC,
        "wrong_constant@13:24": SAME_CHARACTERS,
        "operator@23:39": "cells beyond the widths are left out",
    },
    "Program/3": {"off_by_one@15:65": "31 days more for both dates"},
    "Program/5": {"wrong_constant@4:29": "spaces are left out"},
    "Program/7": {"operator@30:40": "prices are whole tens, so nothing is left over"},
    "Program/8": {"wrong_constant@3:18": "a letter is in one alphabet only"},
    "Program/9": {
        "operator@3:46": ZEROS,
        "off_by_one@3:48": ZEROS,
        "swapped_arguments@14:27": SYMMETRIC,
        "comparison@21:29": NOT_ZERO,
        "off_by_one@21:31": NOT_ZERO,
        "comparison@22:27": NOT_ZERO,
        "off_by_one@22:29": NOT_ZERO,
        "wrong_variable@28:35": "a name is empty for the power 0 only",
    },
    "Program/10": {
        "wrong_variable@16:23": OVERLAP,
        "comparison@16:29": TOUCH,
        "swapped_arguments@17:46": SYMMETRIC,
        "swapped_arguments@25:18": SYMMETRIC,
        "swapped_arguments@25:33": SYMMETRIC,
        "comparison@25:65": MOMENT,
        "comparison@25:77~2": MOMENT,
        "wrong_default@40:44": "09:000 is 09:00 too",
        "wrong_default@40:64": "17:000 is 17:00 too",
    },
    "Program/11": {
        "wrong_constant@3:50": "any white space separates words",
        "wrong_constant@4:25": SAME_CHARACTERS,
        "wrong_default@29:55": "every counted word occurs",
    },
    "Program/13": {
        "swapped_arguments@23:20": SYMMETRIC,
        "off_by_one@47:55": NO_LEVEL,
        "off_by_one@47:58": NO_LEVEL,
        "off_by_one@47:72~2": NO_LEVEL,
    },
    "Program/14": {
        "off_by_one@3:62~2": EQUALLY_LONG,
        "operator@10:35": MIRRORED,
        "operator@10:47": MIRRORED,
        "off_by_one@26:42~2": EQUALLY_LONG,
        "dropped_statement@35:1": STILL,
        "wrong_variable@35:12": STILL,
        "dropped_statement@36:13": STILL,
    },
    "Program/15": {"comparison@20:22~2": "the two are different there"},
    "Program/16": {
        "off_by_one@7:32~2": "all votes count the same",
        "missing_return@18:5": NONE,
    },
    "Program/17": {
        "swapped_arguments@10:18": SYMMETRIC,
        "comparison@11:15": NO_ZERO,
        "off_by_one@11:17": NO_ZERO,
        "swapped_arguments@47:21": SYMMETRIC,
    },
    "Program/18": {
        "wrong_constant@21:27": SAME_CHARACTERS,
        "comparison@27:37": EQUAL,
        "swapped_arguments@34:27": SYMMETRIC,
        "swapped_arguments@35:27": SYMMETRIC,
    },
    "Program/19": {"wrong_variable@7:12": "a character that becomes two in lower case is no digit"},
    "Bundled/18": {"swapped_arguments@7:16": SYMMETRIC},
    "Bundled/22": {"wrong_variable@2:17": COUNTED},
    "Bundled/29": {"wrong_variable@7:17": COUNTED},
    "Bundled/33": {
        "wrong_constant@8:45": COMPARED,
        "off_by_one@8:50~2": COMPARED,
    },
    "Bundled/34": {
        "swapped_arguments@2:38": SYMMETRIC,
        "swapped_arguments@6:17": SYMMETRIC,
    },
    "Bundled/35": {"wrong_variable@18:31": "first and last are equal there"},
    "Bundled/41": {"off_by_one@2:34": "adds 0"},
    "Bundled/46": {"off_by_one@11:23~2": "the number of tokens is odd"},
    "Bundled/50": {
        "comparison@6:34~2": EQUAL,
        "comparison@7:32": EQUAL,
        "swapped_arguments@12:22": SYMMETRIC,
        "comparison@13:12": "their difference is 0",
    },
    "Bundled/53": {"comparison@8:15": "0 gives 0 either way"},
    "Bundled/54": {
        "wrong_constant@4:14": SPACE,
        "wrong_constant@10:22": SPACE,
    },
    "Bundled/55": {"swapped_arguments@7:18": SYMMETRIC},
    "Bundled/56": {"wrong_constant@8:43": COMPARED},
    "Bundled/58": {"swapped_arguments@10:16": SYMMETRIC},
    "Bundled/59": {
        "wrong_variable@8:23": OVERLAP,
        "comparison@8:29": TOUCH,
        "swapped_arguments@9:46": SYMMETRIC,
    },
    "Bundled/63": {
        "swapped_arguments@7:18": SYMMETRIC,
        "swapped_arguments@8:17": SYMMETRIC,
    },
    "Bundled/64": {
        "operator@8:18": MIRRORED,
        "operator@8:26": MIRRORED,
        "off_by_one@9:53~2": EQUALLY_LONG,
        "off_by_one@18:33~2": EQUALLY_LONG,
    },
    "Bundled/65": {
        "comparison@3:18": "two days late leave 0 days to pay",
        "off_by_one@3:21": "two days late leave 0 days to pay",
        "comparison@10:12~2": "500 stays 500",
        "off_by_one@10:14": "500 stays 500",
    },
    "Bundled/67": {"comparison@13:19~2": EQUAL},
    "Bundled/69": {"operator@3:36": "of two numbers in a row one is even"},
    "Bundled/71": {"wrong_constant@3:60": "no month comes after December"},
    "Bundled/73": {"wrong_constant@8:26": "nobody looks at that name"},
    "Bundled/76": {
        "swapped_arguments@8:16": SYMMETRIC,
        "swapped_arguments@18:40": SYMMETRIC,
    },
    "Bundled/80": {"swapped_arguments@8:21": SYMMETRIC},
    "Bundled/81": {
        "swapped_arguments@7:16": SYMMETRIC,
        "swapped_arguments@14:22": SYMMETRIC,
    },
    "OurClasses/1": {
        "wrong_variable@23:30": SAID,
        "dropped_statement@44:1": "without amounts there are no shares",
        "missing_return@45:13": "without amounts there are no shares",
        "wrong_constant@47:41": "'00' is 0 too",
    },
    "OurClasses/2": {
        "swapped_arguments@19:28": SYMMETRIC,
        "swapped_arguments@19:32": SYMMETRIC,
        "swapped_arguments@24:35": SYMMETRIC,
        "swapped_arguments@24:39": SYMMETRIC,
    },
    "OurClasses/3": {
        "wrong_variable@21:30": SAID,
        "off_by_one@22:16": "numbers that begin with 0 are refused before",
        "wrong_variable@23:30": SAID,
    },
    "OurClasses/4": {"comparison@32:29": "with one space in each gap the line stays as it is"},
    "OurClasses/5": {
        "wrong_default@4:39": "the derived class always gives it",
        "wrong_constant@11:30": SAID,
        "wrong_constant@33:30": SAID,
        "missing_return@54:9": NONE,
    },
    "OurClasses/6": {
        "wrong_constant@24:49": SAME_CHARACTERS,
        "wrong_constant@37:29": SAME_CHARACTERS,
        "wrong_constant@44:42": SAID,
        "wrong_constant@49:30": SAID,
    },
    "OurClasses/7": {
        "comparison@20:16~2": "at the same time nothing comes",
        "swapped_arguments@22:31": SYMMETRIC,
    },
    "OurClasses/8": {
        "operator@25:24": MIRRORED,
        "operator@25:36": MIRRORED,
        "operator@29:20": MIRRORED,
        "operator@29:27": MIRRORED,
        "missing_return@61:9": NONE,
    },
    "OurClasses/9": {
        "wrong_variable@19:30": SAID,
        "wrong_variable@36:34": SAID,
    },
    "OurClasses/10": {
        "wrong_constant@21:30": SAID,
        "off_by_one@48:38": "no word is empty",
        "off_by_one@48:41": "a slice beyond the end is the whole text",
        "off_by_one@48:53~2": "a slice beyond the end is the whole text",
    },
    "OurClasses/11": {
        "swapped_arguments@23:34": SYMMETRIC,
        "swapped_arguments@23:51": SYMMETRIC,
    },
    "OurClasses/12": {
        "swapped_arguments@27:22": SYMMETRIC,
        "operator@28:40": ZEROS,
        "operator@28:73": ZEROS,
        "swapped_arguments@29:49": SYMMETRIC,
        "comparison@46:36": NOT_ZERO,
        "off_by_one@46:38": NOT_ZERO,
        "comparison@46:75": NOT_ZERO,
        "off_by_one@46:77": NOT_ZERO,
    },
    "OurClasses/13": {
        "wrong_variable@13:30": SAID,
        "comparison@26:26": "no place after the last can be taken out, with the same error",
        "wrong_variable@27:31": SAID,
        "wrong_variable@27:36": SAID,
    },
    "OurClasses/14": {
        "wrong_variable@21:32": SAID,
        "wrong_variable@23:30": SAID,
        "swapped_arguments@47:25": SYMMETRIC,
    },
    "MBPP-like/1": {
        "operator@2:29": PARITY,
        "wrong_constant@2:35": PARITY,
        "operator@3:26": PARITY,
        "operator@4:30": PARITY,
    },
    "MBPP-like/4": {"swapped_arguments@4:30": "backwards there are as many turns"},
    "MBPP-like/6": {"operator@4:44": "%02d rounds down"},
    "MBPP-like/9": {"swapped_arguments@2:47": SYMMETRIC},
    "MBPP-like/17": {
        "swapped_arguments@2:17": SYMMETRIC,
        "swapped_arguments@3:15": SYMMETRIC,
        "swapped_arguments@4:16": SYMMETRIC,
    },
    "MBPP-like/18": {"wrong_constant@5:32": SAME_CHARACTERS},
    "MBPP-like/20": {"swapped_arguments@3:16": SYMMETRIC},
    "MBPP-like/23": {"swapped_arguments@3:21": SYMMETRIC},
    "MBPP-like/24": {
        "swapped_arguments@4:21": SYMMETRIC,
        "swapped_arguments@4:25": SYMMETRIC,
    },
    "MBPP-like/25": {"swapped_arguments@5:23": SYMMETRIC},
    "MBPP-like/29": {"swapped_arguments@3:31": "both ways are equally long"},
}
"""By the problem's name and the mutation's key."""
