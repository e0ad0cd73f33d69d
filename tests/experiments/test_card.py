"""Settings that a card advises."""

from experiments.card import chosen, with_advice

AMONG = [{"temperature": 0.7}, {"temperature": 1.0}, {"temperature": 1.5}]


def test_the_smallest_cost_with_the_most_samples_is_chosen() -> None:
    assert chosen(AMONG, [[1.0, 2.0, 3.0]]) == AMONG[0]
    assert chosen(AMONG, [[1.0, 2.0, 3.0], [1.0, 0.9, 0.8]]) == AMONG[2]


def test_of_equals_fewer_samples_decide() -> None:
    """Where many samples solve everything, the first of the candidates is no better than the others."""
    assert chosen(AMONG, [[3.0, 1.0, 2.0], [0.5, 0.5, 0.5]]) == AMONG[1]
    assert chosen(AMONG, [[3.0, 1.0, 2.0], [0.5, 0.5, 0.5], [0.1, 0.3, 0.1]]) == AMONG[2]


def test_advice_is_renewed_for_the_sizes_that_were_measured() -> None:
    old = [
        {"size": [20], "samples": 1, "options": {"temperature": 1.0}},
        {"size": [20], "samples": 1, "options": {}, "with_search": True},
        {"size": [50], "samples": 1, "options": {"temperature": 0.3}},
    ]
    rows = [
        {"set": name, "samples": 8, "way": "chain", "options": {"temperature": 2.0, "steps": 20}}
        for name in ("atsp-20", "atsp-50")
    ]
    new = {"size": [20], "samples": 8, "options": {"temperature": 2.0}}
    assert with_advice({"solving": old}, rows, [[20]]) == [new, *old[1:]]
    assert with_advice({}, rows, [[20]]) == [new]
