"""The command line as a module: `python -m llm_decpomdp`."""

from llm_decpomdp.benchmarks.cli.main import main

if __name__ == "__main__":
    main()
