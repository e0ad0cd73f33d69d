"""Settings that a card advises."""

from experiments.card import chosen, settings_of, with_advice

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


def test_a_size_has_a_setting_for_the_model_alone_and_one_for_search_inside() -> None:
    plain, merged = {"temperature": 0.3, "decodes": 9}, {"temperature": 0.8, "merge": 9}
    card = {
        "sizes": [[20], [50]],
        "solving": [
            {"size": [20], "samples": 1, "options": {"temperature": 1.0}},
            {"size": [20], "samples": 32, "options": {"temperature": 1.1}},
            {"size": [20], "samples": 128, "options": {"temperature": 1.2}},
            {"size": [50], "samples": 1, "options": plain},
            {"size": [50], "samples": 1, "options": merged},
            {"size": [50], "samples": 1, "options": {"improve_rounds": 7}, "with_search": True},
        ],
    }
    settings = [
        {"size": [20], "options": {"temperature": 1.1}},
        {"size": [20], "with_search": True, "options": {"temperature": 1.1}},
        {"size": [50], "options": merged},
        {"size": [50], "options": plain},
        {"size": [50], "with_search": True, "options": {"improve_rounds": 7}},
    ]
    assert settings_of(card) == settings
    assert settings_of({**card, "solving": settings}) == settings
