"""What a valid schema is, and what makes two of them incompatible, as this broker has it."""

from goqueue.core.schemas.comparing import Rules
from goqueue.core.schemas.compatibility.check import findings
from goqueue.core.schemas.validation.checking import checking

RULES = Rules(checking, findings)
