"""Methods that learn log runtimes from encoded inputs. A new one is a file here and a line in `registry`."""
