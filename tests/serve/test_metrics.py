"""Numbers in the text that Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from icdc.serve.metrics import Metrics


def test_every_number_has_its_name_and_says_what_it_is() -> None:
    metrics = Metrics()
    metrics.gauge("icdc_queue_length", "Jobs that wait.", lambda: 3)
    metrics.requests.labels("200", "/v1/solve").inc()
    metrics.batches.observe(2)
    families = {family.name: family for family in text_string_to_metric_families(metrics.text())}
    assert set(families) == {
        "icdc_requests", "icdc_jobs", "icdc_worker_restarts", "icdc_wait_seconds", "icdc_solve_seconds",
        "icdc_batch_size", "process_resident_memory_bytes", "icdc_queue_length",
    }  # fmt: skip
    assert all(family.documentation.endswith(".") for family in families.values())
    values = {sample.name: sample.value for family in families.values() for sample in family.samples}
    assert values["icdc_requests_total"] == 1
    assert values["icdc_worker_restarts_total"] == 0
    assert values["icdc_batch_size_count"] == 1
    assert values["icdc_queue_length"] == 3
    assert values["process_resident_memory_bytes"] > 0
    assert not [name for name in values if name.endswith("_created")]


def test_servers_in_one_process_count_for_themselves() -> None:
    one, other = Metrics(), Metrics()
    one.jobs.labels(state="done").inc()
    assert 'icdc_jobs_total{state="done"} 1.0' in one.text()
    assert "icdc_jobs_total{" not in other.text()
