"""Settings that a card advises."""

from experiments.card import advised_by_others, chosen

AMONG = [{"temperature": 0.7}, {"temperature": 1.0}, {"temperature": 1.5}]


def test_the_smallest_cost_with_the_most_samples_is_chosen() -> None:
    assert chosen(AMONG, [[1.0, 2.0, 3.0]]) == AMONG[0]
    assert chosen(AMONG, [[1.0, 2.0, 3.0], [1.0, 0.9, 0.8]]) == AMONG[2]


def test_of_equals_fewer_samples_decide() -> None:
    """Where many samples solve everything, the first of the candidates is no better than the others."""
    assert chosen(AMONG, [[3.0, 1.0, 2.0], [0.5, 0.5, 0.5]]) == AMONG[1]
    assert chosen(AMONG, [[3.0, 1.0, 2.0], [0.5, 0.5, 0.5], [0.1, 0.3, 0.1]]) == AMONG[2]


def test_advice_for_other_sizes_and_with_search_is_kept() -> None:
    entries = [
        {"size": [20], "samples": 1, "options": {}},
        {"size": [20], "samples": 1, "options": {}, "with_search": True},
        {"size": [200], "samples": 1, "options": {}},
    ]
    assert advised_by_others({"solving": entries}, [{"set": "atsp-20"}]) == entries[1:]
    assert advised_by_others({}, [{"set": "atsp-20"}]) == []
