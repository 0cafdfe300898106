"""One folder for each log format. No format imports another; each hands over rows as reader.py describes them."""
