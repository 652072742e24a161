"""One file, one source: from the files of a published data set to the examples of its TFDS data set."""
