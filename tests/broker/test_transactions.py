"""Read committed, aborted and open transactions."""

from __future__ import annotations

import pytest

from .cluster import ROW_COLUMNS, Cluster, rows

pytestmark = pytest.mark.broker
LEVELS = ["read_uncommitted", "read_committed"]


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    """Write committed, aborted and open transactions, and records without a transaction."""
    topic = cluster.create("transactions", segment_bytes=1024 * 1024)
    first = 0
    for round_number, end in enumerate(["commit", "abort", "abort", "commit", "abort"]):
        cluster.send(
            topic,
            3000,
            first=first,
            transactional_id=f"t{round_number % 2}",
            end=end,
            value_bytes=100,
            batch_size=4000,
        )
        cluster.send(topic, 500, first=first + 3000)
        first += 3500
    cluster.send(topic, 700, first=first, transactional_id="open", end="open", transaction_timeout_ms=900_000)
    cluster.send(topic, 300, first=first + 700)
    return topic


@pytest.mark.parametrize("isolation_level", LEVELS)
def test_the_log_of_a_running_broker_gives_what_a_consumer_gets(
    cluster: Cluster, topic: str, isolation_level: str
) -> None:
    uncommitted, consumed = cluster.consume(topic), cluster.consume(topic, isolation_level)
    log = cluster.log_up_to(topic, uncommitted.end)
    read = log.read(columns=ROW_COLUMNS, isolation_level=isolation_level)
    assert rows(read) == consumed.rows
    if isolation_level == "read_committed":
        assert log.last_stable_offset == consumed.end < uncommitted.end
        # without aborted records, and without all records from the open transaction on
        assert len(consumed.rows) == 2 * 3000 + 5 * 500


@pytest.mark.parametrize("cleanly", [True, False], ids=["clean stop", "killed"])
def test_the_log_of_a_stopped_broker_gives_what_a_consumer_got(
    cluster: Cluster, topic: str, cleanly: bool
) -> None:
    consumed = {level: cluster.consume(topic, level) for level in LEVELS}
    cluster.log_up_to(topic, consumed["read_uncommitted"].end)
    cluster.stop(cleanly=cleanly)
    log = cluster.log(topic)
    assert log.high_watermark == consumed["read_uncommitted"].end
    assert log.last_stable_offset == consumed["read_committed"].end
    for level in LEVELS:
        assert rows(log.read(columns=ROW_COLUMNS, isolation_level=level)) == consumed[level].rows
