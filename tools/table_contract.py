"""The contract of the published tables as a release has it: `python -m tools.table_contract` prints that of the code.

Its output is the file of a new release in `pipeline/publish/contracts`.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pipeline.publish.checks import contract_of
from pipeline.tables import TABLES
from pipeline.version import RELEASE

CONTRACTS = Path(__file__).resolve().parents[1] / "pipeline" / "publish" / "contracts"


def released_contracts() -> dict[str, dict[str, Any]]:
    """The contracts of the releases by file name, as in 0.1.json."""
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(CONTRACTS.glob("*.json"))}


def contract_text() -> str:
    """The contract of the code as a file of `contracts/`."""
    return json.dumps({"release": RELEASE, "tables": contract_of(TABLES.values())}, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(contract_text())
