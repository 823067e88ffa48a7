"""`kafkalog produce`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from native_log.cli.changes import Setting
from native_log.cli.completion import complete_file, complete_topic
from native_log.cli.options import Long, header_conditions, paths_argument
from native_log.codecs import CODECS

if TYPE_CHECKING:
    from native_log.cli.production import Format, Production
    from native_log.cli.stop_signals import StopSignals
    from native_log.producer import ProducerConfig


@click.command(short_help="Write lines or JSON as records.")
@paths_argument
@click.option(
    "--topic",
    "-t",
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Write to this topic. It is created if it does not exist. Default in JSON: the field `topic`.",
)
@click.option(
    "--input",
    "-i",
    "inputs",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True),
    shell_complete=complete_file,
    help="Read this file (may be repeated). - is stdin. Default: stdin.",
)
@click.option(
    "--format",
    "-f",
    "form",
    type=click.Choice(["lines", "json"], case_sensitive=False),
    default="lines",
    show_default=True,
    help="lines: a value on each line, with a key and headers if their separators are set. json: JSON Lines.",
)
@click.option(
    "--partition",
    "-p",
    metavar="N",
    type=Long(0),
    help="Write to this partition. Default: in JSON the field `partition`, otherwise by the key.",
)
@click.option("--key-separator", "-K", metavar="TEXT", help="The separator of key and value.")
@click.option(
    "--headers-delimiter", metavar="TEXT", help="The separator of the headers and the rest of the line."
)
@click.option("--headers-separator", metavar="TEXT", help="The separator of two headers. Default: a comma.")
@click.option(
    "--headers-key-separator",
    metavar="TEXT",
    help="The separator of a header's name and value. Default: a colon.",
)
@click.option("--null-marker", metavar="TEXT", help="A key or value with this text is null.")
@click.option(
    "--header",
    "-H",
    "headers",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Add this header to each record, without = with the value null (may be repeated).",
)
@click.option(
    "--compression",
    "-z",
    type=click.Choice(list(CODECS), case_sensitive=False),
    help="The codec. Default: none.",
)
@click.option(
    "--producer-property",
    "-X",
    "properties",
    type=Setting(),
    multiple=True,
    help="A setting of the producer, or of the topic, by Kafka's name (may be repeated).",
)
@click.option(
    "--partitions",
    metavar="N",
    type=Long(1),
    help="The number of partitions of topics that do not exist yet. Default: 1.",
)
@click.option("--cluster-id", metavar="ID", help="The cluster of a new log directory. Default: a random id.")
@click.option(
    "--node-id",
    metavar="N",
    type=Long(0),
    default=1,
    show_default=True,
    help="The broker of a new log directory.",
)
@click.option(
    "--mode",
    type=click.Choice(["failFast", "dropMalformed"], case_sensitive=False),
    metavar="[failFast|dropMalformed]",
    default="failFast",
    show_default=True,
    help="At an invalid line, or a record that is too large: stop with an error; report and skip it.",
)
def produce(
    paths: tuple[str, ...],
    topic: str | None,
    inputs: tuple[str, ...],
    properties: tuple[tuple[str, str], ...],
    compression: str | None,
    partitions: int | None,
    cluster_id: str | None,
    node_id: int,
    mode: str,
    **form: Any,
) -> None:
    r"""Write a record for each line of stdin or of files.

    PATH is the log directory of a stopped broker, all of them if the broker has several. If it does not exist
    or is empty, a log directory is created.

    lines: HEADERS, headers delimiter, KEY, key separator, VALUE, as in Kafka's console producer. Separators
    and the null marker may contain \t, \n, \r, \0, \\ and \xHH. Bytes are written unchanged, even if they are
    not UTF-8.

    json: an object on each line, as `kafkalog cat --format json` prints it, with some of the fields key,
    value, headers, topic, partition and timestamp (epoch ms or an ISO 8601 time). A key, value or header
    value is a string, null or {"base64": "..."}; other objects, arrays, numbers and booleans are written as
    compact JSON. Headers may also be an object of names and values. Fields that only a log determines, such
    as offset, are ignored. So are blank lines. Without a timestamp, or with -1 (a record that had none), a
    record gets the current time.

    SIGINT (Ctrl-C) and SIGTERM end the input: records that were sent before are written. A second signal ends
    the command at once.

    With -X transactional.id=ID, the records are one transaction, which an error or a signal aborts. It must
    end within transaction.timeout.ms.
    """
    from native_log.cli.production import STDIN, Production, Tally, open_or_create, skipped_errors
    from native_log.cli.runner import print_error
    from native_log.cli.stop_signals import StopSignals
    from native_log.producer import KafkaLogProducer

    settings = _settings(properties, {"compression.type": compression, "num.partitions": partitions})
    config = _parse_config(settings)
    line_format = _line_format(topic, **form)
    try:
        log_dir = open_or_create(paths, topic, config.num_partitions, cluster_id, node_id)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    counts = {name: len(numbers) for name, numbers in log_dir.topics().items()}
    tally = Tally(skipped_errors(mode, config))
    with StopSignals() as signals:
        production = Production(
            KafkaLogProducer(log_dir, settings, _fails_on_full_disk=True),
            config,
            line_format,
            counts,
            tally,
            signals,
        )
        try:
            production.run(inputs or (STDIN,))
        finally:
            if tally.error is not None:
                print_error(tally.error)
            if signals.received:
                click.echo(f"kafkalog: {_describe_stop(signals, production)}", err=True)
            click.echo(tally)
    if tally.error is not None:
        raise SystemExit(tally.exit_code)
    if signals.received:
        raise SystemExit(128 + signals.received[0])


def _describe_stop(signals: StopSignals, production: Production) -> str:
    name = signals.received[0].name
    if production.last_line is None:
        return f"stopped by {name} before the first line"
    return f"stopped by {name} after {production.last_line}"


def _settings(
    properties: tuple[tuple[str, str], ...], options: dict[str, str | int | None]
) -> dict[str, object]:
    settings: dict[str, object] = dict(properties)
    for name, value in options.items():
        if value is None:
            continue
        if name in settings:
            raise click.UsageError(f"expected {name} once, found it with -X and as an option")
        settings[name] = value
    return settings


def _parse_config(settings: dict[str, object]) -> ProducerConfig:
    from native_log.config import InvalidConfigError
    from native_log.producer import ProducerConfig

    for name in ("key.serializer", "value.serializer", "interceptor.classes"):
        if name in settings:
            raise click.UsageError(f"-X {name}: expected a setting without Java classes; leave it out")
    try:
        return ProducerConfig.parse(settings)
    except InvalidConfigError as error:
        raise click.UsageError(str(error)) from None


def _line_format(
    topic: str | None, form: str, partition: int | None, headers: tuple[str, ...], **texts: str | None
) -> Format:
    """Return how to read lines. `texts` are separators and the null marker, by the name of their option."""
    from native_log.cli.record_lines import JsonLines, TextLines

    fixed = tuple(
        (name, None if value is None else os.fsencode(value)) for name, value in header_conditions(headers)
    )
    decoded = {name: _decode(name, text) for name, text in texts.items() if text is not None}
    if form == "json":
        for name in decoded:
            raise click.UsageError(f"expected --format lines with {_option(name)}, found json")
        return JsonLines(topic, partition, fixed)
    if topic is None:
        raise click.UsageError("expected --topic, found none")
    for name in ("headers_separator", "headers_key_separator"):
        if name in decoded and "headers_delimiter" not in decoded:
            raise click.UsageError(f"expected --headers-delimiter with {_option(name)}, found none")
    return TextLines(topic, partition, fixed, **decoded)


def _decode(name: str, text: str) -> bytes:
    from native_log.cli.escapes import decode_escapes

    try:
        decoded = decode_escapes(text)
    except ValueError as error:
        raise click.UsageError(f"{_option(name)}: {error}") from None
    if not decoded and name != "null_marker":
        raise click.UsageError(f"{_option(name)}: expected a separator, found an empty text")
    return decoded


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
