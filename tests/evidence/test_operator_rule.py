"""The guess on ListOps from the outermost operator."""

from evidence.suite.operator_rule import guessed_right, most_frequent


def test_the_guess_is_the_most_frequent_value_of_the_outermost_operator() -> None:
    train = ["[MAX 1 9 ]", "[MAX 8 [MIN 9 ] ]", "[MAX 9 2 ]", "[MIN 0 [MAX 9 ] ]"]
    answers = most_frequent(train, [9, 8, 9, 0])
    assert answers == {"[MAX": 9, "[MIN": 0}
    right = guessed_right(["[MIN 9 0 ]", "[MIN 9 8 ]", "[MAX 9 0 ]"], [0, 8, 9], answers)
    assert right.tolist() == [True, False, True]


def test_the_smallest_of_equally_frequent_values_is_the_guess() -> None:
    assert most_frequent(["[SM 5 ]", "[SM 2 ]"], [5, 2]) == {"[SM": 2}
