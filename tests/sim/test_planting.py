"""How bugs are planted: another part is put in a public place. No method of a production class is patched.

So a refactoring inside a class breaks no planted bug, and the type checker holds each bug to the part that it
replaces. The rules are read from the code of the simulator:

- the place is a name of a module, or an attribute of a class that names the class of a part, as `appending_class`;
- the place is public, and nothing private is imported from the broker.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PLACE_IN_A_CLASS = "_class"


def faults_in(source: str) -> list[str]:
    """What the rules refuse, by line."""
    nodes = sorted(_statements(ast.parse(source)), key=lambda node: node.lineno)
    return [f"line {node.lineno}: {why}" for node in nodes for why in _faults_of(node)]


def _statements(tree: ast.AST) -> Iterator[ast.Call | ast.ImportFrom]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call | ast.ImportFrom))


def _faults_of(node: ast.Call | ast.ImportFrom) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module=str(module)) if module.startswith("goqueue"):
            yield from (f"{each.name} of {module} is private" for each in node.names if each.name.startswith("_"))
        case ast.Call(func=ast.Name("replaced"), args=[owner, ast.Constant(str(name)), _]):
            yield from _faults_of_place(ast.unparse(owner), name)


def _faults_of_place(owner: str, name: str) -> Iterator[str]:
    if name.startswith("_"):
        yield f"{name} of {owner} is private"
    elif owner.rpartition(".")[2][:1].isupper() and not name.endswith(PLACE_IN_A_CLASS):
        yield f"{name} of {owner} is no class of a part: replace the class where it is used"


@pytest.mark.parametrize("path", sorted(HERE.rglob("*.py")), ids=lambda path: str(path.relative_to(HERE)))
def test_bugs_are_planted_in_public_places(path: Path) -> None:
    assert faults_in(path.read_text()) == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ('replaced(Ledger, "_retries", retries)', "line 1: _retries of Ledger is private"),
        ('replaced(idrecall, "_free", free)', "line 1: _free of idrecall is private"),
        (
            'replaced(rebalance.Group, "close", leave)',
            "line 1: close of rebalance.Group is no class of a part: replace the class where it is used",
        ),
        (
            "from goqueue.storage.log.recovery import _Recovery",
            "line 1: _Recovery of goqueue.storage.log.recovery is private",
        ),
    ],
)
def test_a_method_or_a_private_name_is_refused(source: str, fault: str) -> None:
    assert faults_in(source) == [fault]


def test_a_part_is_replaced_in_a_module_or_by_the_class_of_its_owner() -> None:
    assert faults_in('replaced(Partition, "appending_class", AtOnce)\nreplaced(rebalance, "Group", Own)') == []
