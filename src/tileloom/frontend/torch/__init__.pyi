from . import assemble as assemble
from . import frozen as frozen
from . import specialize as specialize
from .backend import tileloom as tileloom
from .kernel import watching as watching
from .registry import operators as operators
from .report import CompileCounts as CompileCounts
from .report import report as report
