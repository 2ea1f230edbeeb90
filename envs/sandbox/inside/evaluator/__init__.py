"""The trusted process: runs tests, and asks the program for values."""
