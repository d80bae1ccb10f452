"""Selections that branches take over."""

from __future__ import annotations

import pytest

from tileloom.tile import parse, run_passes, verify
from tileloom.tile.ir.core import Operation


def combined(body: str) -> Operation:
    """The function with a body, after the pass."""
    module = parse(
        f"""tt.func @f(%c: i1, %d: i1, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {{
        {body}
        }}"""
    )
    verify(module)
    run_passes(module, ["tritongpu-combine-tensor-select-and-if"], check=True)
    return module.body.first  # type: ignore[return-value]


def named(function: Operation, name: str) -> list[Operation]:
    """The operations of a name."""
    return [op for op in function.walk() if op.name == name]


SELECT = "%s = arith.select %c, %a, %b : tensor<4xf32>\n"


@pytest.mark.parametrize("negated", [False, True])
def test_a_selection_before_a_branch_is_yielded_by_it(negated: bool) -> None:
    not_c = "%true = arith.constant true\n%n = arith.xori %c, %true : i1\n"
    function = combined(
        f"""{not_c}{SELECT}
        %r = scf.if {"%n" if negated else "%c"} -> (tensor<4xf32>) {{
          scf.yield %a : tensor<4xf32>
        }} else {{
          scf.yield %b : tensor<4xf32>
        }}
        %t = arith.addf %s, %r : tensor<4xf32>
        tt.return %t : tensor<4xf32>"""
    )
    assert not named(function, "arith.select")
    (branch,) = named(function, "scf.if")
    _, _, a, b = function.body.arguments
    then_yield, else_yield = (region.blocks[0].terminator for region in branch.regions)
    pair = (then_yield.operands[1], else_yield.operands[1])
    assert pair == ((b, a) if negated else (a, b))
    (total,) = named(function, "arith.addf")
    assert list(total.operands) == [branch.results[1], branch.results[0]]


def test_a_branch_without_else_gets_one() -> None:
    function = combined(
        f"""{SELECT}
        scf.if %c {{ tt.print "x" : %a : tensor<4xf32> }}
        tt.return %s : tensor<4xf32>"""
    )
    (branch,) = named(function, "scf.if")
    assert [len(region.blocks) for region in branch.regions] == [1, 1]
    assert named(function, "tt.return")[0].operands[0] is branch.results[0]


def test_uses_within_the_branches_are_known() -> None:
    function = combined(
        f"""{SELECT}
        %r = scf.if %c -> (tensor<4xf32>) {{
          %x = arith.negf %s : tensor<4xf32>
          scf.yield %x : tensor<4xf32>
        }} else {{
          %x = arith.mulf %s, %s : tensor<4xf32>
          scf.yield %x : tensor<4xf32>
        }}
        tt.return %r : tensor<4xf32>"""
    )
    _, _, a, b = function.body.arguments
    assert named(function, "arith.negf")[0].operands[0] is a
    assert list(named(function, "arith.mulf")[0].operands) == [b, b]


@pytest.mark.parametrize(
    "body",
    [
        # Another condition; a use before the branch; a branch in another block.
        SELECT + 'scf.if %d { tt.print "x" : %a : tensor<4xf32> }\ntt.return %s : tensor<4xf32>',
        SELECT
        + 'tt.print "s" : %s : tensor<4xf32>\nscf.if %c { tt.print "x" : %a : tensor<4xf32> }\n'
        + "tt.return %s : tensor<4xf32>",
        SELECT
        + 'scf.if %d { scf.if %c { tt.print "x" : %a : tensor<4xf32> } }\n'
        + "tt.return %s : tensor<4xf32>",
    ],
)
def test_others_are_left_alone(body: str) -> None:
    assert len(named(combined(body), "arith.select")) == 1


def test_several_selections_go_to_one_branch() -> None:
    function = combined(
        SELECT
        + """%s2 = arith.select %c, %b, %a : tensor<4xf32>
        scf.if %c { tt.print "x" : %a : tensor<4xf32> }
        %t = arith.addf %s, %s2 : tensor<4xf32>
        tt.return %t : tensor<4xf32>"""
    )
    (branch,) = named(function, "scf.if")
    assert len(branch.results) == 2
