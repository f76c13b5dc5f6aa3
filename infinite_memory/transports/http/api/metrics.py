"""Prometheus metrics: requests by route, and the state of the memory. No label holds client data."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from infinite_memory import __version__
from infinite_memory.contracts.session import OpenAdministration
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.stats import State
from infinite_memory.jobs.administration import ServiceState

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The metrics of one server.

    Args:
        built: Returns the engine, None while it is being built.
        administration: Returns the status of backups and jobs; without it they have no metrics.
    """

    def __init__(self, built: Callable[[], Engine | None], administration: OpenAdministration | None = None) -> None:
        self._built, self._administration = built, administration
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._memory = _Memory()
        self._registry.register(self._memory)
        labels = ("method", "route", "status")
        self._requests = Counter("infinite_memory_http_requests", "Requests", labels, registry=self._registry)
        self._seconds = Histogram(
            "infinite_memory_http_request_seconds", "Time to answer, in seconds", labels[:2], buckets=_BUCKETS,
            registry=self._registry,
        )  # fmt: skip

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record an answered request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    async def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        engine = self._built()
        self._memory.state = await engine.stats.state() if engine is not None else None
        self._memory.service = None
        if engine is not None and self._administration is not None:
            self._memory.service = await (await self._administration()).service_state()
        return generate_latest(self._registry)


class _Memory(Collector):
    """Collector of the memory's state at scrape time."""

    def __init__(self) -> None:
        self.state: State | None = None
        self.service: ServiceState | None = None

    def describe(self) -> Iterator[Metric]:
        return iter(())  # called at registration, before there is an engine

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("infinite_memory", "The program", {"version": __version__})
        state = self.state
        ready = state is not None and state.model == "ready"
        count = state.indexed if state is not None else None
        yield GaugeMetricFamily("infinite_memory_model_ready", "1 when the model is loaded", float(ready))
        yield GaugeMetricFamily(
            "infinite_memory_index_ready", "1 when the index can be searched", float(count is not None)
        )
        if state is not None and count is not None:
            yield GaugeMetricFamily("infinite_memory_memories", "Live memories in the index", count)
            yield GaugeMetricFamily("infinite_memory_pending", "Memories not yet embedded", state.pending)
        if self.service is not None:
            yield from _collect_service(self.service)


def _collect_service(service: ServiceState) -> Iterator[Metric]:
    up = float(service.is_database_up)
    yield GaugeMetricFamily("infinite_memory_mongodb_up", "1 when MongoDB answers within two seconds", up)
    yield GaugeMetricFamily("infinite_memory_free_disk_bytes", "Free space on the disk of the home", service.free_bytes)
    yield GaugeMetricFamily("infinite_memory_set_aside", "Documents that cannot be read", service.set_aside)
    if service.last_backup_at is not None:
        last_backup = service.last_backup_at.timestamp()
        yield GaugeMetricFamily(
            "infinite_memory_last_backup_timestamp_seconds", "When the last backup was made", last_backup
        )
    failed = GaugeMetricFamily("infinite_memory_job_failed", "1 when a job's last run failed", labels=["job"])
    succeeded = GaugeMetricFamily(
        "infinite_memory_job_last_success_timestamp_seconds", "When a job last did what it should", labels=["job"]
    )
    for job in service.jobs:
        failed.add_metric([job.name], float(job.failure is not None))
        if job.last_ok_at is not None:
            succeeded.add_metric([job.name], job.last_ok_at.timestamp())
    yield from (failed, succeeded)
