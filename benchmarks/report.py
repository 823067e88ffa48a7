"""RESULTS.md from the results of the stages: what was asked, what was found, and all that was measured."""

from collections.abc import Iterable, Iterator

from benchmarks.claims import CLAIMS, LIMITS, UNLIMITED, WORKER_LIMIT_MIB, Claim
from benchmarks.growth import Growth
from benchmarks.measure import Measurement, find
from benchmarks.results import Results

MIB = 1024 * 1024


def render(stages: dict[str, Results]) -> str:
    measurements = [one for results in stages.values() for one in results.measurements]
    growths = [one for results in stages.values() for one in results.growths]
    parts = [
        ["# Results", "", "Written by `python -m benchmarks`; README.md says how, and what to make of it."],
        _provenance(stages),
        ["## What was asked", "", *_asked(measurements, growths)],
        ["## All that was measured", *_everything(measurements)],
        ["## Memory", "", *_memory(growths)] if growths else [],
    ]
    return "\n".join("\n".join([*part, ""]) for part in parts if part)


def _provenance(stages: dict[str, Results]) -> list[str]:
    lines = []
    for stage, results in stages.items():
        machine = ", ".join(f"{name} {value}" for name, value in results.machine.items())
        versions = ", ".join(f"{name} {value}" for name, value in results.versions.items())
        lines.append(f"- {stage}, {results.made}: {machine}; {versions}")
    return lines


def _asked(measurements: list[Measurement], growths: list[Growth]) -> Iterator[str]:
    yield "| work | on | kafkalog | peer | ratio | asked | |"
    yield "|---|---|--:|--:|--:|--:|---|"
    for claim in CLAIMS:
        pairs = list(_pairs(measurements, claim))
        if not pairs:
            continue
        ours, peer = min(pairs, key=_ratio)
        ratio = _ratio((ours, peer))
        what, beside = f"{claim.work}: {claim.ours}", f"{peer.contender}: {_rate(peer)}"
        on = ours.corpus if claim.corpus else f"{ours.corpus}, the worst of {len(pairs)}"
        verdict = _verdict(ratio >= claim.ratio)
        yield _line(what, on, _rate(ours), beside, f"{ratio:.2f}", f"{claim.ratio:g}", verdict)
    for limit in LIMITS:
        for one in measurements:
            if (one.work, one.contender) == (limit.work, limit.ours):
                took, what = one.median_seconds, f"{one.work}: {one.contender}"
                verdict = _verdict(took <= limit.seconds)
                yield _line(what, one.corpus, f"{took:.2f} s", "", "", f"{limit.seconds:g} s", verdict)
    limited = [one for one in growths if not one.contender.startswith(UNLIMITED)]
    if limited:
        worst = max(limited, key=lambda one: one.grown_bytes)
        mib, what = worst.grown_bytes / MIB, f"memory above the start, at worst: {worst.contender}"
        verdict = _verdict(mib <= WORKER_LIMIT_MIB)
        yield _line(what, worst.corpus, f"{mib:.0f} MiB", "", "", f"{WORKER_LIMIT_MIB} MiB", verdict)


def _pairs(measurements: list[Measurement], claim: Claim) -> Iterator[tuple[Measurement, Measurement]]:
    """What `claim.ours` did, and the fastest of its peers, on each corpus that the claim is about."""
    for ours in measurements:
        if (ours.work, ours.contender) == (claim.work, claim.ours) and claim.corpus in (None, ours.corpus):
            found = [find(measurements, claim.work, ours.corpus, peer) for peer in claim.peers]
            peers = [peer for peer in found if peer is not None]
            if peers:
                yield ours, min(peers, key=lambda one: one.median_seconds)


def _ratio(pair: tuple[Measurement, Measurement]) -> float:
    ours, peer = pair
    return peer.median_seconds / ours.median_seconds


def _everything(measurements: list[Measurement]) -> Iterator[str]:
    for work in dict.fromkeys(one.work for one in measurements):
        yield from ["", f"### {work}", ""]
        yield "| on | who | median s (min–max, runs) | M rows/s | ns each | MB/s | MB out | others' cores |"
        yield "|---|---|--:|--:|--:|--:|--:|--:|"
        for one in measurements:
            if one.work == work:
                yield _row(one)


def _row(one: Measurement) -> str:
    median, least, most = (f"{s:.3g}" for s in (one.median_seconds, min(one.seconds), max(one.seconds)))
    seconds = f"{median} ({least}–{most}, {len(one.seconds)})"
    others = f"{one.foreign_cores:.2f}"
    if one.rows <= 1000:  # a wait, not a rate
        return _line(one.corpus, one.contender, seconds, "", "", "", "", others)
    each = f"{one.median_seconds / one.rows * 1e9:.1f}"
    size = f"{one.size_bytes / one.median_seconds / 1e6:.0f}" if one.size_bytes else ""
    rate, written = (
        f"{one.rows_per_second / 1e6:.2f}",
        f"{one.written_bytes / 1e6:.1f}" if one.written_bytes else "",
    )
    return _line(one.corpus, one.contender, seconds, rate, each, size, written, others)


def _memory(growths: Iterable[Growth]) -> Iterator[str]:
    yield "| reader | topic (codec, batches, segments) | start MiB | peak MiB | grown MiB |"
    yield "|---|---|--:|--:|--:|"
    for one in growths:
        start, peak, grown = (size / MIB for size in (one.start_bytes, one.peak_bytes, one.grown_bytes))
        yield f"| {one.contender} | {one.corpus} | {start:.0f} | {peak:.0f} | {grown:.0f} |"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _rate(one: Measurement) -> str:
    return f"{one.rows_per_second / 1e6:.2f} M/s"


def _verdict(met: bool) -> str:
    return "met" if met else "**missed**"
