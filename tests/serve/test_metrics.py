"""Numbers in the text that Prometheus reads."""

from icdc.serve.metrics import Counter, Gauge, Histogram, Metrics


def test_counters_gauges_and_histograms() -> None:
    counter = Counter("c_total", "")
    counter.inc(route="/a", code="200")
    counter.inc(2, code="200", route="/a")
    counter.inc(code="404", route="/a")
    assert counter.lines() == ['c_total{code="200",route="/a"} 3', 'c_total{code="404",route="/a"} 1']
    assert Gauge("g", "", lambda: 1.5).lines() == ["g 1.5"]
    histogram = Histogram("h", "", (1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 7.0):
        histogram.observe(value)
    assert histogram.lines() == [
        'h_bucket{le="1"} 2',
        'h_bucket{le="2"} 3',
        'h_bucket{le="+Inf"} 4',
        "h_sum 10",
        "h_count 4",
    ]


def test_every_metric_says_what_it_is() -> None:
    metrics = Metrics()
    text = metrics.text()
    assert text.endswith("\n")
    for metric in metrics.all:
        assert f"# HELP {metric.name} {metric.about}\n# TYPE {metric.name} {metric.kind}\n" in text
    assert "icdc_worker_restarts_total 0" in text
