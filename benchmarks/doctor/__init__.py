"""Examination of this machine: working parts, missing parts, remedies; `llm-decpomdp doctor`."""
