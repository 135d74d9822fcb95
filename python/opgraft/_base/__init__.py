"""Used by every part of the package: errors, paths of files, packages that may be missing."""
