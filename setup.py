"""The folders at the top of the checkout are the sub-packages of llm_decpomdp; all else is in pyproject.toml."""

from setuptools import find_packages, setup

FOLDERS = {
    "llm_decpomdp": "llm_decpomdp",
    **{
        f"llm_decpomdp.{name}": name
        for name in ("envs", "agents", "algorithms", "integrations", "benchmarks")
    },
}
DEVELOPMENT = ("performance*", "quality*")
"""Packages of use in a checkout only: how fast the parts are, and how good the data."""

setup(
    package_dir=FOLDERS,
    py_modules=[
        "llm_decpomdp_command",  # is there before the package is imported
        "llm_decpomdp_verifiers",  # verifiers names its plug-ins by modules without dots
    ],
    packages=[
        package
        for name, folder in FOLDERS.items()
        for package in (name, *(f"{name}.{p}" for p in find_packages(folder, exclude=DEVELOPMENT)))
    ],
)
