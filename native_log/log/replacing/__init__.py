"""Replace segments so that a crash leaves either the old or the new ones (Kafka: LocalLog.replaceSegments).

| module | what |
|---|---|
| cleaned_segment | write a new segment under the suffix .cleaned |
| swap | replace old segments by new ones |
| interrupted | finish or undo a replacement that a crash interrupted |
"""
