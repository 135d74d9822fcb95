"""Results whose rows come in the order of a score."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

from opgraft.torch._verify import _ties  # noqa: E402

SCORES = torch.tensor([0.9, 0.5, 0.5, 0.1])
BOXES = torch.arange(16.0).reshape(4, 4)


def compare(wanted, got, disturbed=None):
    return _ties.difference(wanted, got, lambda times: disturbed or wanted, roundings=100)


def test_the_same():
    assert compare([BOXES, SCORES], [BOXES.clone(), SCORES + 1e-7]) == ("", "")


def test_rows_of_the_same_score_in_another_order():
    order = torch.tensor([0, 2, 1, 3])
    wrong, how = compare([BOXES, SCORES], [BOXES[order], SCORES])
    assert not wrong and "order of 2 rows" in how


def test_rows_of_other_scores_in_another_order():
    order = torch.tensor([3, 1, 2, 0])
    assert compare([BOXES, SCORES], [BOXES[order], SCORES])[0]


def test_scores_that_are_near_one_another_are_no_tie():
    """Where many are nearly 1, as after a sigmoid, their order is still known."""
    scores = torch.tensor([0.9990, 0.9989, 0.9988, 0.9987])
    order = torch.tensor([0, 2, 1, 3])
    wrong, how = compare([BOXES, scores], [BOXES[order], scores.clone()])
    assert wrong and not how
    # Unless the scores themselves agree no better.
    wrong, how = compare([BOXES, scores], [BOXES[order], scores - 5e-5])
    assert not wrong and "order of 2 rows" in how


def test_scores_that_are_all_the_same():
    """The first rows of many: nothing says which they are."""
    scores = torch.ones(4)
    wrong, how = compare([BOXES, scores], [BOXES + 20, scores])
    assert wrong and how == _ties.UNDECIDED


@pytest.mark.parametrize("scores", [torch.ones(4), torch.zeros(4), 1 - torch.arange(4) * 1e-8])
def test_a_constant_is_no_score(scores):
    """It orders nothing: that rows may come in any order would be said of all results."""
    wrong, how = compare([scores, BOXES], [scores, BOXES.flip(0)])
    assert wrong and how == _ties.UNDECIDED
    labels = torch.arange(4)
    assert compare([scores, labels], [scores, labels.flip(0)])[0]


@pytest.mark.parametrize(
    ("wanted", "got"),
    [([-0.0, -0, -0], [-2.0, -4, -6]), ([3.0, 0, 0, 0, 0], [3.0, -1, -2, -3, -4])],
)
def test_a_tie_excuses_rows_of_its_own_score_alone(wanted, got):
    """What goes down, and is the same at its end, is no score that anything could be hidden by."""
    wanted, got = torch.tensor(wanted), torch.tensor(got)
    assert compare([wanted], [got])[0] and compare([wanted], [got])[1] == ""
    labels = torch.arange(len(wanted))
    assert compare([wanted, labels], [got, labels + 1]) == (
        compare([wanted], [got])[0],
        "",
    )


def test_a_constant_hides_nothing_beside_a_score():
    ones, scores = torch.ones(4), torch.tensor([0.9, 0.7, 0.5, 0.1])
    for table in ([ones, scores, BOXES], [scores, ones, BOXES]):
        wrong, how = compare(table, [*table[:2], BOXES + 20])
        assert wrong and how == ""


def test_a_row_that_is_another():
    other = BOXES.clone()
    other[1] += 1
    assert compare([BOXES, SCORES], [other, SCORES])[0]


def test_a_table_is_matched_as_a_whole():
    order, labels = torch.tensor([0, 2, 1, 3]), torch.tensor([1, 2, 3, 4])
    assert compare([BOXES, SCORES, labels], [BOXES[order], SCORES, labels])[0]


def test_results_without_scores_keep_their_order():
    assert compare([BOXES], [BOXES.flip(0)])[0]


def test_rounding_that_decides_which_rows_there_are():
    scores = torch.tensor([0.9, 0.7, 0.5, 0.1])
    fewer = [BOXES[:3], scores[:3]]
    # In torch it does not.
    assert compare([BOXES, scores], fewer)[0]
    wrong, how = compare([BOXES, scores], fewer, disturbed=fewer)
    assert not wrong and "by 3 of 4 rows" in how
    # A row that does not depend on it is missing, or is another.
    assert compare([BOXES, scores], [BOXES[1:3], scores[1:3]], disturbed=fewer)[0]
    assert compare([BOXES, scores], [BOXES[:3] + 1, scores[:3]], disturbed=fewer)[0]
    # Nothing can be said where most depend on it.
    wrong, how = compare([BOXES, scores], fewer, disturbed=[BOXES[:1], scores[:1]])
    assert wrong and how == _ties.UNDECIDED


def test_rows_that_are_cut_off_among_those_of_the_same_score():
    scores = torch.tensor([0.9, 0.7, 0.5, 0.5])
    other = BOXES.clone()
    other[3] += 7  # another row that has 0.5
    wrong, how = compare([BOXES, scores], [other, scores])
    assert not wrong and "by 2 of 4 rows" in how
    other[1] += 7  # but no other has 0.7
    assert compare([BOXES, scores], [other, scores])[0]
