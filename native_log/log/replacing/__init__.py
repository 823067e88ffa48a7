"""Replace segments of a log so that a crash leaves the old or the new ones (Kafka: LocalLog.replaceSegments).

| module | what |
|---|---|
| cleaned_segment | write a new segment under the suffix .cleaned |
| swap | put new segments in the place of old ones |
| interrupted | finish or undo a replacement that a crash interrupted |
"""
