"""Files at URLs: `url_storage` is their storage, `buckets` says what it needs of object stores and file
systems, `object_bucket` and `hdfs_bucket` are these, `list_ahead` says which folders are listed together, and
`credentials` keeps secrets where they belong. `s3_region` finds the region of a bucket,
`default_file_system` the name node of a URL without one."""
