"""The configs and sample logs that come with the package: `walltime run "$(python -m walltime.samples)"`."""

import sys
from pathlib import Path

FOLDERS = ("configs", "data_samples")


def sample(name: str = "sample.toml") -> Path:
    """The path of a config or a sample log, by its file name; FileNotFoundError lists those there are.

    An installed package has them beside its code, a checkout beside the package.
    """
    package = Path(__file__).resolve().parent
    for root in (package, package.parent):
        found = {path.name: path for folder in FOLDERS for path in sorted((root / folder).glob("*"))}
        if name in found:
            return found[name]
        if found:
            raise FileNotFoundError(f"no sample {name!r}: expected one of {', '.join(found)}")
    raise FileNotFoundError(f"no samples in {package}: expected the folders {' and '.join(FOLDERS)}")


if __name__ == "__main__":
    try:
        print(sample(*sys.argv[1:2]))  # noqa: T201  (this is what it is for)
    except FileNotFoundError as error:
        sys.exit(f"walltime.samples: {error}.")
