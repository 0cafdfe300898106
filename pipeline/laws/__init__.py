"""Laws of scalability: pure maths, T(n; parameters). One law per file; a new law is a new file and a line here."""

from pipeline.laws.amdahl import AMDAHL
from pipeline.laws.constant import CONSTANT
from pipeline.laws.downey_high import DOWNEY_HIGH
from pipeline.laws.downey_low import DOWNEY_LOW
from pipeline.laws.law import Law

LAWS: dict[str, Law] = {law.name: law for law in (CONSTANT, AMDAHL, DOWNEY_LOW, DOWNEY_HIGH)}

__all__ = ["LAWS", "Law"]
