"""Laws of scalability: pure maths, T(n; parameters). One law per file; a new law is a new file and a line here."""

from pipeline.laws.amdahl import AMDAHL
from pipeline.laws.amdahl_log import AMDAHL_LOG
from pipeline.laws.constant import CONSTANT
from pipeline.laws.dowdy import DOWDY
from pipeline.laws.downey_high import DOWNEY_HIGH
from pipeline.laws.downey_low import DOWNEY_LOW
from pipeline.laws.downey_overhead import DOWNEY_LINEAR, DOWNEY_LOG
from pipeline.laws.law import Law
from pipeline.laws.power import POWER
from pipeline.laws.smirni import SMIRNI
from pipeline.laws.usl import USL

_BASIC = (CONSTANT, AMDAHL, DOWNEY_LOW, DOWNEY_HIGH)
_MORE = (USL, AMDAHL_LOG, DOWNEY_LINEAR, DOWNEY_LOG, DOWDY, SMIRNI, POWER)
LAWS: dict[str, Law] = {law.name: law for law in (*_BASIC, *_MORE)}

__all__ = ["LAWS", "Law"]
