"""From pending work to values: what an observation computes, stores and keeps."""
