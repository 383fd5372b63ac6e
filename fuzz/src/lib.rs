//! Fuzz targets of kvt: see the folder's README. The targets are tests; there is no library.
