"""Render RESULTS.md from the results of the stages: targets, all measurements, and memory."""

from collections.abc import Iterable, Iterator

from benchmarks.memory import MIB, Growth
from benchmarks.producer import STALLED, stalled_limit_mib
from benchmarks.results import Results
from benchmarks.targets import LIMITS, TARGETS, UNLIMITED, WORKER_LIMIT_MIB, Target
from benchmarks.timing import Measurement, find


def render(stages: dict[str, Results]) -> str:
    measurements = [measurement for results in stages.values() for measurement in results.measurements]
    growths = [growth for results in stages.values() for growth in results.growths]
    parts = [
        [
            "# Results",
            "",
            "Written by `python -m benchmarks`. README.md describes the method and its limits.",
        ],
        _provenance(stages),
        ["## Targets", "", *target_lines(measurements, growths)],
        ["## All measurements", *_measurement_lines(measurements)],
        ["## Memory", "", *_memory_lines(growths)] if growths else [],
    ]
    return "\n".join("\n".join([*part, ""]) for part in parts if part)


def _provenance(stages: dict[str, Results]) -> list[str]:
    lines = []
    for stage, results in stages.items():
        machine = ", ".join(f"{name} {value}" for name, value in results.machine.items())
        versions = ", ".join(f"{name} {value}" for name, value in results.versions.items())
        lines.append(f"- {stage}, {results.made}: {machine}; {versions}")
    return lines


def target_lines(measurements: list[Measurement], growths: list[Growth]) -> Iterator[str]:
    """Yield the table of targets."""
    yield "| work | data | kafkalog | peer | ratio | target | |"
    yield "|---|---|--:|--:|--:|--:|---|"
    for target in TARGETS:
        pairs = list(_pairs(measurements, target))
        if not pairs:
            continue
        ours, peer = min(pairs, key=_ratio)
        ratio = _ratio((ours, peer))
        work, peer_rate = f"{target.work}: {target.ours}", f"{peer.contender}: {_rate(peer)}"
        corpus = f"{ours.corpus}, the worst of {len(pairs)}" if len(pairs) > 1 else ours.corpus
        verdict = _verdict(ratio >= target.ratio)
        yield _line(work, corpus, _rate(ours), peer_rate, f"{ratio:.2f}", f"{target.ratio:g}", verdict)
    for limit in LIMITS:
        for ours in measurements:
            if (ours.work, ours.contender) == (limit.work, limit.ours):
                work, seconds = f"{ours.work}: {ours.contender}", ours.median_seconds
                verdict = _verdict(seconds <= limit.seconds)
                yield _line(work, ours.corpus, f"{seconds:.2f} s", "", "", f"{limit.seconds:g} s", verdict)
    limited = [growth for growth in growths if not growth.contender.startswith(UNLIMITED)]
    if limited:
        worst = max(limited, key=lambda growth: growth.grown_bytes)
        work, mib = f"memory above the start, at worst: {worst.contender}", worst.grown_bytes / MIB
        verdict = _verdict(mib <= WORKER_LIMIT_MIB)
        yield _line(work, worst.corpus, f"{mib:.0f} MiB", "", "", f"{WORKER_LIMIT_MIB} MiB", verdict)
    for growth in growths:
        if growth.contender == STALLED:
            mib, limit_mib = growth.grown_bytes / MIB, stalled_limit_mib(growth)
            work, verdict = f"memory above the start: {growth.contender}", _verdict(mib <= limit_mib)
            yield _line(work, growth.corpus, f"{mib:.0f} MiB", "", "", f"{limit_mib:.0f} MiB", verdict)


def _pairs(measurements: list[Measurement], target: Target) -> Iterator[tuple[Measurement, Measurement]]:
    """Yield (`target.ours`, the fastest of `target.peers`) for each corpus of the target."""
    for ours in measurements:
        if (ours.work, ours.contender) == (target.work, target.ours) and target.corpus in (None, ours.corpus):
            candidates = (find(measurements, target.work, ours.corpus, peer) for peer in target.peers)
            peers = [peer for peer in candidates if peer is not None]
            if peers:
                yield ours, min(peers, key=lambda peer: peer.median_seconds)


def _ratio(pair: tuple[Measurement, Measurement]) -> float:
    ours, peer = pair
    return peer.median_seconds / ours.median_seconds


def _measurement_lines(measurements: list[Measurement]) -> Iterator[str]:
    for work in dict.fromkeys(measurement.work for measurement in measurements):
        yield from ["", f"### {work}", ""]
        yield "| data | who | median s (min–max, runs) | M rows/s | ns/row | MB/s | MB out | others' cores |"
        yield "|---|---|--:|--:|--:|--:|--:|--:|"
        for measurement in measurements:
            if measurement.work == work:
                yield _measurement_line(measurement)


def _measurement_line(result: Measurement) -> str:
    times = (result.median_seconds, min(result.seconds), max(result.seconds))
    median, least, most = (f"{seconds:.3g}" for seconds in times)
    seconds = f"{median} ({least}–{most}, {len(result.seconds)})"
    others = f"{result.foreign_cores:.2f}"
    if result.rows <= 1000:  # too few for a rate
        return _line(result.corpus, result.contender, seconds, "", "", "", "", others)
    rate = f"{result.rows_per_second / 1e6:.2f}"
    nanoseconds = f"{result.median_seconds / result.rows * 1e9:.1f}"
    throughput = f"{result.size_bytes / result.median_seconds / 1e6:.0f}" if result.size_bytes else ""
    written = f"{result.written_bytes / 1e6:.1f}" if result.written_bytes else ""
    return _line(result.corpus, result.contender, seconds, rate, nanoseconds, throughput, written, others)


def _memory_lines(growths: Iterable[Growth]) -> Iterator[str]:
    yield "| reader | topic (codec, batches, segments) | start MiB | peak MiB | growth MiB |"
    yield "|---|---|--:|--:|--:|"
    for growth in growths:
        sizes = (growth.start_bytes, growth.peak_bytes, growth.grown_bytes)
        start, peak, grown = (size / MIB for size in sizes)
        yield f"| {growth.contender} | {growth.corpus} | {start:.0f} | {peak:.0f} | {grown:.0f} |"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _rate(measurement: Measurement) -> str:
    return f"{measurement.rows_per_second / 1e6:.2f} M/s"


def _verdict(met: bool) -> str:
    return "met" if met else "**missed**"
